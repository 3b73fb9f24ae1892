"""The tool that measured workers run: it leaves a line and returns."""

from benchmarks.peers.effects import effect
from wakegate_worker import Attempt, tool


@tool(version="1")
async def leave_a_line(attempt: Attempt) -> None:
    """Say that it began."""
    effect(attempt.request_id)
