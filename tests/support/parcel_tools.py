"""The tools of another pool's workers."""

from support import worker_tools
from wakegate_worker import Attempt, tool


@tool(version="3")
async def send_parcel(attempt: Attempt, amount: int) -> dict[str, int]:
    """Send so many."""
    worker_tools.effect(attempt)
    return {"sent": amount}
