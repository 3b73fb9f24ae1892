"""A harness as a process that may die at any moment: `python -m soak.harness PARENT NAME SEED PER_SECOND INSTANCE …`.

It keeps a book outside the program: what it is about to save, then that it is saved. Started again, it goes on with
what its book says: it saves what may not be saved yet under the same key, and claims what it has not claimed.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TypeVar
from uuid import UUID

from soak import calls
from soak.calls import ENDED, MODES, WAKE_TARGET, Mode, parts
from soak.effects import folder, have_effect
from soak.journal import Journal
from soak.tools import LONG_S
from wakegate_adapter import Adapter, Attempt, Call
from wakegate_console.child import tie_to
from wakegate_schema.calls import StoreCalls
from wakegate_schema.errors import WakegateError
from wakegate_schema.settings import load_settings
from wakegate_schema.store import StoreUnavailable, open_store

Found = TypeVar("Found")

LEASE_S = 3.0
"""How long a claim or a hold lasts unless it is kept, in seconds."""
HOLD_LIMIT_S = 8.0
AGAIN_S = 0.3
"""How long to wait before what the store could not do is asked for again, in seconds."""
ABANDONED = 0.08
"""The part of calls that are given up soon after they were saved."""


class Declined(Exception):
    """The bank said no."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A call that a harness is about to save."""

    key: str
    instance: str
    tool: str
    mode: Mode
    happens: bool

    @property
    def call(self) -> Call:
        """The call, the same whenever it is asked for."""
        arguments = {"call": self.key, "happens": self.happens}
        timeout = calls.FATES[parts(self.tool)[0]].timeout
        return Call(self.tool, arguments, key=self.key, instance=self.instance, timeout=timeout)


class Harness:
    """Saves calls for as long as there is no word to be quiet, and sees each to its end."""

    def __init__(self, adapter: Adapter, book: Journal, random: Random) -> None:
        """Take the adapter, the book and what chooses."""
        self._adapter = adapter
        self._book = book
        self._random = random
        self._tasks: set[asyncio.Task[None]] = set()

    async def go_on(self) -> None:
        """Take up what the book says is not ended; a hold dies with its process."""
        facts = self._book.facts()
        ended = {fact["key"] for fact in facts if fact["event"] == "ended"}
        abandoning = {fact["key"] for fact in facts if fact["event"] == "abandoning"}
        for fact in facts:
            if fact["event"] == "intent" and fact["key"] not in ended and fact["mode"] != "hold":
                intent = Intent(**{name: fact[name] for name in Intent.__slots__})
                self._carry(intent, abandon=intent.key in abandoning)

    async def save_calls(self, instances: list[str], per_second: float) -> None:
        """Save one call after another."""
        quiet = folder() / "quiet"
        while not quiet.exists():
            await asyncio.sleep(self._random.expovariate(per_second))
            mode = self._random.choice(MODES)
            intent = Intent(
                key=str(UUID(int=self._random.getrandbits(128), version=4)),
                instance=self._random.choice(instances),
                tool=calls.choose(self._random, mode),
                mode=mode,
                happens=self._random.random() < 0.6,
            )
            self._book.note(event="intent", **asdict(intent))
            self._carry(intent, abandon=mode != "hold" and self._random.random() < ABANDONED)

    def _carry(self, intent: Intent, *, abandon: bool) -> None:
        task = asyncio.create_task(self._see_through(intent, abandon))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_through(self, intent: Intent, abandon: bool) -> None:
        if intent.mode == "hold":
            state = await self._hold(intent)
        else:
            ticket = await _insist(
                lambda: self._adapter.suspend(
                    intent.call, runs="harness" if intent.mode == "harness" else "worker", wake=WAKE_TARGET
                )
            )
            self._book.note(event="saved", key=intent.key, execution_id=ticket.execution_id)
            if abandon:
                await self._abandon(intent, ticket.execution_id)
            state = await self._run_when_permitted(intent, ticket.execution_id)
        self._book.note(event="ended", key=intent.key, state=state)

    async def _abandon(self, intent: Intent, execution_id: str) -> None:
        await asyncio.sleep(self._random.random() * 2)
        self._book.note(event="abandoning", key=intent.key)
        with suppress(WakegateError):  # it has started, or the store cannot be reached: then it goes on
            await self._adapter.abandon(execution_id, reason="the customer has left")

    async def _run_when_permitted(self, intent: Intent, execution_id: str) -> str:
        while True:
            found = await _insist(lambda: self._adapter.wait(execution_id))
            if found.state in ENDED:
                return str(found.state)
            try:
                async with self._adapter.claim(execution_id) as attempt:
                    if attempt.permitted:
                        await _behave(intent, attempt)
            except (WakegateError, ConnectionResetError) as error:
                self._book.note(event="claim_failed", key=intent.key, error=type(error).__name__)
            await asyncio.sleep(AGAIN_S)

    async def _hold(self, intent: Intent) -> str:
        async def run(call: str, happens: bool) -> str:
            return await _act(parts(intent.tool)[1], call, happens)

        self._book.note(event="holding", key=intent.key)
        try:
            outcome = await self._adapter.hold(intent.call, run, HOLD_LIMIT_S, failures=(Declined,))
        except WakegateError as error:
            self._book.note(event="hold_failed", key=intent.key, error=error.reason)
            return "unknown"
        return str(outcome.state)


async def _behave(intent: Intent, attempt: Attempt) -> None:
    behaviour = parts(intent.tool)[1]
    try:
        told = await _act(behaviour, attempt.arguments["call"], attempt.arguments["happens"])
    except Declined as error:
        attempt.fail(str(error))
    else:
        if behaviour != "say_nothing":
            attempt.succeed(told)


async def _act(behaviour: str, call: str, happens: bool) -> str:
    if behaviour == "fail":
        raise Declined("insufficient funds")
    if happens or behaviour in ("pay", "take_long"):
        await asyncio.to_thread(have_effect, call, "harness")
    if behaviour == "take_long":
        await asyncio.sleep(LONG_S)
    if behaviour == "break_down":
        raise ConnectionResetError
    return "paid"


async def _insist(ask: Callable[[], Awaitable[Found]]) -> Found:
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(AGAIN_S)


async def main(name: str, seed: str, per_second: str, *instances: str) -> None:
    """Be a harness until somebody ends it."""
    book = Journal(folder() / f"{name}.jsonl")
    random = Random(f"{seed}/{name}/{len(book.facts())}")  # a life is not the one before over again
    database = load_settings(Path("wakegate.toml")).database
    store = await _insist(lambda: open_store(database, mode="use"))
    async with Adapter(StoreCalls(store, lease=LEASE_S), hold=LEASE_S) as adapter:
        harness = Harness(adapter, book, random)
        await harness.go_on()
        await harness.save_calls(list(instances), float(per_second))
        await asyncio.Event().wait()


if __name__ == "__main__":
    if tie_to(int(sys.argv[1])):
        asyncio.run(main(*sys.argv[2:]))
