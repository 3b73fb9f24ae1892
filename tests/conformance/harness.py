"""A harness as a process of its own, over the public library: `python harness.py DATABASE suspend|claim …`."""

import asyncio
import json
import os
import sys
from pathlib import Path

from wakegate_adapter import Adapter, Call


async def suspend(database: str, tool: str, arguments: str, key: str, runs: str) -> None:
    """Save a call, say its id, and end at once, as no program should."""
    adapter = await Adapter.open(database)
    ticket = await adapter.suspend(
        Call(tool, json.loads(arguments), key=key), runs="worker" if runs == "worker" else "harness"
    )
    print(ticket.execution_id, flush=True)  # noqa: T201
    os._exit(0)


async def claim(database: str, execution_id: str, ledger: str) -> None:
    """Claim a call; run it, a line in the ledger, if that is permitted. Says what came of it."""
    async with await Adapter.open(database) as adapter:
        async with adapter.claim(execution_id) as attempt:
            if attempt.permitted:
                with Path(ledger).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(attempt.arguments) + "\n")
                attempt.succeed({"refunded": attempt.arguments})
        print(attempt.refusal or "ran", flush=True)  # noqa: T201


if __name__ == "__main__":
    _, at, verb, *words = sys.argv
    asyncio.run(suspend(at, *words) if verb == "suspend" else claim(at, *words))
