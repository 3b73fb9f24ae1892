"""Every fault point, in real processes: killed, failing and delayed there, nothing is lost and nothing runs twice.

Each point is broken in every way once, in one of the programs that reach it, and on one of the grounds: SQLite and
PostgreSQL, the embedded queue and Redis. `make fault-matrix` breaks it in every program and on every ground.
"""

import asyncio
import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from faults.cases import ACTIONS, Action, joined, share, spread, stage
from faults.catalogue import PACKAGES, points
from faults.grounds import FARTHEST, GROUNDS, HOME, Ground, Servers
from faults.matrix import PAGE, listed

if TYPE_CHECKING:  # the drivers take their time
    from support.servers import RedisServer
    from support.servers.emptied import EmptyStores

PROGRAMS = tuple(PACKAGES)


class Traces:
    """What each program's stories reach on each ground: traced once in a run, whichever of its processes needs it."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        self._servers = servers

    async def of(self, program: str, ground: Ground) -> dict[str, set[str]]:
        """The points of each story; the others wait while one traces them."""
        file = self._folder / f"{program}-{ground}.json"
        with file.open("a+") as kept:
            await asyncio.to_thread(fcntl.flock, kept, fcntl.LOCK_EX)
            kept.seek(0)
            if not (text := kept.read()):
                async with stage(self._servers) as at:
                    reached = await at.trace(program, ground)
                text = json.dumps({story: sorted(points) for story, points in reached.items()})
                kept.write(text)
        return {story: set(points) for story, points in json.loads(text).items()}


@pytest.fixture
def servers(empty_stores: "EmptyStores", redis_server: "RedisServer") -> Servers:
    """Those that all tests of this process share."""
    return Servers(empty_stores, redis_server)


@pytest.fixture
def traces(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """The traces of this run."""
    own = tmp_path_factory.getbasetemp()
    return Traces((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "traces", servers)


@pytest.mark.parametrize("ground", [HOME, FARTHEST], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_stories_hold_unbroken_and_reach_every_point_there_is(
    program: str, ground: Ground, traces: Traces
) -> None:
    traced = await traces.of(program, ground)
    assert set[str]().union(*traced.values()) == points(program, ground)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("program", PROGRAMS)
async def test_every_promise_holds_wherever_a_program_breaks(
    program: str, action: Action, traces: Traces, servers: Servers
) -> None:
    traced = joined(program, await traces.of(program, HOME), await traces.of(program, FARTHEST))
    async with stage(servers) as found:
        seen = await found.see(action, spread(program, action, traced))
    assert {one.case.point for one in seen} == share(program, action)
    assert not [one for one in seen if one.problem], "\n".join(
        json.dumps({"fault": one.case.fault, "on": str(one.case.ground), "problem": one.problem})
        for one in seen
        if one.problem
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_the_shares_are_every_point_but_beginnings_of_what_is_broken_before_its_commit(action: Action) -> None:
    everywhere = {point for program in PROGRAMS for ground in GROUNDS for point in points(program, ground)}
    shared = [point for program in PROGRAMS for point in share(program, action)]
    assert len(shared) == len(set(shared))
    left = everywhere.difference(shared)
    assert {point.replace("store.begin:", "store.commit:") for point in left} <= set(shared)
    assert {point.partition(":")[0] for point in left} == {"store.begin"}


def test_the_page_lists_exactly_the_points_there_are_and_no_broken_one() -> None:
    rows = listed(PAGE.read_text(encoding="utf-8"))
    there = {(program, point) for program in PROGRAMS for ground in GROUNDS for point in points(program, ground)}
    assert rows.keys() == there, "the table is not of this code: run `make fault-matrix`"
    assert not [row for row in rows.values() if any("BROKEN" in told for told in row)]
