"""The stories: what happens to a paused agent, and what must come of it where nothing is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from frameworks.support.desk import GOES_ON
from frameworks.support.harness import HARNESSES
from frameworks.support.points import HOLD, Point
from frameworks.support.programs import until
from frameworks.support.telling import Observed, Telling, at_provider, telling
from frameworks.support.waker import Waker


@dataclass(frozen=True, eq=False)
class Story:
    """What happens, and what must come of it."""

    name: str
    happens: str
    """In words, for the table."""
    tell: Callable[[Telling], Awaitable[None]]
    effects: Mapping[int, int]
    """How often the tool runs, by amount."""
    told: Mapping[str, str]
    """What the model is told."""
    ends: bool = True
    """Whether the run comes to its end."""
    of: tuple[str, ...] = tuple(HARNESSES)
    """The frameworks it is told of."""
    by_command: bool = False
    """Whether only `make sdk-table` tells it: others pass by all that it shows."""

    @property
    def wanted(self) -> Observed:
        """What must come of it."""
        return Observed(self.ends, self.effects, self.told)


async def on_time(story: Telling) -> None:
    """Pause, decide."""
    await story.start(1)
    story.decide(1)


async def early(story: Telling) -> None:
    """Wake while the pause is not saved yet."""
    await story.start(1, holds=Point.ASKED)
    story.decide(1)
    await story.delivered()
    await story.woken(1)
    await story.let_go()


async def late(story: Telling) -> None:
    """Decide while nobody listens."""
    await story.start(1)
    await story.waker.kill()
    story.decide(1)
    await story.tried(1)
    await story.waker.begin()


async def twice(story: Telling) -> None:
    """Notify again of what has run."""
    await story.start(1, 2)
    story.decide(1)
    await story.woken(1)
    story.redeliver(1)
    await story.delivered()
    story.decide(2)


async def other_order(story: Telling) -> None:
    """Decide the second call first."""
    await story.start(1, 2)
    story.decide(2)
    await story.woken(2)
    state = await story.programs.state()
    assert state.waits == (story.row(1)["request_id"],), state
    story.decide(1)


async def denied(story: Telling) -> None:
    """Deny one of two."""
    await story.start(1, 2)
    story.decide(1, "deny", note="ask the customer")
    story.decide(2)


async def expired(story: Telling) -> None:
    """Let the request expire."""
    async with story.not_yet():
        await story.start(1, timeout="2s")
    await story.in_state(1, "expired")


async def approval_over(story: Telling) -> None:
    """Let the approval expire before anybody hears of it."""
    await story.start(1)
    await story.waker.kill()
    story.decide(1, expires_in="1s")
    await asyncio.sleep(1.1)
    await story.waker.begin()


async def changed(story: Telling) -> None:
    """Change the arguments of one of two where they are saved."""
    await story.start(1, 2)
    await story.programs.run("change", "1", "9")
    story.decide(1)
    story.decide(2)
    await story.asked(9)
    story.decide(9, "deny")


async def killed(point: Point, story: Telling) -> None:
    """Kill what was resumed."""
    await story.start(1)
    await story.killed(point)


async def killed_saved_goes_on(story: Telling) -> None:
    """Kill it between two checkpoints; the harness's resumer goes on."""
    (story.folder / GOES_ON).touch()
    await killed(Point.SAVED, story)


async def start_killed_goes_on(story: Telling) -> None:
    """Kill the agent's first process before its pause is saved; the harness's resumer goes on."""
    (story.folder / GOES_ON).touch()
    await story.start(1, holds=Point.ASKED)
    await story.kill_start()
    story.decide(1)


async def acknowledged(story: Telling) -> None:
    """Kill the waker between its acknowledgement and the wake."""
    await story.start(1)
    async with story.not_yet():
        story.decide(1)
        await story.delivered()
        await story.waker.kill()
    await story.waker.begin()


async def waker_in_tool(story: Telling) -> None:
    """Kill the waker while the tool runs."""
    await story.start(1)
    story.arm(HOLD, Point.IN_TOOL)
    story.decide(1)
    await until(story.holds)
    await story.delivered()
    await story.waker.kill()
    await story.waker.begin()


