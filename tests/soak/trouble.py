"""Trouble: several lanes of it at a time, each dealt from shuffled decks, so that every kind comes in every soak."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from soak.clocks import TestClock
from soak.database_trouble import DatabaseTrouble
from soak.decks import Deck, dealt
from soak.disk_trouble import DiskTrouble
from soak.journal import real_time
from soak.plan import Plan
from soak.queue_trouble import QueueTrouble
from soak.service import Service
from soak.stage import Stage
from soak.stuck import Stuck

TOO_EARLY = 0.2
"""The part of the trouble that comes to a service whether it has come up or not."""
PATIENCE_S = 30.0
"""How long trouble waits, otherwise, for what it comes over to work: a machine may be slow."""

RESETS = 15
"""How often an operator tries to reset the mark: the disk may be full, the database away."""


class Trouble:
    """What is done to the services, to the clocks, and to the disk or the servers while the load goes on."""

    def __init__(self, stage: Stage, plan: Plan) -> None:
        """Take the stage and the plan."""
        self._stage = stage
        self._plan = plan
        self._lanes = {
            "services": (self._services(), 0.3, 1.3),
            "clocks": (self._clocks(), 0.5, 2.0),
        }
        if stage.disk:
            disk = DiskTrouble(stage.disk, stage.database, stage.journal, plan.random("fillings"))
            self._lanes["disk"] = (disk.decks(), 3.0, 9.0)
        if plan.ground.is_postgresql:
            database = DatabaseTrouble(stage.servers, stage.journal, plan)
            self._lanes["database"] = (database.decks(), 0.5, 2.5)
        if plan.ground.has_redis:
            queue = QueueTrouble(stage.servers.redis, stage.journal, plan.random("forgetting"))
            self._lanes["queue"] = (queue.decks(), 0.5, 2.0)
        self.count = 0
        self.latest = "none"

    async def run(self, until: asyncio.Event) -> None:
        """Make trouble until the event is set, then end what was begun."""
        async with asyncio.TaskGroup() as group:
            for name, (decks, least, most) in self._lanes.items():
                group.create_task(self._lane(name, decks, least, most, until))

    async def _lane(self, name: str, decks: list[Deck], least: float, most: float, until: asyncio.Event) -> None:
        random = self._plan.random(name)
        for title, card in dealt(decks, random):
            try:
                await asyncio.wait_for(until.wait(), random.uniform(least, most))
            except TimeoutError:
                if name == "database":
                    await self._until_up()
                self.latest, self.count = title, self.count + 1
                self._stage.journal.note(event="trouble", what=title)
                await card()
            else:
                return

    def _services(self) -> list[Deck]:
        random = self._plan.random("downtimes")
        kills: Deck = {"kill everything": lambda: self._kill_everything(random)}
        stops: Deck = {}
        pauses: Deck = {}
        for service in self._stage.services:
            name = service.name
            kills[f"kill {name}"] = partial(self._end, name, signal.SIGKILL, random)
            pauses[f"pause {name}"] = partial(self._pause, name, random)
            if service.role != "harness":
                stops[f"stop {name}"] = partial(self._end, name, signal.SIGTERM, random)
        return [kills, kills, stops, pauses]

    async def _until_up(self) -> None:
        """Wait for a receiver and a worker that work, or nothing ever comes up between two outages."""
        for role in ("receiver", "worker"):
            services = [service for service in self._stage.services if service.role == role]
            await self._patiently(partial(_some_work, services))

    async def _ripe(self, name: str, random: Random) -> Service:
        """Return a service that has come up, mostly: what is killed too early has done nothing yet."""
        service = self._stage.service(name)
        if random.random() >= TOO_EARLY:
            await self._patiently(lambda: service.works)
            await asyncio.sleep(random.random() * self._stage.start_s / 2)
        return service

    async def _patiently(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, and no longer than a part of the soak."""
        ends = time.monotonic() + min(PATIENCE_S, self._plan.trouble_s / 6)
        while not holds() and time.monotonic() < ends:
            await asyncio.sleep(0.1)

    async def _end(self, name: str, how: signal.Signals, random: Random) -> None:
        service = await self._ripe(name, random)
        await service.end(how)
        await asyncio.sleep(random.choice((0.0, 0.2, random.random() * 3)))
        await service.start()

    async def _pause(self, name: str, random: Random) -> None:
        service = await self._ripe(name, random)
        service.pause()
        await asyncio.sleep(random.choice((0.3, 1.0, self._plan.lease_s + 1.5)))
        service.go_on()

    async def _kill_everything(self, random: Random) -> None:
        await asyncio.gather(*(service.end(signal.SIGKILL) for service in self._stage.services))
        await asyncio.sleep(random.random() * 2)
        for service in self._stage.services:
            await service.start()

    def _clocks(self) -> list[Deck]:
        random = self._plan.random("skews")
        host, provider, fast = self._stage.host_clock, self._stage.provider_clock, self._plan.fast_s
        hosts: Deck = {
            "host clock slow": lambda: self._apart(host, -random.uniform(6, self._plan.slow_s), random),
            "host clock a little slow": lambda: self._apart(host, -random.uniform(0.5, 4), random),
            "host clock fast": lambda: self._fast(random.uniform(fast / 2, fast), random),
            "host clock stepping": lambda: self._stepping(host, 4.0, random),
            "host clock frozen": lambda: self._frozen(host, random),
        }
        providers: Deck = {
            "provider clock slow": lambda: self._apart(provider, -random.uniform(1, 8), random),
            "provider clock fast": lambda: self._apart(provider, random.uniform(1, 6), random),
            "provider clock stepping": lambda: self._stepping(provider, 4.0, random),
            "provider clock frozen": lambda: self._frozen(provider, random),
        }
        return [hosts, providers]

    async def _apart(self, clock: TestClock, seconds: float, random: Random) -> None:
        clock.set_apart(seconds)
        await asyncio.sleep(random.uniform(1.5, 4))
        clock.set_right()

    async def _fast(self, seconds: float, random: Random) -> None:
        """Let the host's clock be fast, then right; an operator resets the mark that it leaves, or waits it out."""
        clock = self._stage.host_clock
        await self._apart(clock, seconds, random)
        if random.random() < 0.5:
            await reset_mark(self._stage)

    async def _stepping(self, clock: TestClock, most: float, random: Random) -> None:
        for _ in range(5):
            clock.set_apart(random.uniform(-most, most))
            await asyncio.sleep(random.uniform(0.3, 0.8))
        clock.set_right()

    async def _frozen(self, clock: TestClock, random: Random) -> None:
        clock.freeze(real_time())
        await asyncio.sleep(random.uniform(2, 5))
        clock.set_right()


def _some_work(services: Sequence[Service]) -> bool:
    return any(service.runs and service.works for service in services)


async def reset_mark(stage: Stage) -> None:
    """Reset the host's clock mark, as an operator does whose clock has been fast and is right again.

    Raises:
        Stuck: it failed again and again, although the store cannot have been away all the time.
    """
    for left in reversed(range(RESETS)):
        stage.host_clock.note_reset()
        try:
            await stage.command("clock", "reset", "--by", "soak")
        except Stuck:
            if not left:
                raise
            await asyncio.sleep(1.0)
        else:
            return
