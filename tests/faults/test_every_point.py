"""Every fault point, in real processes: killed, failing and delayed there, nothing is lost and nothing runs twice.

The cases are spread over the grounds: SQLite and PostgreSQL, the embedded queue and Redis. `make fault-matrix` runs
every case on each.
"""

import json

import pytest

from faults.cases import ACTIONS, Action, spread, stage
from faults.catalogue import PACKAGES, points
from faults.grounds import FARTHEST, GROUNDS, HOME, Ground
from faults.matrix import PAGE, listed

PROGRAMS = tuple(PACKAGES)


@pytest.fixture(scope="session")
def traces() -> dict[tuple[str, Ground], dict[str, set[str]]]:
    """What each program's stories reach on each ground, once they were traced."""
    return {}


@pytest.mark.parametrize("ground", [HOME, FARTHEST], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_stories_hold_unbroken_and_reach_every_point_there_is(
    program: str, ground: Ground, traces: dict[tuple[str, Ground], dict[str, set[str]]]
) -> None:
    async with stage(ground) as found:
        traces[program, ground] = await found.trace(program, ground)
    assert set[str]().union(*traces[program, ground].values()) == points(program, ground)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("program", PROGRAMS)
async def test_every_promise_holds_wherever_a_program_breaks(
    program: str, action: Action, traces: dict[tuple[str, Ground], dict[str, set[str]]]
) -> None:
    async with stage(*GROUNDS) as found:
        for ground in (HOME, FARTHEST):
            if (program, ground) not in traces:
                traces[program, ground] = await found.trace(program, ground)
        home, farthest = traces[program, HOME], traces[program, FARTHEST]
        traced = {story: home[story] | farthest[story] for story in home}
        seen = await found.see(action, spread(program, action, traced))
    assert {one.case.point for one in seen} == set[str]().union(*(points(program, ground) for ground in GROUNDS))
    assert not [one for one in seen if one.problem], "\n".join(
        json.dumps({"fault": one.case.fault, "on": str(one.case.ground), "problem": one.problem})
        for one in seen
        if one.problem
    )


def test_the_page_lists_exactly_the_points_there_are_and_no_broken_one() -> None:
    rows = listed(PAGE.read_text(encoding="utf-8"))
    there = {(program, point) for program in PROGRAMS for ground in GROUNDS for point in points(program, ground)}
    assert rows.keys() == there, "the table is not of this code: run `make fault-matrix`"
    assert "BROKEN" not in {told for row in rows.values() for told in row}
