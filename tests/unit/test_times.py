"""Times are read in one place, strictly, and every part goes by the one wall clock."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("schema", "receiver", "worker", "adapter", "provider", "console")
    for path in (ROOT / folder).rglob("*.py")
]
READERS = {"fromisoformat", "strptime", "fromtimestamp", "utcfromtimestamp", "isoparse", "mktime", "timegm"}
"""What turns text, or a number of somebody else's, into a time."""
HTTP_DATES = {"parsedate", "parsedate_tz", "parsedate_to_datetime"}
WALL_CLOCKS = {"utcnow", "time_ns", "localtime", "gmtime"}


def names_in(path: Path) -> Iterator[str]:
    """Every attribute and name that is used in a module; `time.time` is one word."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
            if isinstance(node.value, ast.Name):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Name):
            yield node.id


def users_of(names: set[str]) -> dict[str, set[str]]:
    """The modules that use any of these names, and which."""
    found = {path.relative_to(ROOT).as_posix(): set(names_in(path)) & names for path in SOURCES}
    return {path: used for path, used in found.items() if used}


def test_only_the_timestamps_module_reads_times() -> None:
    assert users_of(READERS) == {"schema/wakegate_schema/timestamps.py": {"fromisoformat"}}


def test_only_the_headers_of_http_answers_are_read_as_http_dates() -> None:
    assert set(users_of(HTTP_DATES)) == {
        "worker/wakegate_worker/answer_times.py",
        "provider/wakegate_provider/delivery.py",
    }


def test_only_the_clock_reads_the_wall_clock() -> None:
    # file.py and harness_tables.py ask how old a file is, by the file system's own times.
    assert set(users_of(WALL_CLOCKS | {"time.time", "datetime.now", "datetime.today", "date.today"})) == {
        "schema/wakegate_schema/clock.py",
        "schema/wakegate_schema/harness_tables.py",
        "schema/wakegate_schema/store/sqlite/file.py",
    }
