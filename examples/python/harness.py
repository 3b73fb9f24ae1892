"""The refund desk's harness in Python, in two short lives.

`harness.py propose FOLDER`: the agent proposes two refunds; they are saved, and this process ends.
`harness.py wake FOLDER`: a process that knows nothing yet is started by wakegate, with what became of a call on its
standard input.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from wakegate_adapter import Adapter, Call, StoreUnavailable, Ticket

REFUNDS = [
    Call(
        "issue_refund",
        {"payment_id": "pay-1", "amount": 4900, "currency": "EUR"},
        key="run-7:refund-1",  # the agent's own, made before the call: saving it again finds the same call
        reasoning="The customer was charged twice.",
    ),
    Call(
        "issue_refund",
        {"payment_id": "pay-2", "amount": 12000, "currency": "EUR"},
        key="run-7:refund-2",
        reasoning="The parcel never came.",
    ),
]


async def propose(desk: "Desk") -> None:
    """Save both calls; each is on disk when `suspend` returns, and the process may end."""
    async with await Adapter.open(desk.control) as adapter:
        for call in REFUNDS:
            await again(partial(adapter.suspend, call, runs="harness", wake="refund-desk"))


async def wake(desk: "Desk") -> None:
    """Act on one wake. It may come twice, and changes nothing the second time."""
    told = json.load(sys.stdin)["data"]
    async with await Adapter.open(desk.control) as adapter:
        if told["state"] == "permitted":
            await run(desk, adapter, told)
        else:
            desk.tell_the_agent(f"{told['key']}: {told['state']}: {told['note']} {told['result']}")


async def run(desk: "Desk", adapter: Adapter, told: dict[str, Any]) -> None:
    """Spend the permission, once, and make the refund; leaving the block records what was said of it."""
    async with adapter.claim(told["execution_id"]) as attempt:
        if attempt.permitted:
            attempt.succeed(await desk.refund(attempt.arguments, attempt.idempotency_key))
        else:
            desk.tell_the_agent(f"{told['key']}: not run by this process: {attempt.explanation}")


async def again(ask: Callable[[], Awaitable[Ticket]]) -> Ticket:
    """Ask until there is an answer: what this error is raised by may be asked again as it is."""
    for pause in (0.5, 1, 2, 4, 8):
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(pause)
    return await ask()


class Desk:
    """What this harness has: a way to wakegate, a bank, and an agent to tell."""

    def __init__(self, folder: Path) -> None:
        """Read where things are."""
        places = json.loads((folder / "places.json").read_text())
        self.control: str = places["control"]
        self._bank: str = places["bank"]
        self._agent = folder / "agent.txt"

    async def refund(self, order: dict[str, Any], key: str) -> dict[str, Any]:
        """Ask the bank for a refund; the same key asks for the same one."""
        async with (
            aiohttp.ClientSession(raise_for_status=True) as bank,
            bank.post(f"{self._bank}/refunds", json=order, headers={"Idempotency-Key": key}) as answer,
        ):
            made: dict[str, Any] = await answer.json()
            return made

    def tell_the_agent(self, line: str) -> None:
        """Write a line where the agent looks when it goes on."""
        with self._agent.open("a") as agent:
            agent.write(line + "\n")


if __name__ == "__main__":
    asyncio.run({"propose": propose, "wake": wake}[sys.argv[1]](Desk(Path(sys.argv[2]))))
