"""The demo's harness, in two short lives: `suspend` saves every call and ends, `claim ID` runs one of them itself."""

import asyncio
import json
import sys

from wakegate_adapter import Adapter, Call
from wakegate_console.demo.cases import CASES
from wakegate_console.demo.ledger import record_refund


async def suspend() -> None:
    """Save every call and say which execution is whose, as one JSON object."""
    tickets = {}
    async with await Adapter.open() as adapter:
        for case in CASES:
            call = Call(
                case.tool,
                case.arguments,
                key=f"demo:{case.name}",
                timeout=case.timeout,
                reasoning=f"The customer was charged twice ({case.tells}).",
            )
            ticket = await adapter.suspend(call, runs=case.runs)
            tickets[case.name] = ticket.execution_id
    print(json.dumps(tickets), flush=True)  # noqa: T201 (this is what the program is asked for)


async def claim(execution_id: str) -> None:
    """Wait until a call is permitted, then run it here. Raises RuntimeError when it never will be."""
    async with await Adapter.open() as adapter:
        await adapter.wait(execution_id)
        async with adapter.claim(execution_id) as attempt:
            if not attempt.permitted:
                raise RuntimeError(attempt.explanation)
            await asyncio.to_thread(record_refund, **attempt.arguments)
            attempt.succeed({"refund_id": attempt.idempotency_key})


if __name__ == "__main__":
    asyncio.run(suspend() if sys.argv[1] == "suspend" else claim(sys.argv[2]))
