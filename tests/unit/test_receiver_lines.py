"""Whatever a stranger sends, a line of the receiver's log is one line, within its bound, without what was sent."""

import io
import json
from pathlib import Path
from typing import Literal

from support.tables import each_row
from wakegate_receiver.answers import ANSWERS
from wakegate_receiver.refusals import Case, Refusals
from wakegate_schema import logs

CANARY = "CANARY-7f3a"
HOSTILE = CANARY + "\n\r\0\x1b[31m\x9b \"'=\\{}\u2028\u202e\ud800" + "\U0001f389" * 5000


async def written(tmp_path: Path, log_format: Literal["console", "json"], reason: str, case: Case) -> bytes:
    """Return what the receiver writes about a refusal."""
    stream = io.BytesIO()
    text = io.TextIOWrapper(stream, "utf-8", "backslashreplace", newline="")
    logs.configure(log_format, text, level="debug", program="receiver")
    Refusals(tmp_path / "refusals", lambda: 0).note(reason, case)
    text.flush()
    return stream.getvalue()


def fault() -> Exception:
    """An error that quotes what was sent, deep in calls with long names."""
    try:
        json.loads(HOSTILE)
    except ValueError as error:
        return RuntimeError(HOSTILE, error)
    raise AssertionError


@each_row("log_format", ["console", "json"])
@each_row("reason", ANSWERS)
async def test_every_refusal_is_one_bounded_line(
    tmp_path: Path, log_format: Literal["console", "json"], reason: str
) -> None:
    case = Case(HOSTILE, 10**30, HOSTILE.encode("utf-8", "replace"), True, HOSTILE, HOSTILE, HOSTILE, fault())
    line = await written(tmp_path, log_format, reason, case)
    assert len(line) <= logs.LINE_LIMIT
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert all(character.isprintable() for character in line.decode()[:-1])
    assert reason.encode() in line


@each_row("log_format", ["console", "json"])
@each_row("reason", ANSWERS)
async def test_of_what_was_sent_only_the_size_and_the_digest_are_written(
    tmp_path: Path, log_format: Literal["console", "json"], reason: str
) -> None:
    body = HOSTILE.encode("utf-8", "replace")
    line = await written(tmp_path, log_format, reason, Case("192.0.2.1", len(body), body, error=fault()))
    assert CANARY.encode() not in line
    assert str(len(body)).encode() in line
