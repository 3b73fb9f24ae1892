"""What the workers' tools do. `cards` and `banks` hold the tools: each function under the name of every fate."""

import asyncio
import time
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NoReturn

from soak.calls import FATES, IN_WORKER, tool_name
from soak.effects import fenced_by, folder, happened, have_effect, take_fence
from wakegate_worker import Attempt, ToolFailed, tool

LONG_S = 1.5
"""How long a call that takes long takes: long enough to be killed in the middle, in seconds."""
HANG_S = 60.0
TIMEOUT_S = 1.0
"""When those that hang or overrun are given up, in seconds."""


class CardDeclined(Exception):
    """The bank said no."""


async def pay(attempt: Attempt, call: str, happens: bool) -> str:
    """Pay."""
    await asyncio.to_thread(have_effect, call, "worker")
    return "paid"


def pay_in_thread(attempt: Attempt, call: str, happens: bool) -> str:
    """Pay, as a sync function."""
    have_effect(call, "worker")
    return "paid"


async def take_long(attempt: Attempt, call: str, happens: bool) -> str:
    """Pay, and wait for the bank."""
    await asyncio.to_thread(have_effect, call, "worker")
    await asyncio.sleep(LONG_S)
    return "paid"


async def decline(attempt: Attempt, call: str, happens: bool) -> NoReturn:
    """Be declined, as declared."""
    raise CardDeclined("insufficient funds")


def refuse(attempt: Attempt, call: str, happens: bool) -> NoReturn:
    """Know that nothing happened."""
    raise ToolFailed("the payment is closed")


async def break_down(attempt: Attempt, call: str, happens: bool) -> NoReturn:
    """Lose the answer, after the effect or before it."""
    if happens:
        await asyncio.to_thread(have_effect, call, "worker")
    raise ConnectionResetError


def break_down_probed(attempt: Attempt, call: str, happens: bool) -> NoReturn:
    """Lose the answer; the probe can tell."""
    if happens:
        _pay_under_key(attempt, call)
    raise ConnectionResetError


async def hang(attempt: Attempt, call: str, happens: bool) -> None:
    """Pay, and never come back."""
    await asyncio.to_thread(have_effect, call, "worker")
    await asyncio.sleep(HANG_S)


async def hang_probed(attempt: Attempt, call: str, happens: bool) -> None:
    """Pay, and never come back; the probe can tell."""
    await asyncio.to_thread(_pay_under_key, attempt, call)
    await asyncio.sleep(HANG_S)


def overrun(attempt: Attempt, call: str, happens: bool) -> str:
    """Pay, and come back after the timeout: its late word settles it."""
    have_effect(call, "worker")
    time.sleep(TIMEOUT_S + 1.0)
    return "paid"


def _pay_under_key(attempt: Attempt, call: str) -> None:
    if not take_fence(attempt.idempotency_key, "tool"):
        raise ToolFailed("the bank has taken this key for void")
    have_effect(call, "worker")


def find_payment(attempt: Attempt) -> bool | None:
    """Say whether it happened, and see to it that what did not happen cannot happen any more."""
    if take_fence(attempt.idempotency_key, "probe"):
        return False
    if happened(str(attempt.arguments["call"])):
        return True
    # The tool has taken the key and did not come further, or not yet; or an earlier look has voided it.
    return False if fenced_by(folder(), attempt.idempotency_key) == "probe" else None


CARD_FUNCTIONS: tuple[Callable[..., Any], ...] = (pay, take_long, decline, break_down, hang, hang_probed)
BANK_FUNCTIONS: tuple[Callable[..., Any], ...] = (pay_in_thread, refuse, break_down_probed, overrun)
_HURRIED = (hang, hang_probed, overrun, break_down_probed)


def made(functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return tools by name: each function under the name of every fate."""
    return {
        name: tool(
            name=name,
            timeout=TIMEOUT_S if function in _HURRIED else 5.0,
            failures=(CardDeclined,),
            probe=find_payment if IN_WORKER[function.__name__].probed else None,
        )(_copy(function))
        for fate in FATES
        for function in functions
        for name in (tool_name(fate, function.__name__),)
    }


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of its own that does the same: one function is one tool."""
    copied = FunctionType(function.__code__, globals(), function.__name__)
    copied.__annotations__ = function.__annotations__
    return copied