_RESULT: Final = {"call-1": "its result"}
_ATTEMPTED: Final = {"call-1": "that it was attempted"}
_EXPIRED: Final = {"call-1": "that it expired"}
_BOTH: Final = {"call-1": "its result", "call-2": "its result"}
_SECOND: Final = {"call-1": "of the denial", "call-2": "its result"}

STORIES: Final = (
    Story(
        "on_time", "the agent pauses, its process exits, the call is approved", on_time, {1: 1}, _RESULT,
        by_command=True,
    ),
    Story("early", "the notification comes before the pause is saved", early, {1: 1}, _RESULT),
    Story("late", "nobody listens when the call is decided", late, {1: 1}, _RESULT),
    Story("twice", "the notification comes once more after the call has run", twice, {1: 1, 2: 1}, _BOTH),
    Story("other_order", "of two calls the second is approved first", other_order, {1: 1, 2: 1}, _BOTH),
    Story(
        "denied", "of two calls the first is denied", denied, {2: 1}, _SECOND
    ),
    Story("expired", "nobody decides in time", expired, {}, _EXPIRED),
    Story(
        "approval_over", "the approval ends before anybody hears of it", approval_over, {}, _EXPIRED,
        by_command=True,
    ),
    Story(
        "changed", "the first call's arguments are changed where the pause is saved; the new request is denied",
        changed, {2: 1}, _SECOND,
    ),
    Story(
        "killed_before_gate", "the resumed run is killed before it asks the gate",
        partial(killed, Point.BEFORE_GATE), {1: 1}, _RESULT,
    ),
    Story(
        "killed_consumed", "… after the approval is consumed, before the tool", partial(killed, Point.CONSUMED),
        {}, _ATTEMPTED,
    ),
    Story("killed_in_tool", "… in the tool", partial(killed, Point.IN_TOOL), {1: 1}, _ATTEMPTED),
    Story(
        "killed_reported", "… after the tool, before anything is saved", partial(killed, Point.REPORTED), {1: 1},
        _ATTEMPTED,
    ),
    Story(
        "killed_saved", "… after what the tool returned is saved, before the model answers",
        partial(killed, Point.SAVED), {1: 1}, _RESULT, ends=False, of=("langgraph",), by_command=True,
    ),
    Story(
        "killed_saved_whole", "… after the conversation is saved", partial(killed, Point.SAVED), {1: 1}, _RESULT,
        of=("pydantic-ai",),
    ),
    Story(
        "killed_saved_goes_on", "the same, and the harness's resumer goes on with what nobody runs",
        killed_saved_goes_on, {1: 1}, _RESULT, of=("langgraph",),
    ),
    Story(
        "start_killed_goes_on", "the agent's process is killed before its pause is saved; a resumer that goes on",
        start_killed_goes_on, {1: 1}, _RESULT, of=("langgraph",),
    ),
    Story("acknowledged", "what wakes is killed after it has acknowledged", acknowledged, {1: 1}, _RESULT),
    Story("waker_in_tool", "what wakes is killed while the tool runs", waker_in_tool, {1: 1}, _ATTEMPTED),
)  # fmt: skip


def of(framework: str) -> list[Story]:
    """The stories of a framework."""
    return [story for story in STORIES if framework in story.of]


async def tell(
    framework: str, kind: type[Waker], folder: Path, stories: Iterable[Story], at_once: int = 6
) -> dict[Story, Observed]:
    """Tell stories of one framework with one kind of waker, some at once; return what came of each.

    Raises an exception group of those that could not be told.
    """
    room = asyncio.Semaphore(at_once)
    folder.mkdir(exist_ok=True)
    async with at_provider(folder) as at:

        async def one(story: Story) -> Observed:
            async with room, telling(at, framework, kind, folder / story.name) as told:
                try:
                    await story.tell(told)
                    return await told.observed()
                except Exception as error:
                    error.add_note(f"in the story {story.name} of {framework} with {kind.NAME}\n{told.logs}")
                    raise

        async with asyncio.TaskGroup() as tasks:
            seen = {story: tasks.create_task(one(story)) for story in stories}
    return {story: task.result() for story, task in seen.items()}
