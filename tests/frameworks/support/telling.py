"""One story, told: a harness, a waker and a provider, and what came of them."""

import asyncio
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from frameworks.support import desk as desks
from frameworks.support.desk import Desk
from frameworks.support.harness import RunState
from frameworks.support.points import DIE, GO, HELD, HOLD, Point
from frameworks.support.programs import PATIENCE_S, Programs, end, until
from frameworks.support.sdk_receiver import LATER
from frameworks.support.waker import Instance, Waker
from support.provider import provider, provider_settings
from wakegate_provider import decide, list_requests, redeliver
from wakegate_schema.settings import Settings

POLICY: Final = "consumption = true\n"
NOBODY: Final = Instance("", "")


@dataclass(frozen=True)
class At:
    """The provider of all stories, in this process."""

    url: str
    settings: Settings

    @property
    def token_file(self) -> Path:
        """Holds its provisioner token."""
        return self.settings.provider_provisioner_token_path

    def rows(self, instance_id: str) -> list[Mapping[str, Any]]:
        """The requests of an instance."""
        return [row for row in list_requests(self.settings, payload=True) if row["instance_id"] == instance_id]

    def delivered(self, instance_id: str) -> bool:
        """Whether every notification for an instance is acknowledged as often as it is wanted."""
        return all(row["deliveries_made"] == row["deliveries_wanted"] for row in self.rows(instance_id))

    def notified(self, instance_id: str) -> int:
        """How many notifications there are for an instance."""
        return sum(row["event_id"] is not None for row in self.rows(instance_id))


@asynccontextmanager
async def at_provider(folder: Path) -> AsyncIterator[At]:
    """Run a provider with consumption in this process."""
    settings = provider_settings(folder, POLICY)
    async with provider(settings) as caller:
        yield At(caller.url, settings)


@dataclass(frozen=True)
class Observed:
    """What came of a story."""

    ended: bool
    """Whether the run came to its end; if not, nothing that still exists will wake it."""
    effects: Mapping[int, int]
    """How often the tool ran, by amount."""
    told: Mapping[str, str]
    """What the model was told of each call that is over: its id → a word of `TOLD`, or the text."""

    def __str__(self) -> str:
        """In words, for a table."""
        amounts = sorted({int(call.removeprefix("call-")) for call in self.told} | set(self.effects))
        calls = "; ".join(self._call(amount) for amount in amounts) or "nothing ran, the model was told nothing"
        return f"{'ended' if self.ended else '**stopped for good**'}: {calls}"

    def _call(self, amount: int) -> str:
        ran = self.effects.get(amount, 0)
        times = {0: "did not run", 1: "ran once"}.get(ran, f"**ran {ran} times**")
        return f"call {amount} {times}, told {self.told.get(f'call-{amount}', 'nothing')}"


@dataclass
class Telling:
    """A story as it goes on; the verbs are what happens in it."""

    at: At
    programs: Programs
    waker: Waker
    instance: Instance = NOBODY
    early: list[Process] = field(default_factory=list)

    async def start(self, *amounts: int, timeout: str = "30m", holds: Point | None = None) -> None:
        """The agent asks for its refunds and pauses, and its process exits; or it stands still before that."""
        self.instance = await self.waker.begin()
        Desk(self.at.url, self.instance.token, amounts, timeout).put(self.folder)
        if holds is None:
            await self.programs.run("start")
            return
        self.arm(HOLD, holds)
        self.early.append(await self.programs.begin("harness", "start"))
        await until(self.holds)

    async def let_go(self) -> None:
        """What stands still goes on, and the agent's process exits."""
        (self.folder / GO).touch()
        for process in self.early:
            async with asyncio.timeout(PATIENCE_S):
                await process.communicate()

    async def kill_start(self) -> None:
        """What stands still is killed."""
        for process in self.early:
            await end(process)

    @property
    def folder(self) -> Path:
        """The harness's."""
        return self.programs.folder

    @property
    def logs(self) -> str:
        """What all its processes have written."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("**/log")))

    def arm(self, what: Literal["die", "hold"], point: Point) -> None:
        """At this point the harness dies, or stands still."""
        (self.folder / what).write_text(point)

    def holds(self) -> bool:
        """Whether it stands still."""
        return (self.folder / HELD).exists()

    async def killed(self, point: Point, amount: int = 1) -> None:
        """The run that an approval resumes is killed at a point."""
        self.arm(DIE, point)
        async with self.not_yet():
            self.decide(amount)
            await self.delivered()
        await until(lambda: not (self.folder / DIE).exists())
        await self.waker.fell()

    @asynccontextmanager
    async def not_yet(self) -> AsyncIterator[None]:
        """Let no wake begin that is in memory only, so that what happens in the block comes before it."""
        (self.folder / LATER).touch()
        yield
        (self.folder / LATER).unlink()

    def decide(self, amount: int, decision: Literal["approve", "deny"] = "approve", **how: str) -> None:
        """A person decides the call with this amount."""
        decide(self.at.settings, self.row(amount)["request_id"], decision, **how)

    def redeliver(self, amount: int) -> None:
        """The notification of this call's decision comes once more."""
        redeliver(self.at.settings, self.row(amount)["event_id"])

    def row(self, amount: int) -> Mapping[str, Any]:
        """The request of the call with this amount."""
        (found,) = self._with(amount)
        return found

    async def asked(self, amount: int) -> None:
        """Wait until there is a request for this amount."""
        await until(lambda: bool(self._with(amount)))

    async def in_state(self, amount: int, status: str) -> None:
        """Wait until the call's request is in this state."""
        await until(lambda: self.row(amount)["status"] == status)

    async def delivered(self) -> None:
        """Wait until all notifications are acknowledged."""
        await until(lambda: self.at.delivered(self.instance.instance_id))

    async def tried(self, amount: int) -> None:
        """Wait until the provider has tried to deliver, and nobody was there."""
        await until(lambda: self.row(amount)["attempts"] > 0)

    async def woken(self, amount: int) -> None:
        """Wait until a wake for this call is over."""
        await self.waker.woken(self.row(amount)["request_id"])

    async def observed(self) -> Observed:
        """Wait until the run has ended, or nobody will ever wake it, and say what came of it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                idle = await self.waker.idle()
                if idle or desks.answers(self.folder):
                    state = await self.programs.state()
                    if idle or state.ended:
                        return self._seen(state)
                await asyncio.sleep(0.2)

    def _with(self, amount: int) -> list[Mapping[str, Any]]:
        rows = self.at.rows(self.instance.instance_id)
        return [row for row in rows if row["arguments"] == {"amount": amount}]

    def _seen(self, state: RunState) -> Observed:
        told = {call: _word(text) for call, text in state.told.items()}
        return Observed(state.ended, Counter(desks.effects(self.folder)), told)


TOLD: Final = {
    "refunded": "its result",
    "denied this call": "of the denial",
    "already attempted": "that it was attempted",
    "permission to start this call expired": "that it expired",
}
"""Part of what the SDK or the tool says to the model → how the table says it."""


def _word(text: str) -> str:
    return next((word for part, word in TOLD.items() if part in text), text)


@asynccontextmanager
async def telling(at: At, framework: str, kind: type[Waker], folder: Path) -> AsyncIterator[Telling]:
    """Make a folder for one story and end what is left of it afterwards."""
    folder.mkdir(parents=True)
    programs = Programs(framework, folder)
    told = Telling(at, programs, kind(programs, at))
    try:
        yield told
    finally:
        await told.waker.kill()
        for process in told.early:
            await end(process)
