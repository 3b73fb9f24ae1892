"""Cases: a point, broken in the story that reaches it, and what came of it."""

import asyncio
import shutil
import signal
import tempfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from faults.catalogue import PACKAGES, points
from faults.count import count
from faults.grounds import FARTHEST, GROUNDS, HOME, Ground, Land, Servers, land
from faults.processes import Nursery, nursery
from faults.stories import STORIES, Story
from faults.world import DELAY_S, World, log_of, world
from support.rooms import room

Action = Literal["kill", "raise", "delay"]
ACTIONS: Final[tuple[Action, ...]] = ("kill", "raise", "delay")
AT_ONCE: Final = {"kill": 8, "raise": 8, "delay": 16}
"""How many worlds there are at once; most of their time they wait, delayed ones for longer."""

ATTEMPTS: Final = 3

_T = TypeVar("_T")


@dataclass(frozen=True)
class Case:
    """One point and one action."""

    program: str
    point: str
    action: Action
    story: Story
    ground: Ground = HOME
    others: tuple[Story, ...] = ()
    """Stories that reach the point too, should this one not do so every time."""

    @property
    def fault(self) -> str:
        """What the program is armed with."""
        return f"{self.point}={self.action}" + (f":{DELAY_S}" if self.action == "delay" else "")


@dataclass(frozen=True)
class Seen:
    """What came of a case."""

    case: Case
    ends: list[str] = field(default_factory=list)
    """How each call of the story ended."""
    statuses: list[int] = field(default_factory=list)
    """How the program ended before it was started again."""
    problem: str | None = None
    """Which promise was broken."""


@dataclass(frozen=True)
class Stage:
    """Where cases run: a folder, a nursery, and a store that is made already."""

    folder: Path
    nursery: Nursery
    land: Land

    async def trace(self, program: str, ground: Ground = HOME) -> dict[str, set[str]]:
        """Let every story of the program happen unarmed on a ground; return the points that each reaches."""
        stories = [story for story in STORIES if story.subject == program]
        reached = await _a_few_at_once(8, (self._unarmed(story, ground) for story in stories))
        return dict(zip([story.name for story in stories], reached, strict=True))

    async def trace_all(self, program: str) -> dict[str, set[str]]:
        """Return the points that each story of the program reaches, on one machine or on the farthest ground."""
        return joined(program, await self.trace(program), await self.trace(program, FARTHEST))

    async def _unarmed(self, story: Story, ground: Ground) -> set[str]:
        place = f"{story.subject}-{GROUNDS.index(ground)}-{story.name}"
        with self._folder(place) as folder:
            async with self.world(folder, story, ground, None) as found:
                await story.happen(found)
                await count(found)
                return found.reached

    @contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        """A folder until a case ends: memory, which many of them would fill, may be all that there is below."""
        folder = self.folder / name
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    async def see(self, action: Action, cases: Iterable[Case]) -> list[Seen]:
        """Run the cases of an action, a few at once."""
        return await _a_few_at_once(AT_ONCE[action], (self._see(number, case) for number, case in enumerate(cases)))

    async def _see(self, number: int, case: Case) -> Seen:
        """Run one case; again in a new world if the point was not reached, since some depend on who comes first."""
        stories = (case.story, *case.others)
        for attempt in range(max(ATTEMPTS, len(stories))):
            case = replace(case, story=stories[attempt % len(stories)])
            place = f"{case.program}-{GROUNDS.index(case.ground)}-{case.action}"
            with self._folder(f"{place}{number}-{attempt}") as folder:
                async with self.world(folder, case.story, case.ground, case.fault) as found:
                    try:
                        await case.story.happen(found)
                        if case.point not in found.reached:
                            continue
                        check_fault(case, found)
                        return Seen(case, await count(found), found.statuses)
                    except Exception as error:  # noqa: BLE001 (the others go on; the test tells of all that failed)
                        return Seen(case, [], found.statuses, f"{type(error).__name__}: {error}\n{log_of(folder)}")
        return Seen(case, problem="the point was not reached")

    @asynccontextmanager
    async def world(self, folder: Path, story: Story, ground: Ground, fault: str | None) -> AsyncIterator[World]:
        """Make a world for a story, in its folder."""
        async with (
            self.land.place(ground, folder, fresh=story.fresh) as place,
            world(folder, place, self.nursery, story.subject, fault, fresh=story.fresh) as found,
        ):
            yield found


