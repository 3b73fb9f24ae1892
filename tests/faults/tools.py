"""Tools whose effects are counted outside wakegate: a line each in a file that is not the store's."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any, NoReturn

from wakegate_worker import Attempt, tool

EFFECTS = Path("effects")
"""In the folder that the process runs in."""
PAYMENTS = Path("payments")
"""What the bank knows, in the same folder."""


def have_effect(key: str, folder: Path = Path()) -> None:
    """Have the effect of the call with this key in the world."""
    descriptor = os.open(folder / EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(descriptor, f"{key}\n".encode())
    os.close(descriptor)


def lose(folder: Path, key: str, execution_id: str) -> None:
    """Have the effect, with a name that the bank can be asked about, and tell nobody."""
    have_effect(key, folder)
    with (folder / PAYMENTS).open("a") as file:
        file.write(f"{execution_id}\n")


def effects(folder: Path) -> list[str]:
    """Return the keys of the calls that had their effect, in order."""
    path = folder / EFFECTS
    return path.read_text().split() if path.exists() else []


@tool()
async def refund(attempt: Attempt, key: str) -> dict[str, Any]:
    """Pay."""
    have_effect(key)
    return {"refunded": key}


@tool()
def refund_in_a_thread(attempt: Attempt, key: str) -> dict[str, Any]:
    """Pay, and take longer than a third of the lease, so that it is renewed."""
    have_effect(key)
    time.sleep(1.5)
    return {"refunded": key}


@tool(timeout=0.2)
def run_on(attempt: Attempt, key: str) -> dict[str, Any]:
    """Pay, and come back long after the timeout."""
    have_effect(key)
    time.sleep(1.5)
    return {"refunded": key}


async def _look(attempt: Attempt) -> bool:
    await asyncio.sleep(0)
    return f"{attempt.execution_id}\n" in _looked_up()


def _looked_up() -> list[str]:
    path = PAYMENTS
    return path.read_text().splitlines(keepends=True) if path.exists() else []


@tool(timeout=0.5, probe=_look)
async def lose_the_answer(attempt: Attempt, key: str) -> NoReturn:
    """Pay, with a name that the bank can be asked about, and lose the answer."""
    lose(Path(), key, attempt.execution_id)
    raise ConnectionResetError
