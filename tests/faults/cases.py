"""Cases: a point, broken in the story that reaches it, and what came of it."""

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from faults.count import count
from faults.processes import Nursery, nursery
from faults.stories import STORIES, Story
from faults.world import DELAY_S, World, log_of, world
from wakegate_schema.store import open_store

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
    template: Path

    async def trace(self, program: str) -> dict[str, set[str]]:
        """Let every story of the program happen unarmed; return the points that each reaches."""
        stories = [story for story in STORIES if story.subject == program]
        reached = await _a_few_at_once(8, (self._unarmed(story) for story in stories))
        return dict(zip([story.name for story in stories], reached, strict=True))

    async def _unarmed(self, story: Story) -> set[str]:
        folder = self.folder / story.name
        folder.mkdir()
        async with self._world(folder, story, None) as found:
            await story.happen(found)
            await count(found)
            return found.reached

    async def see(self, action: Action, cases: Iterable[Case]) -> list[Seen]:
        """Run the cases of an action, a few at once."""
        return await _a_few_at_once(AT_ONCE[action], (self._see(number, case) for number, case in enumerate(cases)))

    async def _see(self, number: int, case: Case) -> Seen:
        """Run one case; again in a new world if the point was not reached, since some depend on who comes first."""
        stories = (case.story, *case.others)
        for attempt in range(max(ATTEMPTS, len(stories))):
            case = replace(case, story=stories[attempt % len(stories)])
            folder = self.folder / f"{case.action}{number}-{attempt}"
            folder.mkdir()
            async with self._world(folder, case.story, case.fault) as found:
                try:
                    await case.story.happen(found)
                    if case.point not in found.reached:
                        continue
                    check_fault(case, found)
                    return Seen(case, await count(found), found.statuses)
                except Exception as error:  # noqa: BLE001 (the other cases go on; the test tells of all that failed)
                    return Seen(case, [], found.statuses, f"{type(error).__name__}: {error}\n{log_of(folder)}")
        return Seen(case, problem="the point was not reached")

    def _world(self, folder: Path, story: Story, fault: str | None) -> AbstractAsyncContextManager[World]:
        return world(folder, self.nursery, None if story.fresh else self.template, story.subject, fault)


def check_fault(case: Case, found: World) -> None:
    """Check what the fault did to the program."""
    if case.action == "kill":
        assert found.statuses == [-signal.SIGKILL], f"not killed once, but {found.statuses}"
    elif case.action == "delay":
        assert found.statuses == [], f"a delay ended the program: {found.statuses}"
    else:
        assert found.statuses in ([], [1]), f"the program broke down: {found.statuses}"


def cases(program: str, action: Action, traced: Mapping[str, set[str]]) -> list[Case]:
    """Return a case for every point that was traced, in the first story that reaches it."""
    found: dict[str, Case] = {}
    for case in everywhere(program, action, traced):
        first = found.setdefault(case.point, case)
        if first is not case:
            found[case.point] = replace(first, others=(*first.others, case.story))
    return [found[point] for point in sorted(found)]


def everywhere(program: str, action: Action, traced: Mapping[str, set[str]]) -> list[Case]:
    """Return a case for every point in every story that reaches it."""
    stories = [story for story in STORIES if story.subject == program]
    return [Case(program, point, action, story) for story in stories for point in sorted(traced[story.name])]


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Set the stage in an empty folder, with a name short enough for sockets below it."""
    with tempfile.TemporaryDirectory(prefix="wg") as name:
        template = Path(name) / "template.db"
        async with await open_store(f"sqlite:///{template}", mode="service"):
            pass
        async with nursery() as found:
            yield Stage(Path(name), found, template)


async def _a_few_at_once(few: int, work: Iterable[Awaitable[_T]]) -> list[_T]:
    places = asyncio.Semaphore(few)

    async def placed(one: Awaitable[_T]) -> _T:
        async with places:
            return await one

    return await asyncio.gather(*map(placed, work))
