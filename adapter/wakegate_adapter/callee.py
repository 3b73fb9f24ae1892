"""The callee: what `hold` runs, looked at before anything is saved and run once."""

import asyncio
import contextlib
import contextvars
import functools
import inspect
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from wakegate_adapter.errors import AdapterError
from wakegate_schema import fault_points
from wakegate_schema.calls.errors import CallRefused
from wakegate_schema.records import Outcome

Run = Callable[..., Any]
"""Any callable that takes the call's arguments by name, sync or async."""

Failures = tuple[type[Exception], ...]
"""Exceptions that mean "it did not happen"."""

_THREAD: Final = "wakegate-run"


class NoThread(AdapterError):
    """No thread could be had; nothing was begun."""

    reason = "no_thread"


class MayNotBegin(Exception):
    """The last look before the call found that it may not begin."""

    def __init__(self, outcome: Outcome) -> None:
        """Take what is to be recorded instead."""
        super().__init__(outcome.reason)
        self.outcome = outcome


def check_fits(run: Run, arguments: Mapping[str, Any]) -> None:
    """Refuse a call that `run` could not even be called with. Raises `CallRefused`."""
    if not callable(run):
        raise CallRefused("run", "it must be callable", reason="bad_run")
    check_runs(run)
    try:
        signature = inspect.signature(run)
    except (TypeError, ValueError):  # some built-ins have none
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise CallRefused("run", f"it does not take these arguments: {error}", reason="arguments_do_not_fit") from None


def check_runs(run: Run) -> None:
    """Refuse a generator: calling it begins nothing, and would pass for a call that has happened. `CallRefused`."""
    if getattr(run, "is_held", False):
        raise CallRefused("run", "it is held already, and would be approved twice", reason="bad_run")
    for part in (run, inspect.unwrap(run), getattr(run, "__call__", None)):  # noqa: B004
        while isinstance(part, functools.partial):
            part = part.func
        if inspect.isgeneratorfunction(part) or inspect.isasyncgenfunction(part):
            raise CallRefused("run", "it must not be a generator: calling one runs nothing", reason="bad_run")


def check_failures(failures: Failures) -> None:
    """Refuse anything but a tuple of exception classes. Raises `CallRefused`."""
    if not isinstance(failures, tuple) or not all(isinstance(f, type) and issubclass(f, Exception) for f in failures):
        raise CallRefused("failures", "it must be a tuple of exception classes", reason="bad_failures")


def check_wait_limit(seconds: float) -> None:
    """Refuse anything but a number of seconds above 0. Raises `CallRefused`."""
    if not (math.isfinite(seconds) and seconds > 0):
        raise CallRefused("wait_limit", "it must be a number of seconds above 0", reason="bad_wait_limit")


async def run_once(
    run: Run,
    arguments: Mapping[str, Any],
    left: Callable[["asyncio.Future[Any]"], None],
    look: Callable[[], None],
) -> Any:
    """Run it: an async callable in this loop, a sync one in a thread of its own. `look` is the last thing before it.

    Cancelled, a sync callable goes on in its thread and its end is not waited for; `left` is told of it then, with
    what is done once it has ended.
    """
    await fault_points.passing("tool.begin", "hold")
    value = await _called(run, arguments, left, look)
    await fault_points.passing("tool.end", "hold")
    return value


async def _called(
    run: Run,
    arguments: Mapping[str, Any],
    left: Callable[["asyncio.Future[Any]"], None],
    look: Callable[[], None],
) -> Any:
    def begin() -> Any:
        look()
        return run(**arguments)

    if inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None)):  # noqa: B004
        return await begin()
    ending = _in_thread(begin)
    try:
        value = await asyncio.shield(ending)
    except asyncio.CancelledError:
        if not ending.done():
            ending.add_done_callback(lambda ended: ended.exception())  # nobody awaits it any more
            left(ending)
        raise
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError("the callable returned a generator, which has run nothing yet")
    return await value if inspect.isawaitable(value) else value


def _in_thread(work: Callable[[], Any]) -> "asyncio.Future[Any]":
    """Run `work` in a new daemon thread: an executor could queue it while its approval ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):  # a future cannot carry one
            future.set_exception(RuntimeError("the callable raised StopIteration"))
        else:
            future.set_exception(error)

    def main() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = context.run(work)
        except BaseException as error:  # noqa: BLE001 (carried to whoever awaits)
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(deliver, value, failure)

    try:
        threading.Thread(target=main, name=_THREAD, daemon=True).start()
    except RuntimeError:
        raise NoThread from None
    return future
