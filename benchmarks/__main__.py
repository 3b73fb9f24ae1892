"""Measure everything side by side and write the tables: `make bench`, which is `python -m benchmarks`."""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console

from benchmarks import machine, pages, results, tables
from benchmarks.figures import Failed, Measure, Plan, measures
from benchmarks.results import Finding, Results
from wakegate_schema.errors import WakegateError

ROUNDS, QUICK_ROUNDS = 5, 3


def main() -> None:
    """Run what is asked for; end with 1 when something could not be run or believed, whatever the figures are."""
    known = measures()
    chosen = _parser(known).parse_args()
    if chosen.render:
        _write(_last())
        return
    done, failures = _measure(chosen, [known[name] for name in chosen.only or known])
    if chosen.only and not chosen.keep:
        print(tables.page(done, {each.name: "" for every in done.findings for each in every.figures}))
    elif done.findings:
        _write(done if not chosen.only else _joined(done, list(known)))
    if failures:
        sys.exit("\n".join(f"FAILED, and not in the tables: {each}" for each in failures))


def _parser(known: dict[str, Measure]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(known), help="a measure; several may be named")
    parser.add_argument("--rounds", type=int, help=f"of every side; {ROUNDS} unless given, {QUICK_ROUNDS} if quick")
    parser.add_argument("--quick", action="store_true", help="smaller counts, for development")
    parser.add_argument("--keep", action="store_true", help="with --only: put it into the last run's files")
    parser.add_argument("--render", action="store_true", help="write the last run's page, plots and README block anew")
    return parser


def _measure(chosen: argparse.Namespace, wanted: Sequence[Measure]) -> tuple[Results, Sequence[str]]:
    console = Console(stderr=True)
    found: list[Finding] = []
    failures: list[str] = []
    begun, where = datetime.now(UTC), machine.describe()
    with console.status("") as status:
        for number, measure in enumerate(wanted, 1):

            def say(what: str, lead: str = f"{number} of {len(wanted)}, {measure.name}: ") -> None:
                status.update(f"{lead}{what}")

            say("starting")
            plan = Plan(chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS), chosen.quick, say)
            try:
                found.append(asyncio.run(_one(measure, plan)))
            except (Failed, WakegateError, OSError) as error:  # the others' time is not to be lost with it
                failures.append(f"{measure.name}: {error}")
                console.print(f"FAILED: {failures[-1]}", style="bold red", markup=False)
            else:
                console.print(f"{measure.name}: {found[-1].seconds:.0f} s")
    console.print(f"all: {(datetime.now(UTC) - begun).total_seconds():.0f} s")
    command = " ".join(["python -m benchmarks", *sys.argv[1:]]) if sys.argv[1:] else "make bench"
    return Results(f"{begun:%Y-%m-%d}", command, where, tuple(found)), failures


async def _one(measure: Measure, plan: Plan) -> Finding:
    at, begun, before = datetime.now(UTC), time.monotonic(), machine.load()
    figures = await measure.run(plan)
    return results.finding(
        measure, figures, plan=plan, began_at=f"{at:%Y-%m-%d %H:%M} UTC", seconds=time.monotonic() - begun,
        loads=(before, machine.load()),
    )  # fmt: skip


def _last() -> Results:
    path = results.newest()
    if path is None:
        sys.exit("there is no run yet: make bench")
    return results.read(path)


def _joined(done: Results, order: Sequence[str]) -> Results:
    """The last run with what was measured now in place of what it had; it says when each was measured."""
    path = results.newest()
    joined = done if path is None else Results(done.date, done.command, done.machine, results.read(path).findings)
    for each in done.findings:
        joined = joined.with_finding(each, order)
    return joined


def _write(done: Results) -> None:
    path = results.write(done)
    pages.write(results.read(path))  # as the file has it, so that the same file gives the same pages
    print(f"{path}\n{path.with_suffix('.md')}\n{tables.README}")


if __name__ == "__main__":
    main()
