"""The count finds what it is there to find: each promise, broken on purpose behind a finished story, is told."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from faults.cases import stage
from faults.count import count
from faults.stories import STORIES
from faults.tools import EFFECTS, effects
from faults.world import DATABASE, World, world
from support.desk import new_id

(STORY,) = (story for story in STORIES if story.name == "approved_and_denied")


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


BREAKS = (
    have_it_again, have_none, run_the_denied, lose_a_notification, forget_a_call, wake_nobody, submit_twice,
    deny_what_ran, give_up_what_ran, approve_what_was_denied, damage,
)  # fmt: skip


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda breaks: breaks.__name__)
async def test_a_broken_promise_is_found(breaks: Callable[[World], None], tmp_path: Path) -> None:
    async with stage() as at, world(tmp_path, at.nursery, at.template, "worker", None) as found:
        await STORY.happen(found)
        assert await count(found) == ["succeeded", "denied"]
        breaks(found)
        with pytest.raises(AssertionError):
            await count(found)
