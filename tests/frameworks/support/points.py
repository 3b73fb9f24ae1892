"""Points that a harness reaches: a file in its folder makes it die there, or stand still, once."""

import asyncio
import os
import signal
import time
from enum import StrEnum
from pathlib import Path
from typing import Final


class Point(StrEnum):
    """Where a harness may be on its way through one call."""

    BEFORE_GATE = "before_gate"
    """The run was resumed, and the gate is not asked yet."""
    ASKED = "asked"
    """The request is made, the pause is not saved."""
    CONSUMED = "consumed"
    """The approval is spent, the tool has not begun."""
    IN_TOOL = "in_tool"
    """The tool has had its effect and has not returned."""
    RAN = "ran"
    """It has returned, and nobody knows."""
    REPORTED = "reported"
    """Its outcome is told to the provider, and nothing is saved."""
    SAVED = "saved"
    """What it returned is saved; where steps are saved, the model has not answered."""


DIE: Final = "die"
HOLD: Final = "hold"
"""Files that name a point."""
HELD: Final = "held"
"""There when a harness stands still."""
GO: Final = "go"
"""Lets it go on."""


def reach(point: Point) -> None:
    """Die here, or stand still until the story lets go, if it says so."""
    if _stands_still(point):
        while not Path(GO).exists():
            time.sleep(0.02)


async def arrive(point: Point) -> None:
    """Do as `reach`, and let the event loop go on meanwhile."""
    if _stands_still(point):
        while not Path(GO).exists():
            await asyncio.sleep(0.02)


def _stands_still(point: Point) -> bool:
    if _taken(DIE, point):
        os.kill(os.getpid(), signal.SIGKILL)
    if not _taken(HOLD, point):
        return False
    Path(HELD).touch()
    return True


def _taken(name: str, point: Point) -> bool:
    """Whether the file names this point; it is gone then."""
    file = Path(name)
    try:
        named = file.read_text()
    except FileNotFoundError:
        return False
    if named != point:
        return False
    file.unlink()
    return True
