"""What the workers of the pool `mail` run: put your own in its place."""

from wakegate_worker import Attempt, tool


@tool(version="1", timeout=30)
async def send_letter(attempt: Attempt, to: str, text: str) -> dict[str, object]:
    """Send a letter: the post is given the key, which belongs to this one call."""
    return {"to": to, "letters": len(text), "key": attempt.idempotency_key}
