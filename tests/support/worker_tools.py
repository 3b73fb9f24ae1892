"""Tools of a refund desk whose effects can be counted: each writes a line to a file before anything else."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

from wakegate_worker import Attempt, ToolFailed, tool

VARIABLE = "WAKEGATE_TEST_EFFECTS"
"""Names the file of effects."""


class CardDeclined(Exception):
    """The bank said no."""


def effects(path: Path) -> list[str]:
    """Return the idempotency keys of the effects, in order."""
    return path.read_text().split() if path.exists() else []


def effect(attempt: Attempt) -> None:
    """Have an effect."""
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(f"{attempt.execution_id}\n")


@tool(failures=(CardDeclined,))
async def issue_refund(attempt: Attempt, amount: int = 0, **arguments: Any) -> dict[str, Any]:
    """Pay."""
    effect(attempt)
    return {"refunded": amount, "key": attempt.idempotency_key, **arguments}


@tool()
def issue_refund_sync(attempt: Attempt, amount: int) -> dict[str, Any]:
    """Pay, in a thread."""
    effect(attempt)
    return {"refunded": amount}


@tool(failures=(CardDeclined,))
async def decline(attempt: Attempt, amount: int) -> NoReturn:
    """Be declined by the bank."""
    raise CardDeclined("insufficient funds")


@tool()
async def refuse(attempt: Attempt, amount: int) -> NoReturn:
    """Know that nothing happened."""
    raise ToolFailed("the payment is closed")


@tool()
async def break_down(attempt: Attempt, amount: int) -> NoReturn:
    """Fail without knowing whether it happened."""
    effect(attempt)
    raise ConnectionResetError("token=s3cr3t")


@tool()
def deny_this(attempt: Attempt, **arguments: Any) -> NoReturn:
    """Be denied, and so never run."""
    effect(attempt)
    raise RuntimeError("a denied call ran")


@tool(timeout=60)
def hang(attempt: Attempt, amount: int) -> None:
    """Take long, in a thread."""
    effect(attempt)
    time.sleep(60)


@tool(timeout=0.2)
def overrun(attempt: Attempt, amount: int) -> str:
    """Take longer than the timeout, and come to an end all the same."""
    effect(attempt)
    time.sleep(1.0)
    return "late"


@tool(timeout=5)
def take_a_second(attempt: Attempt, amount: int) -> str:
    """Take a second."""
    effect(attempt)
    time.sleep(1.0)
    return "done"


@tool()
async def die_before_returning(attempt: Attempt, amount: int) -> None:
    """Have the effect and kill the worker."""
    effect(attempt)
    os.kill(os.getpid(), signal.SIGKILL)


class _Deadly(dict[str, int]):
    def items(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


@tool()
async def die_after_returning(attempt: Attempt, amount: int) -> dict[str, int]:
    """Return a value that kills the worker when it is looked at: after the call, before its outcome."""
    effect(attempt)
    return _Deadly(amount=amount)


def _found(attempt: Attempt) -> bool:
    return attempt.execution_id in effects(Path(os.environ[VARIABLE]))


@tool(timeout=0.1, probe=_found)
async def lose_the_answer(attempt: Attempt, amount: int) -> NoReturn:
    """Have the effect, or none for an amount of 0, and lose the answer; the probe can tell."""
    if amount:
        effect(attempt)
    raise ConnectionResetError


@tool()
async def take_a_tenth(attempt: Attempt, amount: int) -> None:
    """Take a tenth of a second."""
    effect(attempt)
    await asyncio.sleep(0.1)


@tool(timeout=10)
def take_three_seconds(attempt: Attempt, amount: int) -> str:
    """Take longer than the shortest lease."""
    effect(attempt)
    time.sleep(3.0)
    return "done"
