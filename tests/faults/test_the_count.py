"""The count finds what it is there to find: each promise, broken on purpose behind a finished story, is told."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from faults.cases import Stage, stage
from faults.count import count
from faults.grounds import DATABASE, HOME
from faults.harness import TOLD as ACKNOWLEDGED
from faults.stories import STORIES, Story
from faults.tools import EFFECTS, effects
from faults.world import TOLD, World
from support.desk import new_id

(STORY,) = (story for story in STORIES if story.name == "approved_and_denied")
(GROUP,) = (story for story in STORIES if story.name == "told_as_a_group")


def approved(found: World) -> str:
    """The key of the call that was approved."""
    return next(key for key, call in found.calls.items() if call.fate == "approved")


def have_it_again(found: World) -> None:
    (found.folder / EFFECTS).write_text(f"{approved(found)}\n" * 2)


def have_none(found: World) -> None:
    (found.folder / EFFECTS).unlink()


def run_the_denied(found: World) -> None:
    denied = next(key for key, call in found.calls.items() if call.fate == "denied")
    (found.folder / EFFECTS).write_text("\n".join([*effects(found.folder), denied]))


def lose_a_notification(found: World) -> None:
    found.acknowledged.add(new_id())


def forget_a_call(found: World) -> None:
    found.calls[new_id()] = found.calls[approved(found)]


def wake_nobody(found: World) -> None:
    found.woken.clear()


def submit_twice(found: World) -> None:
    found.peer.requests[new_id()] = found.request(approved(found))


def deny_what_ran(found: World) -> None:
    found.calls[approved(found)].fate = "denied"


def give_up_what_ran(found: World) -> None:
    found.calls[approved(found)].fate = "abandoned"


def approve_what_was_denied(found: World) -> None:
    for call in found.calls.values():
        call.fate = "approved"


def damage(found: World) -> None:
    with closing(sqlite3.connect(found.folder / DATABASE)) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute("UPDATE instance SET delivery = 'pigeon'")
        raw.commit()


def acknowledge_another_end(found: World) -> None:
    with closing(sqlite3.connect(found.folder / DATABASE)) as raw:
        (execution_id,) = raw.execute("SELECT execution_id FROM execution WHERE state = 'succeeded'").fetchone()
    _acknowledge(found, execution=execution_id, state="abandoned")


def acknowledge_another_call(found: World) -> None:
    _acknowledge(found, execution=new_id(), state="saved")


def acknowledge_a_seal(found: World) -> None:
    _acknowledge(found, group="turn of another day")


def _acknowledge(found: World, **line: str) -> None:
    (found.folder / ACKNOWLEDGED).write_text(json.dumps(line))


def tell_twice(found: World) -> None:
    _change(found, "INSERT INTO resolution SELECT NULL, epoch, provider, instance_id, execution_id, transition_number,"
            " from_state, to_state, at FROM resolution LIMIT 1")  # fmt: skip


def start_again(found: World) -> None:
    _change(found, "INSERT INTO transition SELECT execution_id, 99 + number, from_state, to_state, reason, actor, at"
            " FROM transition WHERE to_state = 'started'")  # fmt: skip


def tell_no_program(found: World) -> None:
    (found.folder / TOLD).unlink()


def forget_the_group(found: World) -> None:
    _change(found, "DELETE FROM wake")


def tell_of_a_call(found: World) -> None:
    _change(found, "INSERT INTO wake SELECT execution_id || '_8', execution_id, 8, target, state, tries, problem,"
            " due_at, created_at, delivered_at, to_state, NULL, owed_since FROM wake")  # fmt: skip
    with closing(sqlite3.connect(found.folder / DATABASE)) as raw, (found.folder / TOLD).open("a") as told:
        told.writelines(f"{wake_id}\n" for (wake_id,) in raw.execute("SELECT wake_id FROM wake"))


def _change(found: World, statement: str) -> None:
    """Change what the database guards."""
    with closing(sqlite3.connect(found.folder / DATABASE)) as raw:
        guards = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'index') AND sql IS NOT NULL"
        for kind, name in raw.execute(guards).fetchall():
            raw.execute(f"DROP {kind} {name}")
        assert raw.execute(statement).rowcount >= 1
        raw.commit()


BREAKS = (
    have_it_again, have_none, run_the_denied, lose_a_notification, forget_a_call, wake_nobody, submit_twice,
    deny_what_ran, give_up_what_ran, approve_what_was_denied, damage,
    acknowledge_another_end, acknowledge_another_call, acknowledge_a_seal, tell_twice, start_again,
)  # fmt: skip
GROUP_BREAKS = (tell_no_program, forget_the_group, tell_of_a_call)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def at() -> AsyncIterator[Stage]:
    """A stage for all of them."""
    async with stage() as found:
        yield found


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("story", "breaks"),
    [*((STORY, breaks) for breaks in BREAKS), *((GROUP, breaks) for breaks in GROUP_BREAKS)],
    ids=lambda told: told.__name__ if callable(told) else told.name,
)
async def test_a_broken_promise_is_found(
    at: Stage, story: Story, breaks: Callable[[World], None], tmp_path: Path
) -> None:
    async with at.world(tmp_path, story, HOME, None) as found:
        await story.happen(found)
        assert await count(found) == ["succeeded", "denied"]
        breaks(found)
        with pytest.raises(AssertionError):
            await count(found)
