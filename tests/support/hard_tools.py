"""Tools as they should not be: they do not end, or end the worker if it lets them."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from support.worker_tools import effect
from wakegate_worker import Attempt, tool

PROBES = "WAKEGATE_TEST_PROBES"
"""Names the file in which probes are counted."""


class Speechless(Exception):
    """A failure that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@tool(failures=(Speechless,))
async def fail_without_a_word(attempt: Attempt, amount: int) -> NoReturn:
    """Fail, known not to have happened."""
    raise Speechless


@tool(failures=(Speechless,))
def fail_without_a_word_sync(attempt: Attempt, amount: int) -> NoReturn:
    """Fail, known not to have happened, in a thread."""
    raise Speechless


@tool(timeout=0.2)
async def stay(attempt: Attempt, amount: int) -> None:
    """Ignore every cancellation."""
    effect(attempt)
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


@tool(timeout=30)
async def stay_in_a_thread(attempt: Attempt, amount: int) -> None:
    """Wait for a thread that takes its time."""
    effect(attempt)
    await asyncio.to_thread(time.sleep, 30)


def _count() -> None:
    with Path(os.environ[PROBES]).open("a") as file:
        file.write("probed\n")


async def _leave(attempt: Attempt) -> NoReturn:
    _count()
    raise SystemExit(3)


@tool(timeout=0.1, probe=_leave)
async def lose_with_a_leaving_probe(attempt: Attempt, amount: int) -> NoReturn:
    """Lose the answer; the probe ends the process if it may."""
    effect(attempt)
    raise ConnectionResetError


def _hang(attempt: Attempt) -> None:
    _count()
    time.sleep(60)


@tool(timeout=0.1, probe=_hang)
async def lose_with_a_hanging_probe(attempt: Attempt, amount: int) -> NoReturn:
    """Lose the answer; the probe never comes back."""
    effect(attempt)
    raise ConnectionResetError


@tool()
def pay_in_a_thread(attempt: Attempt, amount: int) -> None:
    """Pay."""
    effect(attempt)
