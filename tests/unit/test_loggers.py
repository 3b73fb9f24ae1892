"""Lines written inside somebody else's process go where its logging sends them, never to its standard output."""

import io
import json
import logging

import pytest
import structlog

from wakegate_schema import logs
from wakegate_schema.loggers import logger

log = logger("wakegate_here")


def test_without_configuration_a_line_goes_to_the_standard_librarys_logger(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "wakegate_here")
    with structlog.contextvars.bound_contextvars(execution_id="e-1"):
        log.info("started", action="start")
        log.debug("not this")
    assert caplog.record_tuples == [
        ("wakegate_here", logging.INFO, "wakegate: started (action=start, execution_id=e-1)")
    ]
    assert tuple(capfd.readouterr()) == ("", "")


def test_an_exception_is_named_and_not_quoted(caplog: pytest.LogCaptureFixture) -> None:
    try:
        int("tok-secret")
    except ValueError as error:
        log.exception("unforeseen error", error=type(error).__name__)
    assert caplog.messages == ["wakegate: unforeseen error (error=ValueError)"]
    assert "tok-secret" not in caplog.text


def test_where_a_service_has_configured_lines_they_go_there() -> None:
    stream = io.StringIO()
    logs.configure("json", stream)
    log.warning("the store cannot be used", action="lease")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["action"] == "lease"


def test_where_the_program_has_configured_structlog_they_go_there() -> None:
    with structlog.testing.capture_logs() as lines:
        log.info("started", action="start")
    assert lines == [{"event": "started", "action": "start", "log_level": "info"}]
