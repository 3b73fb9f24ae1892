"""The matrix: every point, broken in every way, on every ground, as a table in docs/reliability.md.

`make fault-matrix` runs it.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from faults.cases import ACTIONS, Action, Case, Seen, Traced, cases, everywhere, stage
from faults.catalogue import PACKAGES
from faults.grounds import GROUNDS, Ground, servers

PAGE: Final = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN: Final = "<!-- The fault matrix begins; `make fault-matrix` writes it. -->"
END: Final = "<!-- The fault matrix ends. -->"
HEAD: Final = ("| point | process | story | kill | raise | delay | grounds |", "|---|---|---|---|---|---|---|")

_ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \| (\w+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| (\d) \|$", re.MULTILINE)


async def run(
    choose: Callable[[str, Action, Traced, Ground], list[Case]], grounds: Sequence[Ground] = GROUNDS
) -> list[Seen]:
    """Break every point in every way on each of the grounds, in the stories that `choose` gives."""
    seen: list[Seen] = []
    async with servers() as everywhere_else:
        for program in PACKAGES:
            async with stage(everywhere_else) as found:
                traced = await found.trace_all(program)
                for ground in grounds:
                    for action in ACTIONS:
                        seen += await found.see(action, choose(program, action, traced, ground))
                    told = [one for one in seen if one.case.program == program and one.case.ground == ground]
                    broken = sum(one.problem is not None for one in told)
                    print(f"{program} on {ground}: {len(told)} cases, {broken} broken", flush=True)  # noqa: T201
    return seen


def table(seen: Iterable[Seen]) -> str:
    """Return the table's text."""
    rows: dict[tuple[str, str], list[Seen]] = {}
    for one in seen:
        rows.setdefault((one.case.program, one.case.point), []).append(one)
    lines = [
        f"| `{point}` | {program} | {told[0].case.story.name} | {' | '.join(_cells(told))} |"
        for (program, point), told in rows.items()
    ]
    return "\n".join([*HEAD, *lines])


def _cells(seen: list[Seen]) -> Iterator[str]:
    """What is told of a point: for each action the ends there were, and on how many grounds it was broken."""
    for action in ACTIONS:
        yield " / ".join(dict.fromkeys(cell(one) for one in seen if one.case.action == action))
    yield str(len({one.case.ground for one in seen}))


def cell(seen: Seen) -> str:
    """Return what is told of one case."""
    if seen.problem is not None:
        return "BROKEN"
    ended = ", ".join(seen.ends) or "recorded"
    return f"start refused; {ended}" if seen.statuses == [1] else ended


def listed(text: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the page's rows: (process, point) → what it tells of kill, raise and delay."""
    return {(process, point): tuple(told) for point, process, _, *told in _ROW.findall(text)}


def put(text: str, made: str) -> str:
    """Return the page with this table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def main() -> None:
    """Run everything and write the table; status 1 when a promise was broken.

    With the names of grounds, such as `postgresql+redis`, on these alone. With `everywhere`, break each point in every
    story that reaches it; the table stays as it is.
    """
    named = [name for name in sys.argv[1:] if name != "everywhere"]
    grounds = [ground for ground in GROUNDS if not named or str(ground) in named]
    if "everywhere" in sys.argv[1:]:
        seen = asyncio.run(run(everywhere, grounds))
    else:
        seen = asyncio.run(run(cases, grounds))
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), table(seen)), encoding="utf-8")
    broken = [one for one in seen if one.problem is not None]
    for one in broken:
        print(f"{one.case.program} on {one.case.ground}: {one.case.fault}: {one.problem}", file=sys.stderr)  # noqa: T201
    print(f"{len(seen)} cases, {len(broken)} broken")  # noqa: T201
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
