"""The adapter's log lines read well where a harness has no logging configured."""

import logging

import pytest

from wakegate_adapter.log import NAME, log


def test_a_line_is_a_sentence_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    log.error("the call's function raised", action="hold", execution_id="f4b96ac4", error=None)
    assert caplog.messages == ["wakegate: the call's function raised (action=hold, execution_id=f4b96ac4)"]


def test_a_value_cannot_begin_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    log.error("odd", reason="a\nb\x1b[2J")
    assert caplog.messages == [r"wakegate: odd (reason=a\nb\x1b[2J)"]
