"""The tools of another build of the worker: none that the refund desk calls, and one in a later version."""

from wakegate_worker import Attempt, tool


@tool(version="2")
async def take_a_tenth(attempt: Attempt, amount: int) -> None:
    """Be another version."""
    raise NotImplementedError
