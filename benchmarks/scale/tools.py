"""The tool that measured workers run: nothing."""

from wakegate_worker import Attempt, tool


@tool(version="1")
async def nothing(attempt: Attempt) -> str:
    """Do nothing."""
    return attempt.idempotency_key
