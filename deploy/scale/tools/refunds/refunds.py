"""What the workers of the pool `refunds` run: put your own in its place."""

from wakegate_worker import Attempt, tool


@tool(version="1", timeout=30)
async def issue_refund(attempt: Attempt, payment_id: str, amount: int) -> dict[str, object]:
    """Pay back: the payment API is given the key, which belongs to this one call."""
    return {"payment_id": payment_id, "refunded": amount, "key": attempt.idempotency_key}
