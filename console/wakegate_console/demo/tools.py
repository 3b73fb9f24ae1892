"""The demo's tools, as a shop would write them."""

import asyncio

from wakegate_console.demo.ledger import record_refund
from wakegate_worker import Attempt, tool


@tool(version="1", timeout=10)
def issue_small_refund(attempt: Attempt, payment_id: str, amount: int, currency: str) -> dict[str, str]:
    """Pay a small amount back; the policy approves it."""
    record_refund(payment_id, amount, currency)
    return {"payment_id": payment_id, "refund_id": attempt.idempotency_key}


@tool(version="1", timeout=10)
async def issue_refund(attempt: Attempt, payment_id: str, amount: int, currency: str) -> dict[str, str]:
    """Pay an amount back; a person has approved it."""
    await asyncio.to_thread(record_refund, payment_id, amount, currency)
    return {"payment_id": payment_id, "refund_id": attempt.idempotency_key}


@tool(version="1", timeout=60)
async def issue_slow_refund(attempt: Attempt, payment_id: str, amount: int, currency: str) -> dict[str, str]:
    """Pay an amount back, and wait long for the bank to say so: long enough to be killed meanwhile."""
    await asyncio.to_thread(record_refund, payment_id, amount, currency)
    await asyncio.sleep(50)
    return {"payment_id": payment_id, "refund_id": attempt.idempotency_key}
