"""A small harness as a process of its own: `python harness.py DATABASE|SOCKET VERB …`. Says on stdout how far it is."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from wakegate_adapter import Adapter, Call
from wakegate_adapter.control_calls import ControlCalls
from wakegate_schema.calls import StoreCalls
from wakegate_schema.store import open_store

LEASE = 1.0


def say(*words: object) -> None:
    """Tell the test how far this is."""
    print(*words, flush=True)  # noqa: T201


def do(ledger: Path, amount: int) -> None:
    """The effect in the world, counted outside wakegate."""
    with ledger.open("a", encoding="utf-8") as file:
        file.write(f"{amount}\n")
        file.flush()
        os.fsync(file.fileno())


async def suspend(adapter: Adapter, key: str) -> None:
    """Save a call and die at once."""
    ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}, key=key), runs="harness")
    say(ticket.execution_id)
    os._exit(9)


async def claim(adapter: Adapter, execution_id: str, ledger: str, seconds: str) -> None:
    """Claim on a word from the test, refund, stay a while."""
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    async with adapter.claim(execution_id) as attempt:
        if not attempt.permitted:
            say("refused", attempt.refusal)
            return
        do(Path(ledger), attempt.arguments["amount"])
        say("started")
        await asyncio.sleep(float(seconds))
        attempt.succeed("refunded")
    say("done")


async def hold(adapter: Adapter, key: str, ledger: str, seconds: str) -> None:
    """Hold a refund."""

    async def run(amount: int) -> str:
        do(Path(ledger), amount)
        say("started")
        await asyncio.sleep(float(seconds))
        return "refunded"

    say("ready")
    outcome = await adapter.hold(Call("issue_refund", {"amount": 4900}, key=key), run=run)
    say("done", outcome.state)


async def calls(where: str) -> StoreCalls | ControlCalls:
    """The verbs, over a store or a control socket; the receiver of that gives leases of its own."""
    if where.endswith(".sock"):
        return ControlCalls(Path(where))
    return StoreCalls(await open_store(where, mode="use"), lease=LEASE)


async def main(where: str, verb: str, *args: str) -> None:
    """Run one verb with short leases."""
    async with Adapter(await calls(where), hold=LEASE) as adapter:
        match verb:
            case "suspend":
                await suspend(adapter, *args)
            case "claim":
                await claim(adapter, *args)
            case "hold":
                await hold(adapter, *args)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # may be inherited as ignored
    try:
        asyncio.run(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        say("interrupted")
