"""Tables: as wide as what is in them, and on a terminal no wider than it."""

from support.tables import each_row
from wakegate_console.screen import Screen
from wakegate_console.table import Column, Layout, Row

ID = "f4b96ac4-404d-4f6a-9a03-a0565edc4922"
PIPE = Screen(None, "2026-11-30")
COLUMNS = (
    Column("id", "EXECUTION", "id"),
    Column("state", "STATE"),
    Column("key", "KEY"),
    Column("instance", "INSTANCE", spare=True),
    Column("at", "CREATED", "time"),
    Column("problem", "REASON", instead="reason", least=16),
)


def row(**changes: object) -> Row:
    """What is listed of one execution."""
    return {
        "id": ID, "state": "waiting", "key": "run-7:call-2", "instance": "refund-desk", "at": "2026-11-30T08:45:21.6Z",
        "problem": None, "reason": None,
    } | changes  # fmt: skip


def drawn(rows: list[Row], screen: Screen) -> list[str]:
    """The lines of a table."""
    layout = Layout(rows, COLUMNS, screen)
    return [layout.head(), *map(layout.line, rows)]


def test_a_pipe_gets_ids_and_times_whole() -> None:
    head, line = drawn([row(reason="approved")], PIPE)
    assert head.split() == ["EXECUTION", "STATE", "KEY", "INSTANCE", "CREATED", "REASON"]
    assert line == f"{ID}  waiting  run-7:call-2  refund-desk  2026-11-30T08:45:21Z  approved"


def test_a_terminal_gets_short_ids_and_the_time_of_today() -> None:
    _, line = drawn([row(reason="approved")], Screen(100, "2026-11-30"))
    assert line == "f4b96ac4   waiting  run-7:call-2  refund-desk  08:45:21  approved"


def test_another_day_is_a_date() -> None:
    assert "2026-11-30" in drawn([row()], Screen(100, "2026-12-01"))[1]


@each_row("width", [60, 72, 80, 132])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = [row(key="k" * 255, reason="credential_of_another_provider"), row(instance="i" * 90, problem="p" * 99)]
    assert all(len(line) <= width for line in drawn(rows, Screen(width, "2026-11-30")))


def test_what_is_spare_is_left_out_first_where_the_rest_would_not_fit() -> None:
    assert "INSTANCE" in drawn([row()], Screen(80, "2026-11-30"))[0]
    assert "INSTANCE" not in drawn([row(reason="x" * 30)], Screen(60, "2026-11-30"))[0]


def test_text_is_cut_where_it_is_longest() -> None:
    _, line = drawn([row(key="k" * 60)], Screen(80, "2026-11-30"))
    assert "kk…  refund-desk" in line


def test_a_problem_stands_where_the_reason_would() -> None:
    _, line = drawn([row(reason="approved", problem="no_thread")], PIPE)
    assert line.endswith("no_thread")


def test_what_is_not_known_is_a_dash() -> None:
    assert drawn([row(id=None, at=None)], Screen(80, "2026-11-30"))[1].split()[0] == "-"


def test_a_later_longer_row_is_whole_in_a_pipe_and_cut_on_a_terminal() -> None:
    longer = row(key="a-much-longer-key")
    assert "a-much-longer-key" in Layout([row()], COLUMNS, PIPE).line(longer)
    assert "a-much-long…" in Layout([row()], COLUMNS, Screen(100, "2026-11-30")).line(longer)
