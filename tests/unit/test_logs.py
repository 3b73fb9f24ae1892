"""Log lines: one line an event whatever is in it, bounded, with nothing of a body or a secret."""

import asyncio
import io
import json
import logging
import re
from pathlib import Path
from uuid import UUID

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from support.tables import each_row
from wakegate_schema import logs
from wakegate_schema.errors import WakegateError

EVIL = 'a\nINFO forged\r\n\x1b[31m\x00\u2028\u202e\udc80"=é'


def start(log_format: str = "json", level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.configure(log_format, stream, level=level)  # type: ignore[arg-type]
    return stream


def only(stream: io.StringIO) -> dict[str, object]:
    """Return the one JSON line that was written."""
    (line,) = stream.getvalue().splitlines()
    found: dict[str, object] = json.loads(line)
    return found


def test_a_json_line_has_time_level_event_and_action() -> None:
    stream = start()
    structlog.get_logger().info("submitted", action="submit", execution_id="e1", attempt=2, new=True)
    line = only(stream)
    timestamp = line.pop("timestamp")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", str(timestamp))
    assert line == {
        "level": "info",
        "event": "submitted",
        "action": "submit",
        "execution_id": "e1",
        "attempt": 2,
        "new": True,
    }


def test_a_line_without_an_action_gets_one() -> None:
    stream = start()
    structlog.get_logger().info("hello")
    assert only(stream)["action"] == "log"


def test_a_console_line_is_for_people() -> None:
    stream = start("console")
    structlog.get_logger().warning("parked", action="park", instance="b29a", why="no credential", empty="")
    (line,) = stream.getvalue().splitlines()
    assert re.match(r"\S+Z warning {2}parked action=park instance=b29a why=\"no credential\" empty=\"\"$", line)


@pytest.mark.parametrize(("event", "action"), [("listening", "listening"), ("not renewed", "not_renewed")])
def test_an_action_that_repeats_the_event_is_left_out_for_people(event: str, action: str) -> None:
    stream = start("console")
    structlog.get_logger().info(event, action=action, url="http://x")
    assert stream.getvalue().endswith(f" info     {event} url=http://x\n")


def test_an_action_is_never_left_out_for_machines() -> None:
    stream = start("json")
    structlog.get_logger().info("listening", action="listening")
    assert only(stream)["action"] == "listening"


def test_every_line_names_its_program() -> None:
    stream = io.StringIO()
    logs.configure("json", stream, program="receiver")
    structlog.get_logger().info("listening", action="listening")
    logging.getLogger("some.library").warning("odd")
    structlog.get_logger().info("started", action="start", program="worker")
    assert [json.loads(line)["program"] for line in stream.getvalue().splitlines()] == [
        "receiver",
        "receiver",
        "worker",
    ]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_value_can_begin_a_line_of_its_own(log_format: str) -> None:
    stream = start(log_format)
    structlog.get_logger().info(EVIL, action=EVIL, value=EVIL, nested={"a": [EVIL]}, **{EVIL: EVIL})
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert text[:-1].isprintable()


@pytest.mark.parametrize("log_format", ["json", "console"])
@given(
    event=st.text(max_size=50),
    fields=st.dictionaries(
        st.text(min_size=1, max_size=9), st.text() | st.binary() | st.floats() | st.integers() | st.lists(st.text())
    ),
)
def test_every_line_is_one_bounded_line(log_format: str, event: str, fields: dict[str, object]) -> None:
    stream = start(log_format)
    fields = {name: value for name, value in fields.items() if name not in {"event", "exc_info", "self"}}
    structlog.get_logger().info(event, **fields)
    written = stream.getvalue().encode("utf-8", "backslashreplace")
    assert written.count(b"\n") == 1
    assert len(written) <= logs.LINE_LIMIT
    assert stream.getvalue()[:-1].isprintable()


@each_row("log_format", ["json", "console"])
@each_row("filling", ["x", "\n", "\U0001f600", "\U000e0001", '"'])
def test_a_line_is_never_over_its_limit(log_format: str, filling: str) -> None:
    stream = start(log_format)
    long = filling * 50_000
    structlog.get_logger().error(long, action=long, **{f"{number}{long[:99]}": long for number in range(200)})
    written = stream.getvalue().encode()
    assert written.count(b"\n") == 1
    assert len(written) <= logs.LINE_LIMIT
    if log_format == "json":
        assert {"timestamp", "level", "event", "action", "fields_left_out"} <= set(json.loads(written))


def test_a_long_field_is_cut_and_the_others_stay() -> None:
    stream = start()
    structlog.get_logger().info("x", action="a", long="y" * 9000, short="z")
    line = only(stream)
    assert str(line["long"]).endswith("…")
    assert line["short"] == "z"


def test_bytes_are_only_counted() -> None:
    stream = start()
    structlog.get_logger().info("x", action="a", body=b"s3cr3t")
    assert only(stream)["body"] == "6 bytes"
    assert "s3cr3t" not in stream.getvalue()


def test_ids_and_paths_are_written_as_text() -> None:
    stream = start()
    structlog.get_logger().info("x", id=UUID(int=1), path=Path("/a"), huge=10**30)
    line = only(stream)
    assert (line["id"], line["path"], line["huge"]) == (str(UUID(int=1)), "/a", str(10**30))


def test_a_value_without_a_text_stops_nothing() -> None:
    stream = start()
    circle: list[object] = []
    circle.append(circle)
    structlog.get_logger().info("x", keys={(1, 2): 3}, circle=circle)
    assert only(stream)["circle"] == "a list that has no text"


def test_numbers_that_json_has_no_word_for_become_text() -> None:
    stream = start()
    structlog.get_logger().info("x", a=float("nan"), b=float("-inf"))
    assert json.loads(stream.getvalue(), parse_constant=pytest.fail)["a"] == "nan"


def test_lines_below_the_level_are_left_out() -> None:
    stream = start(level="warning")
    structlog.get_logger().info("quiet")
    logging.getLogger("x").info("quiet")
    assert stream.getvalue() == ""


def test_stdlib_logging_comes_the_same_way() -> None:
    stream = start()
    logging.getLogger("some.library").warning("retrying %d times\nnow", 3)
    line = only(stream)
    assert line["action"] == "library"
    assert line["logger"] == "some.library"
    assert line["level"] == "warning"
    assert line["event"] == "retrying 3 times\nnow"


def test_a_stdlib_message_that_does_not_format_is_still_written() -> None:
    logging.getLogger().handlers.clear()  # pytest's own raises
    stream = start()
    logging.getLogger("some.library").warning("%d times", "x")
    assert only(stream)["event"] == "%d times"


def test_what_aiohttp_quotes_of_its_input_is_not_written() -> None:
    stream = start()
    try:
        int("Invalid header value: b'Authorization: Bearer s3cr3t'")
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling request from %s", "s3cr3t-host")
    line = only(stream)
    assert line["event"] == "Error handling request from %s"
    assert line["exception"] == "ValueError"
    assert "test_logs.py" in str(line["traceback"])
    assert "s3cr3t" not in stream.getvalue()


async def test_asyncios_repr_of_a_failed_task_is_not_written() -> None:
    stream = start()

    async def fail() -> None:
        raise RuntimeError("s3cr3t")

    loop = asyncio.get_running_loop()
    task = loop.create_task(fail())
    await asyncio.wait([task])
    loop.call_exception_handler(
        {"message": "Task exception was never retrieved", "future": task, "exception": task.exception()}
    )
    assert only(stream)["event"] == "Task exception was never retrieved"
    assert "s3cr3t" not in stream.getvalue()


def test_a_deep_traceback_is_bounded() -> None:
    stream = start()

    def fall(depth: int) -> None:
        if depth:
            fall(depth - 1)
        raise KeyError("s3cr3t")

    try:
        fall(200)
    except KeyError:
        structlog.get_logger().exception("failed", action="run")
    line = only(stream)
    assert str(line["traceback"]).count(" < ") == 11
    assert "s3cr3t" not in stream.getvalue()


def test_the_message_of_our_own_errors_and_of_the_system_is_written() -> None:
    stream = start()
    for error in (WakegateError("the store is full"), OSError(28, "No space left on device")):
        structlog.get_logger().error("failed", action="x", exc_info=error)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["exception_message"] == "the store is full"
    assert second["exception_message"] == "No space left on device"


def test_an_errors_cause_is_named_by_its_type() -> None:
    stream = start()
    try:
        try:
            dict[str, int]()["s3cr3t"]
        except KeyError as error:
            raise WakegateError("no such row") from error
    except WakegateError:
        structlog.get_logger().exception("failed", action="x")
    assert only(stream)["exception_cause"] == "KeyError"
    assert "s3cr3t" not in stream.getvalue()


def test_bound_context_is_on_every_line() -> None:
    stream = start()
    structlog.contextvars.bind_contextvars(service="receiver")
    structlog.get_logger().info("x", action="a")
    assert only(stream)["service"] == "receiver"


def test_aiohttps_access_log_is_off() -> None:
    stream = start(level="debug")
    logging.getLogger("aiohttp.access").info("GET /s3cr3t")
    assert stream.getvalue() == ""


def test_configuring_again_replaces_the_first_stream() -> None:
    first, second = start(), start()
    logging.getLogger("x").warning("once")
    structlog.get_logger().info("twice")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 2


def test_a_stream_that_cannot_be_written_stops_nothing() -> None:
    stream = start()
    stream.close()
    structlog.get_logger().info("x", action="a")


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json")
    structlog.get_logger().info("x", action="a")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "x"
