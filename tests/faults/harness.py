"""A harness over the adapter. Run again after its death, it takes up what it was about: the key says what that is."""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from faults.tools import have_effect
from wakegate_adapter import Adapter, Call, Grant, HeldElsewhere, Resolution, StoreUnavailable, Ticket
from wakegate_schema.states import RESOLVED

T = TypeVar("T")

LEASE_S = 1.0
"""Seconds that its leases and holds last."""
TOLD = Path("acknowledged")
"""What it was told, a line each, in the folder that the process runs in: a call's state, or a group's seal."""


def told(execution_id: str, state: str) -> None:
    """Write down that a call's state was told, at any time since the call was saved."""
    _write({"execution": execution_id, "state": state})


def _write(line: dict[str, str]) -> None:
    descriptor = os.open(TOLD, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(descriptor, f"{json.dumps(line)}\n".encode())
    os.close(descriptor)


async def suspend(adapter: Adapter, key: str) -> None:
    """Save a call for the worker and wait for its end."""
    ticket = await _saved(adapter, Call("refund", {"key": key}, key=key), wake="harness")
    await adapter.wait(ticket.execution_id)


async def claim(adapter: Adapter, key: str) -> None:
    """Save a call, and run it here once it is permitted."""
    ticket = await _saved(adapter, Call("refund", {"key": key}, key=key), runs="harness", wake="harness")
    await adapter.wait(ticket.execution_id)
    claim = adapter.claim(ticket.execution_id)
    async with claim as attempt:
        if attempt.permitted:
            told(ticket.execution_id, "started")
            have_effect(attempt.arguments["key"])
            await asyncio.sleep(0.8 * LEASE_S)  # longer than a third of the lease
            attempt.succeed("refunded")
    if claim.standing is not None:
        told(ticket.execution_id, claim.standing.state)


async def claim_and_stall(adapter: Adapter, key: str) -> None:
    """Save a call, run it here, and keep the event loop busy for so long that the lease is lost."""
    ticket = await _saved(adapter, Call("refund", {"key": key}, key=key), runs="harness", wake="harness")
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
        ended = await adapter.hold(call, run=run, wait_limit=30)
        told(ended.execution_id, ended.state)
    except HeldElsewhere:  # by the process that died
        ticket = await _saved(adapter, call, runs="harness")
        await adapter.wait(ticket.execution_id)


async def abandon(adapter: Adapter, key: str) -> None:
    """Save a call, wait until the provider has it, and give it up."""
    ticket = await _saved(adapter, Call("refund", {"key": key}, key=key))
    while (await adapter.get(ticket.execution_id)).request_id is None:
        await asyncio.sleep(0.02)
    given_up = await adapter.abandon(ticket.execution_id, "conversation closed")
    told(ticket.execution_id, given_up.state)


async def grant(adapter: Adapter, key: str) -> None:
    """Save a call, take it, say that it runs, and say so again when it has ended.

    Each process takes it under an id of its own: only it knows that it has begun nothing under that.
    """
    ticket = await _saved(adapter, Call("refund", {"key": key}, key=key), runs="harness", wake="harness")
    await adapter.wait(ticket.execution_id)
    taken = await adapter.take(ticket.execution_id, f"{key}-{os.getpid()}")
    if taken.grant is not None:
        told(ticket.execution_id, "started")
        await adapter.renew(taken.grant)
        have_effect(key)
        ended = await adapter.finish(taken.grant, "succeeded", result="refunded")
        told(ticket.execution_id, ended.state)
        await adapter.renew(taken.grant)


async def turn(adapter: Adapter, key: str) -> None:
    """Save a call of a group, seal that, and follow the stream until the call is resolved."""
    ticket = await _saved(adapter, Call("refund", {"key": key}, key=key, group="turn"), wake="harness")
    await adapter.seal("turn")
    _write({"group": "turn"})
    async with aclosing(adapter.resolutions()) as later:
        waiting = asyncio.ensure_future(anext(later))
        await asyncio.wait({waiting}, timeout=0.2)
        waiting.cancel()
        await asyncio.wait({waiting})
    cursors = set[str]()
    async with aclosing(adapter.resolutions("")) as stream:
        async for cursor, resolution in stream:
            assert cursor not in cursors, "the stream tells something twice"
            cursors.add(cursor)
            told(resolution.execution_id, resolution.state)
            if resolution.execution_id == ticket.execution_id and resolution.state in RESOLVED:
                break
    assert [found.execution_id async for found in adapter.list(group="turn")] == [ticket.execution_id]


async def _saved(adapter: Adapter, call: Call, **options: Any) -> Ticket:
    ticket = await adapter.suspend(call, **options)
    told(ticket.execution_id, "saved")
    return ticket


class Insistent(Adapter):
    """Asks again for what it may ask for again, while nobody answers."""

    async def suspend(self, *args: Any, **options: Any) -> Ticket:
        """Save a call."""
        return await insist(lambda: super(Insistent, self).suspend(*args, **options))

    async def get(self, execution_id: str) -> Resolution:
        """Look."""
        return await insist(lambda: super(Insistent, self).get(execution_id))

    async def renew(self, grant: Grant) -> bool:
        """Keep a lease."""
        return await insist(lambda: super(Insistent, self).renew(grant))

    async def abandon(self, execution_id: str, reason: str) -> Resolution:
        """Give up."""
        return await insist(lambda: super(Insistent, self).abandon(execution_id, reason))

    async def seal(self, group: str, instance: str | None = None) -> tuple[Resolution, ...]:
        """Seal."""
        return await insist(lambda: super(Insistent, self).seal(group, instance))

    async def list(self, **options: Any) -> AsyncGenerator[Resolution, None]:
        """List, all at once."""
        for found in await insist(lambda: self._listed(**options)):
            yield found

    async def _listed(self, **options: Any) -> Sequence[Resolution]:
        return [found async for found in super().list(**options)]


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until somebody answers."""
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(0.05)


STORIES = {
    "suspend": suspend,
    "claim": claim,
    "claim_and_stall": claim_and_stall,
    "hold": hold,
    "abandon": abandon,
    "grant": grant,
    "turn": turn,
}
