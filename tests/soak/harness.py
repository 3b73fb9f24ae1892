"""A harness as a process that may die: `python -m soak.harness PARENT NAME SEED PER_SECOND WAY INSTANCE …`.

It keeps a book outside the program: what it is about to save, then that it is saved. Started again, it goes on with
what its book says: it saves what may not be saved yet under the same key, claims what it has not claimed, and seals the
groups that it has not sealed. Its way is `store`, or the socket of a receiver's control API. In another file it keeps
what the stream of resolutions tells it.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TypeVar
from uuid import UUID

from soak import calls
from soak.calls import ENDED, GROUP_MODES, GROUP_SIZES, GROUPED, MODES, WAKE_TARGET, Mode, parts
from soak.effects import folder, have_effect
from soak.journal import Journal
from soak.tools import LONG_S
from wakegate_adapter import Adapter, Attempt, Call
from wakegate_adapter.control_calls import ControlCalls
from wakegate_console.child import tie_to
from wakegate_schema.calls import Calls, StoreCalls
from wakegate_schema.errors import WakegateError
from wakegate_schema.settings import load_settings
from wakegate_schema.store import StoreUnavailable, open_store

Found = TypeVar("Found")

LEASE_S = 3.0
"""How long a claim or a hold lasts unless it is kept, in seconds."""
HOLD_LIMIT_S = 8.0
AGAIN_S = 0.3
"""How long to wait before what the store could not do is asked for again, in seconds."""
AT_ONCE = 24
"""Calls under way at most: a slow machine gets fewer a second."""
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
    group: str | None = None

    @property
    def call(self) -> Call:
        """The call, the same whenever it is asked for."""
        arguments = {"call": self.key, "happens": self.happens}
        timeout = calls.FATES[parts(self.tool)[0]].timeout
        return Call(self.tool, arguments, key=self.key, instance=self.instance, timeout=timeout, group=self.group)


class Harness:
    """Saves calls for as long as there is no word to be quiet, and sees each to its end."""

    def __init__(self, adapter: Adapter, book: Journal, stream: Journal, random: Random) -> None:
        """Take the adapter, the book, the file of what the stream tells, and what chooses."""
        self._adapter = adapter
        self._book = book
        self._stream = stream
        self._random = random
        self._tasks: set[asyncio.Task[None]] = set()

    async def go_on(self) -> None:
        """Take up what the book says is not ended; a hold dies with its process."""
        facts = self._book.facts()
        ended = {fact["key"] for fact in facts if fact["event"] == "ended"}
        abandoning = {fact["key"] for fact in facts if fact["event"] == "abandoning"}
        sealed = {fact["group"] for fact in facts if fact["event"] == "sealed"}
        groups: dict[str, list[Intent]] = {}
        for fact in facts:
            if fact["event"] != "intent":
                continue
            intent = Intent(**{name: fact[name] for name in Intent.__slots__})
            if intent.group is not None and intent.group not in sealed:
                groups.setdefault(intent.group, []).append(intent)
            if intent.key not in ended and intent.mode != "hold":
                self._carry(intent, abandon=intent.key in abandoning)
        for members in groups.values():
            self._begin(self._complete(members))

    async def save_calls(self, instances: list[str], per_second: float) -> None:
        """Save one call after another, some of them in groups."""
        quiet = folder() / "quiet"
        while not quiet.exists():
            size = self._random.choice(GROUP_SIZES) if self._random.random() < GROUPED else 1
            await asyncio.sleep(self._random.expovariate(per_second / size))
            if len(self._tasks) >= AT_ONCE:
                continue
            group = self._new_key() if size > 1 else None
            instance = self._random.choice(instances)
            intents = [self._intent(instance, group) for _ in range(size)]
            for intent in intents:  # all at once, or those that the book has when this dies are the group
                self._book.note(event="intent", **asdict(intent))
            for intent in intents:
                self._carry(intent, abandon=intent.mode != "hold" and self._random.random() < ABANDONED)
            if group is not None:
                self._begin(self._complete(intents))

    async def follow(self) -> None:
        """Keep what the stream tells, each with the cursor to go on after, in the order in which it comes."""
        while True:
            facts = self._stream.facts()
            with suppress(StoreUnavailable):
                async for cursor, told in self._adapter.resolutions(facts[-1]["cursor"] if facts else ""):
                    self._stream.note(cursor=cursor, id=told.id, state=told.state)
            await asyncio.sleep(AGAIN_S)

    def _intent(self, instance: str, group: str | None) -> Intent:
        mode = self._random.choice(MODES if group is None else GROUP_MODES)
        return Intent(
            key=self._new_key(),
            instance=instance,
            tool=calls.choose(self._random, mode),
            mode=mode,
            happens=self._random.random() < 0.6,
            group=group,
        )

    def _new_key(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _complete(self, members: list[Intent]) -> None:
        """Seal a group once all its calls are saved."""
        for intent in members:
            await self._saved(intent)
        first = members[0]
        await _insist(lambda: self._adapter.seal(str(first.group), first.instance))
        self._book.note(event="sealed", group=first.group)

    async def _saved(self, intent: Intent) -> str:
        """Save a call, or find that it is saved."""
        ticket = await _insist(
            lambda: self._adapter.suspend(
                intent.call, runs="harness" if intent.mode == "harness" else "worker", wake=WAKE_TARGET
            )
        )
        return ticket.execution_id

    def _carry(self, intent: Intent, *, abandon: bool) -> None:
        self._begin(self._see_through(intent, abandon))

    async def _see_through(self, intent: Intent, abandon: bool) -> None:
        if intent.mode == "hold":
            state = await self._hold(intent)
        else:
            execution_id = await self._saved(intent)
            self._book.note(event="saved", key=intent.key, execution_id=execution_id)
            if abandon:
                await self._abandon(intent, execution_id)
            state = await self._run_when_permitted(intent, execution_id)
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


async def main(name: str, seed: str, per_second: str, way: str, *instances: str) -> None:
    """Be a harness until somebody ends it."""
    book, stream = Journal(folder() / f"{name}.jsonl"), Journal(folder() / f"stream-{name}.jsonl")
    random = Random(f"{seed}/{name}/{len(book.facts())}")  # a life is not the one before over again
    async with Adapter(await _open(way), hold=LEASE_S) as adapter:
        harness = Harness(adapter, book, stream, random)
        await harness.go_on()
        async with asyncio.TaskGroup() as group:
            group.create_task(harness.follow())
            group.create_task(harness.save_calls(list(instances), float(per_second)))
            await asyncio.Event().wait()


async def _open(way: str) -> Calls:
    if way != "store":
        return ControlCalls(Path(way))
    location = load_settings(Path("wakegate.toml")).store
    return StoreCalls(await _insist(lambda: open_store(location, mode="use")), lease=LEASE_S)


if __name__ == "__main__":
    if tie_to(int(sys.argv[1])):
        asyncio.run(main(*sys.argv[2:]))
