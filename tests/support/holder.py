"""A harness that holds one call, as a process: `python holder.py WHERE KEY LEDGER SECONDS LIMIT`."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from wakegate_adapter import Adapter, Call, HeldElsewhere
from wakegate_schema import fault_points
from wakegate_schema.calls import StoreCalls
from wakegate_schema.store import open_store

LEASE_S = 2.0
"""How long leases and holds last over the store, in seconds."""


def say(*words: object) -> None:
    """Tell the test how far this is."""
    print(*words, flush=True)  # noqa: T201


async def opened(where: str) -> Adapter:
    """Open the store with short leases and holds, or the control API."""
    if where.startswith("sqlite:"):
        fault_points.arm(os.environ, lambda *_, **__: None)
        return Adapter(StoreCalls(await open_store(where, mode="use"), lease=LEASE_S), hold=LEASE_S)
    return await Adapter.open(where)


async def hold(where: str, key: str, ledger: str, seconds: str, limit: str) -> None:
    """Hold a refund; it takes so many seconds."""

    async def refund(amount: int) -> str:
        with Path(ledger).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"amount": amount, "at": time.time_ns() // 1000}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        say("started")
        await asyncio.sleep(float(seconds))
        return "refunded"

    async with await opened(where) as adapter:
        call = Call("issue_refund", {"amount": 4900}, key=key)
        try:
            outcome = await adapter.hold(call, run=refund, wait_limit=float(limit))
        except HeldElsewhere:
            say("ended", "held_elsewhere")
            return
    say("ended", outcome.state, outcome.reason, "|", outcome.explanation)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # may be inherited as ignored
    try:
        asyncio.run(hold(*sys.argv[1:]))
    except KeyboardInterrupt:
        say("ended", "interrupted")
