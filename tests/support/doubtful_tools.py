"""Tools that come into doubt while they run on, and whose probes can tell what has happened so far."""

import os
import time
from pathlib import Path

from support.worker_tools import VARIABLE, effect, effects
from wakegate_worker import Attempt, tool

GO_ON = "go-on"
"""A file beside that of the effects."""


def _found(attempt: Attempt) -> bool:
    return attempt.execution_id in effects(Path(os.environ[VARIABLE]))


@tool(timeout=0.2, probe=_found)
def overrun_and_pay_at_the_end(attempt: Attempt, amount: int) -> str:
    """Take 5 seconds, far longer than the timeout, and have the effect at the very end."""
    time.sleep(5.0)
    effect(attempt)
    return "paid"


@tool(timeout=0.2, probe=_found)
def overrun_until_told(attempt: Attempt, amount: int) -> str:
    """Wait for a file, far longer than the timeout, and have the effect at the very end."""
    for _ in range(1200):
        if Path(os.environ[VARIABLE]).with_name(GO_ON).exists():
            break
        time.sleep(0.05)
    effect(attempt)
    return "paid"


@tool(timeout=60, probe=_found)
def pay_at_the_end(attempt: Attempt, amount: int) -> str:
    """Take 5 seconds, within the timeout, and have the effect at the very end."""
    time.sleep(5.0)
    effect(attempt)
    return "paid"


@tool(timeout=0.2, probe=_found)
def overrun_for_ever(attempt: Attempt, amount: int) -> None:
    """Have no effect, and never return."""
    time.sleep(60)
