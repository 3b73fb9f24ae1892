"""A tool that takes as long as its test wants."""

import asyncio
import os
from pathlib import Path

from support.worker_tools import VARIABLE, effect
from wakegate_worker import Attempt, tool


@tool(timeout=600)
async def wait_for_word(attempt: Attempt, amount: int) -> None:
    """Have the effect, and return once there is a file `word` beside that of the effects."""
    effect(attempt)
    word = Path(os.environ[VARIABLE]).with_name("word")
    while not word.exists():
        await asyncio.sleep(0.05)
