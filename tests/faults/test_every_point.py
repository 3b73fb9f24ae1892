"""Every fault point, in real processes: killed, failing and delayed there, nothing is lost and nothing runs twice."""

import json

import pytest

from faults.cases import ACTIONS, Action, cases, stage
from faults.catalogue import PACKAGES, points
from faults.matrix import PAGE, listed

PROGRAMS = tuple(PACKAGES)


@pytest.fixture(scope="session")
def traces() -> dict[str, dict[str, set[str]]]:
    """What each program's stories reach, once they were traced."""
    return {}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_stories_hold_unbroken_and_reach_every_point_there_is(
    program: str, traces: dict[str, dict[str, set[str]]]
) -> None:
    async with stage() as found:
        traces[program] = await found.trace(program)
    assert set[str]().union(*traces[program].values()) == points(program)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("program", PROGRAMS)
async def test_every_promise_holds_wherever_a_program_breaks(
    program: str, action: Action, traces: dict[str, dict[str, set[str]]]
) -> None:
    async with stage() as found:
        traced = traces.get(program) or await found.trace(program)
        seen = await found.see(action, cases(program, action, traced))
    assert {one.case.point for one in seen} == points(program)
    assert not [f"{one.case.fault} ({one.case.story.name}): {one.problem}" for one in seen if one.problem], "\n".join(
        json.dumps({"fault": one.case.fault, "problem": one.problem}) for one in seen if one.problem
    )


def test_the_page_lists_exactly_the_points_there_are_and_no_broken_one() -> None:
    rows = listed(PAGE.read_text(encoding="utf-8"))
    assert rows.keys() == {(program, point) for program in PROGRAMS for point in points(program)}, (
        "the table is not of this code: run `make fault-matrix`"
    )
    assert "BROKEN" not in {told for row in rows.values() for told in row}
