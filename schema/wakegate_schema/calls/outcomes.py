"""Outcomes: what a harness's word, or its silence, means for an attempt. Pure."""

import asyncio
from typing import Final, Literal

from wakegate_schema.calls.exact_json import NotJson, encode
from wakegate_schema.outcome_texts import RESULT_LIMIT, one_line, place_of, said
from wakegate_schema.records import Outcome

Kind = Literal["succeeded", "failed", "in_doubt", "not_begun"]

LAPSED_AT_START: Final = Outcome("not_begun", "lapsed_at_start", error="the approval ended before the call could begin")
START_TOO_SLOW: Final = Outcome("not_begun", "start_too_slow", error="the claim took as long as its lease lasts")
DIFFERS: Final = Outcome("not_begun", "digest_differs", error="the saved call is not the one that was approved")
RUNS_ON: Final = Outcome(
    "in_doubt", "tool_still_running", error="the harness was cancelled; the call goes on in its thread"
)


def outcome_of(kind: Kind, result: object, error: str | None) -> Outcome:
    """Return the outcome of this kind."""
    if kind == "succeeded":
        return succeeded(result)
    return {"failed": failed, "in_doubt": in_doubt, "not_begun": not_begun}[kind](error or "")


def succeeded(result: object) -> Outcome:
    """The call happened. A result that is not JSON, or over `RESULT_LIMIT`, is left out, and the error says so."""
    try:
        return Outcome("succeeded", "returned", result=encode(result, "result", max_bytes=RESULT_LIMIT))
    except NotJson as error:
        reason, why = "result_too_large" if error.reason == "too_large" else "result_not_json", str(error)
    except Exception as error:  # noqa: BLE001 (a value's own methods may raise anything; the call happened all the same)
        reason, why = "result_not_json", type(error).__name__
    return Outcome("succeeded", reason, error=one_line(f"the result is not kept: {why}"))


def failed(error: object) -> Outcome:
    """The call is known not to have happened."""
    return Outcome("failed", "tool_failed", error=said(error) or "no reason was given")


def not_begun(why: object) -> Outcome:
    """The permission was spent, but nothing of the call was begun."""
    return Outcome("not_begun", "not_begun", error=said(why) or "no reason was given")


def in_doubt(why: object) -> Outcome:
    """Nobody knows whether the call happened."""
    return Outcome("in_doubt", "outcome_unknown", error=said(why) or "no reason was given")


def untold(error: BaseException | None) -> Outcome:
    """The holder left without a word, or by an exception: nobody knows.

    Only the exception's type and place are kept: messages of libraries hold URLs, tokens and arguments.
    """
    if error is None:
        return Outcome("in_doubt", "outcome_not_told", error="the harness left without saying how the call ended")
    if isinstance(error, asyncio.CancelledError):
        return Outcome("in_doubt", "tool_cancelled", error="the harness was cancelled while the call ran")
    return Outcome("in_doubt", "tool_raised", error=place_of(error, "somewhere in the harness"))