def check_fault(case: Case, found: World) -> None:
    """Check what the fault did to the program."""
    if case.action == "kill":
        assert found.statuses == [-signal.SIGKILL], f"not killed once, but {found.statuses}"
    elif case.action == "delay":
        assert found.statuses == [], f"a delay ended the program: {found.statuses}"
    else:
        assert found.statuses in ([], [1]), f"the program broke down: {found.statuses}"


Traced = Mapping[str, set[str]]
"""The points that each story reaches, on whatever ground."""


def joined(program: str, home: Traced, farthest: Traced) -> dict[str, set[str]]:
    """Return what stories reach on either ground; what only another ground has, any story reaches there, so the first.

    A case whose point is not reached is told as broken.
    """
    found = {story: home[story] | farthest[story] for story in home}
    everything = set[str]().union(*(points(program, ground) for ground in GROUNDS))
    found[next(iter(found))] |= everything.difference(*found.values())
    return found


def cases(program: str, action: Action, traced: Traced, ground: Ground) -> list[Case]:
    """Return a case for every point of a ground, in the first story that reaches it."""
    found: dict[str, Case] = {}
    for case in everywhere(program, action, traced, ground):
        first = found.setdefault(case.point, case)
        if first is not case:
            found[case.point] = replace(first, others=(*first.others, case.story))
    return [found[point] for point in sorted(found)]


def spread(program: str, action: Action, traced: Traced) -> list[Case]:
    """Return a case for every point of a program's share, on one of the grounds that have it, always the same one."""
    everything = [case for ground in GROUNDS for case in cases(program, action, traced, ground)]
    found = []
    for point in sorted(share(program, action)):
        here = [case for case in everything if case.point == point]
        found.append(here[zlib.crc32(f"{program} {action} {point}".encode()) % len(here)])
    return found


def share(program: str, action: Action) -> set[str]:
    """Return the points that are broken in this program when each is broken once in every way, not in every program.

    Those that several reach, in code that they share, are shared out among them. A transaction that is broken at its
    beginning leaves what one leaves that is broken before its commit: nothing, so the latter stands for both.
    """
    reached = {each: set[str]().union(*(points(each, ground) for ground in GROUNDS)) for each in PACKAGES}
    found = set()
    for point in reached[program]:
        place, _, verb = point.partition(":")
        if place == "store.begin" and f"store.commit:{verb}" in reached[program]:
            continue
        sharers = [each for each in PACKAGES if point in reached[each]]
        if sharers[zlib.crc32(f"{action} {point}".encode()) % len(sharers)] == program:
            found.add(point)
    return found


def everywhere(program: str, action: Action, traced: Traced, ground: Ground) -> list[Case]:
    """Return a case for every point of a ground in every story that reaches it."""
    stories, there = [story for story in STORIES if story.subject == program], points(program, ground)
    return [
        Case(program, point, action, story, ground) for story in stories for point in sorted(traced[story.name] & there)
    ]


@asynccontextmanager
async def stage(servers: Servers | None = None) -> AsyncIterator[Stage]:
    """Set the stage in an empty folder, with a name short enough for sockets below it; without servers for `HOME`."""
    with tempfile.TemporaryDirectory(prefix="wg", dir=room()) as name:
        async with land(Path(name), servers) as found, nursery() as made:
            yield Stage(Path(name), made, found)


async def _a_few_at_once(few: int, work: Iterable[Awaitable[_T]]) -> list[_T]:
    places = asyncio.Semaphore(few)

    async def placed(one: Awaitable[_T]) -> _T:
        async with places:
            return await one

    return await asyncio.gather(*map(placed, work))
