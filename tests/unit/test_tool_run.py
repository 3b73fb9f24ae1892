"""A run of a tool ends as one outcome, and says no more than it knows."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from wakegate_schema.downstream import downstream_key
from wakegate_schema.outcome_texts import MESSAGE_LIMIT, RESULT_LIMIT
from wakegate_schema.records import Outcome
from wakegate_worker import Attempt, ToolFailed, tool, tool_run
from wakegate_worker.registry import Tool
from wakegate_worker.threads import Threads
from wakegate_worker.tool_run import run_tool

ATTEMPT = Attempt("e", 1, "k", "r", "note", 2, b'{"amount": 4900}')


class CardDeclined(Exception):
    """The bank said no."""


def tool_of(function: Callable[..., Any]) -> Tool:
    made = vars(function)["__wakegate_tool__"]
    assert isinstance(made, Tool)
    return made


def fit() -> None:
    """Nothing speaks against the call."""


async def run(function: Callable[..., Any], threads: Threads | None = None, **arguments: object) -> Outcome:
    late: list[Outcome] = []
    outcome = await run_tool(
        tool_of(function), ATTEMPT, arguments, threads=threads or Threads(4), unfit=fit, late=late.append
    )
    assert late == []
    return outcome


def returning(value: object) -> list[Callable[..., Any]]:
    """Return a sync and an async tool that return the value."""

    @tool()
    def sync(attempt: Attempt) -> object:
        return value

    @tool()
    async def asynchronous(attempt: Attempt) -> object:
        await asyncio.sleep(0)
        return value

    return [sync, asynchronous]


def raising(error: BaseException) -> list[Callable[..., Any]]:
    """Return a sync and an async tool that raise the error."""

    @tool(failures=(CardDeclined,))
    def sync(attempt: Attempt) -> None:
        raise error

    @tool(failures=(CardDeclined,))
    async def asynchronous(attempt: Attempt) -> None:
        raise error

    return [sync, asynchronous]


async def both(functions: list[Callable[..., Any]]) -> Outcome:
    """Run both tools, which must end alike, and return how."""
    sync, asynchronous = [await run(function) for function in functions]
    assert (sync.kind, sync.reason, sync.result) == (
        asynchronous.kind,
        asynchronous.reason,
        asynchronous.result,
    )
    return sync


async def test_a_json_value_is_kept() -> None:
    outcome = await both(returning({"id": "re_1", "amount": 4900, "über": [None, True, 0.5]}))
    assert outcome == Outcome("succeeded", "returned", '{"id":"re_1","amount":4900,"über":[null,true,0.5]}'.encode())


async def test_none_is_a_result_too() -> None:
    assert (await both(returning(None))).result == b"null"


@pytest.mark.parametrize(
    "value",
    [{1, 2}, 1j, float("nan"), float("inf"), "\ud800", {1: "a", "1": "b"}, {(1, 2): 3}, b"bytes"],
    ids=repr,
)
async def test_a_value_that_is_not_json_still_means_that_it_happened(value: object) -> None:
    outcome = await both(returning(value))
    assert (outcome.kind, outcome.reason, outcome.result) == ("succeeded", "result_not_json", None)
    assert outcome.error is not None


async def test_a_value_too_deep_or_circular_still_means_that_it_happened() -> None:
    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        assert (await both(returning(value))).reason == "result_not_json"


async def test_a_value_whose_own_methods_raise_still_means_that_it_happened() -> None:
    class Odd(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError("no items today")

    assert (await both(returning(Odd(a=1)))).kind == "succeeded"


async def test_a_result_over_the_limit_is_not_kept() -> None:
    assert (await both(returning("x" * (RESULT_LIMIT - 2)))).reason == "returned"
    outcome = await both(returning("x" * (RESULT_LIMIT - 1)))
    assert (outcome.kind, outcome.reason, outcome.result) == ("succeeded", "result_too_large", None)


async def test_tool_failed_means_that_it_did_not_happen() -> None:
    outcome = await both(raising(ToolFailed("the payment is closed")))
    assert outcome == Outcome("failed", "tool_failed", error="the payment is closed")


async def test_a_declared_failure_means_that_it_did_not_happen() -> None:
    outcome = await both(raising(CardDeclined("insufficient funds")))
    assert outcome == Outcome("failed", "tool_failed", error="CardDeclined: insufficient funds")


async def test_a_message_is_kept_as_one_bounded_line() -> None:
    outcome = await both(raising(ToolFailed("a\nb\x00c\u2028d " + "x" * 10_000)))
    assert outcome.error is not None
    assert outcome.error.startswith("a b c d xxx")
    assert len(outcome.error) == MESSAGE_LIMIT


@pytest.mark.parametrize(
    "error",
    [ValueError("token=s3cr3t"), TimeoutError("s3cr3t"), SystemExit("s3cr3t"), KeyboardInterrupt("s3cr3t")],
    ids=lambda error: type(error).__name__,
)
async def test_any_other_exception_leaves_it_in_doubt_and_shows_only_type_and_place(
    error: BaseException,
) -> None:
    outcome = await both(raising(error))
    assert (outcome.kind, outcome.reason) == ("in_doubt", "tool_raised")
    assert outcome.error is not None
    assert outcome.error.startswith(f"{type(error).__name__} at test_tool_run.py:")
    assert "s3cr3t" not in outcome.error


async def test_a_tool_that_cancels_itself_is_in_doubt() -> None:
    outcome = await both(raising(asyncio.CancelledError()))
    assert (outcome.kind, outcome.reason) == ("in_doubt", "tool_cancelled")


async def test_a_sync_tool_that_returns_an_awaitable_is_in_doubt() -> None:
    async def inner() -> None: ...

    @tool()
    def sync(attempt: Attempt) -> Awaitable[None]:
        return inner()

    outcome = await run(sync)
    assert (outcome.kind, outcome.reason) == ("in_doubt", "tool_not_awaited")


async def test_the_tool_gets_the_attempt_and_the_arguments_by_keyword() -> None:
    seen: list[object] = []

    @tool()
    def sync(attempt: Attempt, **arguments: object) -> None:
        seen.append((attempt, arguments))

    await run(sync, payment_id="p", amount=4900)
    assert seen == [(ATTEMPT, {"payment_id": "p", "amount": 4900})]


async def test_an_async_tool_is_cancelled_at_its_timeout_and_is_in_doubt() -> None:
    cleaned: list[bool] = []

    @tool(timeout=0.05)
    async def slow(attempt: Attempt) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.append(True)

    outcome = await run(slow)
    assert (outcome.kind, outcome.reason) == ("in_doubt", "tool_timed_out")
    assert cleaned == [True]


async def test_an_async_tool_that_knows_better_at_its_timeout_is_believed() -> None:
    @tool(timeout=0.05)
    async def careful(attempt: Attempt) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise ToolFailed("rolled back") from None

    assert (await run(careful)).kind == "failed"


async def test_an_async_tool_that_ignores_cancellation_has_a_late_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_run, "GRACE_S", 0.05)
    proceed = asyncio.Event()
    late: asyncio.Queue[Outcome] = asyncio.Queue()

    @tool(timeout=0.05)
    async def stubborn(attempt: Attempt) -> str:
        while not proceed.is_set():
            try:
                await proceed.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    outcome = await run_tool(tool_of(stubborn), ATTEMPT, {}, threads=Threads(1), unfit=fit, late=late.put_nowait)
    assert (outcome.kind, outcome.reason) == ("in_doubt", "tool_still_running")
    proceed.set()
    assert await asyncio.wait_for(late.get(), 5) == Outcome("succeeded", "returned", b'"done"')


async def test_a_thread_past_its_timeout_has_a_late_word() -> None:
    proceed = threading.Event()
    late: asyncio.Queue[Outcome] = asyncio.Queue()

    @tool(timeout=0.05)
    def slow(attempt: Attempt) -> str:
        proceed.wait(10)
        return "done"

    threads = Threads(1)
    outcome = await run_tool(tool_of(slow), ATTEMPT, {}, threads=threads, unfit=fit, late=late.put_nowait)
    assert (outcome.kind, outcome.reason) == ("in_doubt", "tool_still_running")
    assert threads.full
    proceed.set()
    assert await asyncio.wait_for(late.get(), 5) == Outcome("succeeded", "returned", b'"done"')
    assert not threads.full


async def test_without_a_thread_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    @tool()
    def sync(attempt: Attempt) -> None:
        begun.append("sync")

    def no_more_threads(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    threads = Threads(1)
    assert (await run(sync, threads)) == Outcome(
        "not_begun", "no_thread", error="No thread could be had; nothing was begun."
    )
    assert begun == []
    assert not threads.full


async def test_a_sync_tool_does_not_hold_up_the_loop() -> None:
    @tool()
    def slow(attempt: Attempt) -> None:
        time.sleep(0.3)

    running_tool = asyncio.create_task(run(slow))
    begun = time.monotonic()
    await asyncio.sleep(0.01)
    assert time.monotonic() - begun < 0.25
    assert (await running_tool).kind == "succeeded"


def test_an_attempt_shows_no_argument_and_no_note() -> None:
    assert "4900" not in repr(ATTEMPT)
    assert "'note'" not in repr(ATTEMPT)


def test_the_arguments_of_an_attempt_cannot_be_altered_for_the_next_reader() -> None:
    ATTEMPT.arguments["amount"] = 82_000
    assert ATTEMPT.arguments == {"amount": 4900}


def test_the_key_for_downstream_apis_is_stable_and_its_own() -> None:
    assert downstream_key("a") == downstream_key("a") != downstream_key("b")


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_became_unfit_while_it_waited_for_its_turn_is_not_called(is_async: bool) -> None:
    called: list[str] = []

    @tool()
    def sync(attempt: Attempt) -> None:
        called.append("sync")

    @tool()
    async def asynchronous(attempt: Attempt) -> None:
        called.append("async")

    one = tool_of(asynchronous if is_async else sync)
    outcome = await run_tool(one, ATTEMPT, {}, threads=Threads(1), unfit=lambda: "too_late", late=print)
    assert (outcome, called) == (Outcome("not_begun", "too_late"), [])


async def test_a_declared_failure_whose_text_cannot_be_had_is_a_failure_all_the_same() -> None:
    class Speechless(CardDeclined):
        def __str__(self) -> str:
            raise ValueError("no text")

    for function in raising(Speechless()):
        assert await run(function) == Outcome("failed", "tool_failed", error="Speechless")
