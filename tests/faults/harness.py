"""A harness over the adapter. Run again after its death, it takes up what it was about: the key says what that is."""

import asyncio
import time

from faults.tools import have_effect
from wakegate_adapter import Adapter, Call, HeldElsewhere

LEASE_S = 1.0
"""Seconds that its leases and holds last."""


async def suspend(adapter: Adapter, key: str) -> None:
    """Save a call for the worker and wait for its end."""
    ticket = await adapter.suspend(Call("refund", {"key": key}, key=key), wake="harness")
    await adapter.wait(ticket.execution_id)


async def claim(adapter: Adapter, key: str) -> None:
    """Save a call, and run it here once it is permitted."""
    ticket = await adapter.suspend(Call("refund", {"key": key}, key=key), runs="harness", wake="harness")
    await adapter.wait(ticket.execution_id)
    async with adapter.claim(ticket.execution_id) as attempt:
        if attempt.permitted:
            have_effect(attempt.arguments["key"])
            await asyncio.sleep(0.8 * LEASE_S)  # longer than a third of the lease
            attempt.succeed("refunded")


async def claim_and_stall(adapter: Adapter, key: str) -> None:
    """Save a call, run it here, and keep the event loop busy for so long that the lease is lost."""
    ticket = await adapter.suspend(Call("refund", {"key": key}, key=key), runs="harness", wake="harness")
    await adapter.wait(ticket.execution_id)
    async with adapter.claim(ticket.execution_id) as attempt:
        if attempt.permitted:
            have_effect(attempt.arguments["key"])
            time.sleep(1.5 * LEASE_S)  # what docs/harness.md says not to do
            await asyncio.sleep(LEASE_S)
            attempt.succeed("refunded")


async def hold(adapter: Adapter, key: str) -> None:
    """Hold a call and run it here."""

    async def run(key: str) -> str:
        have_effect(key)
        return "refunded"

    call = Call("refund", {"key": key}, key=key)
    try:
        await adapter.hold(call, run=run, wait_limit=30)
    except HeldElsewhere:  # by the process that died
        ticket = await adapter.suspend(call, runs="harness")
        await adapter.wait(ticket.execution_id)


async def abandon(adapter: Adapter, key: str) -> None:
    """Save a call, wait until the provider has it, and give it up."""
    ticket = await adapter.suspend(Call("refund", {"key": key}, key=key))
    while (await adapter.get(ticket.execution_id)).request_id is None:
        await asyncio.sleep(0.02)
    await adapter.abandon(ticket.execution_id, "conversation closed")


STORIES = {"suspend": suspend, "claim": claim, "claim_and_stall": claim_and_stall, "hold": hold, "abandon": abandon}
