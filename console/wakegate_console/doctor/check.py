"""Checks: small looks at one thing each, made side by side, bounded in time; none can bring the command down."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from wakegate_console.doctor.finding import Finding, Said, problem
from wakegate_console.doctor.site import Site
from wakegate_console.text import describe
from wakegate_schema.errors import WakegateError

T = TypeVar("T")

LIMIT_S: Final = 15.0
"""How long a check may take, in seconds, unless it says otherwise."""

Look = Callable[[Site], Iterable[Said] | Awaitable[Iterable[Said]]]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. A plain function is run in a thread of its own, a coroutine function in the loop."""

    name: str
    look: Look
    network: bool = False
    """Whether it sends something over the network; left out with `--offline`."""
    limit_s: float = LIMIT_S


async def examine(checks: Sequence[Check], site: Site, done: Callable[[str], None]) -> list[Finding]:
    """Make every check, side by side, and return what they say in the checks' order.

    Args:
        checks: which.
        site: what they look at.
        done: told the name of each check that has ended.
    """

    async def one(check: Check) -> list[Finding]:
        found = [Finding(check.name, said.verdict, said.what, said.do) for said in await _made(check, site)]
        done(check.name)
        return found

    return [finding for found in await asyncio.gather(*map(one, checks)) for finding in found]


async def _made(check: Check, site: Site) -> list[Said]:
    try:
        async with asyncio.timeout(check.limit_s):
            if inspect.iscoroutinefunction(check.look):
                return list(await check.look(site))
            return await in_thread(lambda: list(check.look(site)))  # type: ignore[arg-type]  # a plain function's
    except TimeoutError:
        return [
            problem(f"came to no end within {check.limit_s:g} s", "look at what it looks at yourself (docs/doctor.md)")
        ]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told of and the other checks go on
        return [problem(f"the check itself failed: {_why(error)}", "look at this yourself, and report the fault")]


def _why(error: Exception) -> str:
    """Return what went wrong; of an unforeseen error only its kind, because its message may hold anything."""
    if isinstance(error, WakegateError | OSError):
        return describe(error)
    return type(error).__name__


async def in_thread(work: Callable[[], T]) -> T:
    """Run something that may block, such as a look at a file, in a thread that keeps nobody from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if future.done() else act())

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            failure = error
            settle(lambda: future.set_exception(failure))
        else:
            settle(lambda: future.set_result(result))

    threading.Thread(target=run, name="wakegate-doctor", daemon=True).start()
    return await future
