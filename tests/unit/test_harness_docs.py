"""docs/harness.md names every word the adapter raises and every limit as it is; docs/reasons.md what it records."""

import inspect
import re
from pathlib import Path

import wakegate_adapter
from support.tables import each_row
from wakegate_adapter import (
    adapter,
    callee,
    control_calls,
    control_errors,
    control_http,
    control_stream,
    errors,
    grants,
    held,
    hold,
    location,
)
from wakegate_schema.calls import (
    call,
    calls,
    checks,
    claiming,
    exact_json,
    giving_back,
    outcomes,
    refusal,
    saving,
    store_calls,
    stream,
)
from wakegate_schema.calls import errors as call_errors
from wakegate_schema.errors import WakegateError
from wakegate_schema.outcome_texts import RESULT_LIMIT
from wakegate_schema.states import HOLD_LOST, WAIT_LIMIT
from wakegate_schema.strict_json import MAX_DIGITS

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "harness.md").read_text(encoding="utf-8")
RECORDED = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "reasons.md").read_text(encoding="utf-8"), flags=re.MULTILINE))
NEVER_SEEN = {"adapter_error", "result_refused", "no_thread"}
"""A base class, a class that always has a finer word, and what a hold turns into an outcome."""


def words() -> set[str]:
    """Every word that stands as a reason in the adapter's source."""
    of_the_schema = (
        call, call_errors, checks, claiming, exact_json, giving_back, outcomes, refusal, saving, store_calls, stream
    )  # fmt: skip
    modules = (
        adapter, callee, control_errors, control_http, control_stream, errors, grants, held, hold,
        location, *of_the_schema,
    )  # fmt: skip
    source = "".join(inspect.getsource(module) for module in modules)
    given = set(re.findall(r'\breason(?:, why)? ?= ?"(\w+)"', source))
    given |= set(re.findall(r'Outcome\(\s*"\w+", "(\w+)"', source))
    given |= set(re.findall(r'NotJson\([^\n]*"(\w+)"\)', source))
    given |= set(re.findall(r'(?:return|\() ?"(\w+)", (?:\(|f"|"The)', source))
    return given | {WAIT_LIMIT, HOLD_LOST, hold.INTERRUPTED}


def test_every_reason_is_documented() -> None:
    found = words()
    assert {"too_late", "clock_behind", "result_too_large", "too_deep", "tool_raised"} <= found
    missing = {word for word in found - NEVER_SEEN if f"`{word}`" not in TEXT and not word.startswith("bad_")}
    assert missing <= RECORDED
    public = [getattr(wakegate_adapter, name) for name in wakegate_adapter.__all__]
    raised = {found.reason for found in public if isinstance(found, type) and issubclass(found, WakegateError)}
    assert {word for word in raised - NEVER_SEEN - {"wakegate"} if f"`{word}`" not in TEXT} == set()


@each_row(
    ("limit", "words"),
    [
        (call.ARGUMENTS_LIMIT, "256 KiB of JSON"),
        (call.CONTEXT_LIMIT, "64 KiB"),
        (call.REASONING_LIMIT, "16 KiB"),
        (RESULT_LIMIT, "over 256 KiB"),
    ],
)
def test_every_size_is_documented_as_it_is(limit: int, words: str) -> None:
    assert words in TEXT
    number = re.search(r"\d+", words)
    assert number is not None
    assert limit == int(number[0]) * 1024


def test_depth_and_digits_and_times_are_documented_as_they_are() -> None:
    assert f"{exact_json.MAX_DEPTH} levels deep" in TEXT
    assert f"more than {MAX_DIGITS} digits" in TEXT
    assert f"lease of {calls.LEASE_S:g} s" in TEXT
    assert f"hold lasts {calls.HOLD_S:g} s" in TEXT
    assert adapter.PATIENCE_S == 60
    assert "tries for a minute" in TEXT
    assert f"At most {control_calls.WAITS} waits" in TEXT


def test_every_public_error_is_a_wakegate_error() -> None:
    public = [getattr(wakegate_adapter, name) for name in wakegate_adapter.__all__]
    errors_ = [found for found in public if isinstance(found, type) and issubclass(found, BaseException)]
    assert len(errors_) > 15
    assert all(issubclass(found, WakegateError) for found in errors_)
