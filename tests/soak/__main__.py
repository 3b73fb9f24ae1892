"""`python -m soak --minutes 10 --seed 1`: soak wakegate, and say at the end whether everything held."""

import asyncio
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import cast, get_args

import click
import pytest

from soak.disk import NoSmallDisk, enter_own_mounts
from soak.ground import Database, Ground, Queue
from soak.plan import Plan
from soak.soaking import Verdict, remove, soak
from soak.stuck import Stuck


@click.command()
@click.option("--minutes", type=click.FloatRange(0.1, 600), default=10.0, help="How long load and trouble last.")
@click.option("--seed", type=int, default=None, help="Repeats the choices of another soak.")
@click.option("--database", type=click.Choice(get_args(Database)), default="sqlite", help="What the store is in.")
@click.option("--queue", type=click.Choice(get_args(Queue)), default="embedded", help="What carries the hints.")
@click.option("--keep", is_flag=True, help="Keep the folder also when everything held.")
def main(minutes: float, seed: int | None, database: str, queue: str, keep: bool) -> None:
    """Kill, pause, skew, empty and fill at random under constant load, then count."""
    ground = Ground(cast("Database", database), cast("Queue", queue))
    if not ground.is_postgresql:
        _have_own_mounts()
    plan = Plan(secrets.randbelow(1 << 31) if seed is None else seed, minutes * 60, ground)
    folder = Path(tempfile.mkdtemp(prefix="wakegate-soak-"))
    began = time.monotonic()

    def say(line: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {line}")

    click.echo(f"seed {plan.seed}, {minutes:g} minutes on {ground}, in {folder}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        verdict = asyncio.run(soak(folder, plan, say))
    except (Stuck, ExceptionGroup, TimeoutError) as error:
        verdict = Verdict([f"the soak itself failed: {error!r}"], [])
    except (pytest.skip.Exception, pytest.fail.Exception) as error:  # what `support.servers.binaries` says
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"INTERRUPTED: seed {plan.seed}; what there is, is in {folder}")
        sys.exit(130)
    _report(verdict)
    if verdict.good and not keep:
        remove(folder)
    else:
        click.echo(f"logs, journals and the store are in {folder}")
    click.echo(f"{'HELD' if verdict.good else 'DID NOT HOLD'}: seed {plan.seed}, {time.monotonic() - began:.0f} s")
    sys.exit(0 if verdict.good else 1)


def _have_own_mounts() -> None:
    try:
        enter_own_mounts()
    except NoSmallDisk as error:
        raise click.ClickException(str(error)) from error


def _report(verdict: Verdict) -> None:
    for name, value in verdict.figures:
        click.echo(f"{name:>20}  {value}")
    for fault in verdict.faults:
        click.echo(f"FAULT: {fault}")


if __name__ == "__main__":
    main()
