"""Soaking: the whole of it, from the first process to the final count."""

import asyncio
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from soak import audit, records
from soak.disk_trouble import log_bytes
from soak.journal import RECORD, Journal
from soak.listener import Listener
from soak.load import Load
from soak.plan import Plan
from soak.reading import Unreadable
from soak.stage import Stage
from soak.trouble import Trouble, reset_mark

PROGRESS_S = 5.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a soak came to."""

    faults: list[str]
    figures: list[tuple[str, str]]

    @property
    def good(self) -> bool:
        """Whether everything held."""
        return not self.faults


async def soak(folder: Path, plan: Plan, say: Say) -> Verdict:
    """Play a whole soak.

    Args:
        folder: an empty one, which is kept.
        plan: what it is to be.
        say: tells people how it goes.
    """
    listener = Listener(Journal(folder / "wakes.jsonl"), plan.random("wakes"))
    async with listener.listening():
        stage = Stage(folder, plan, listener.port)
        listener.secret_file = stage.home / "wake.secret"
        try:
            return await _play(stage, plan, listener, say)
        finally:
            await asyncio.gather(*(service.end(signal.SIGKILL) for service in stage.services))
            stage.close()


async def _play(stage: Stage, plan: Plan, listener: Listener, say: Say) -> Verdict:
    await stage.open()
    say(
        f"{len(stage.services)} processes run, a start takes {stage.start_s:.1f} s"
        + (f"; the small disk holds {plan.disk_bytes >> 20} MiB" if stage.disk else "")
    )
    load = Load(stage.webhook_urls, stage.sender, plan.random("load"), stage.acknowledgements, stage.requests)
    trouble = Trouble(stage, plan)
    over = asyncio.Event()
    async with _telling(stage, load, trouble, listener, say), asyncio.TaskGroup() as group:
        group.create_task(load.run(plan.notifications_per_s, over))
        group.create_task(trouble.run(over))
        await asyncio.sleep(plan.trouble_s)
        over.set()
    say("the trouble is over; what is owed may settle")
    (stage.folder / "quiet").touch()
    await reset_mark(stage)
    owed, took_s = await _settle(stage, load, plan.settle_s, say)
    say(f"settled in {took_s:.0f} s" if not owed else f"not settled in {took_s:.0f} s: {', '.join(owed)}")
    for service in stage.services:
        await service.end(signal.SIGTERM)
    _keep_answers(stage, load)
    found = records.read(stage.folder, stage.url)
    faults = [f"still owed after {took_s:.0f} s: {what}" for what in owed] + audit.faults(found, load.answers)
    return Verdict(faults + audit.too_little(found, load.answers), audit.figures(found, load.answers))


async def _settle(stage: Stage, load: Load, seconds: float, say: Say) -> tuple[list[str], float]:
    """Wait until nothing is owed any more; return what still is, and how many seconds it took."""
    began = time.monotonic()
    rest = await load.deliver_the_rest(seconds)
    owed = [f"{rest} events without a 2xx"] if rest else []
    told = began
    while True:
        try:
            left = await asyncio.to_thread(records.unsettled, stage.folder, stage.url)
        except Unreadable as error:
            left = [f"the databases to be read: {error}"]
        took = time.monotonic() - began
        if not left or took > seconds:
            return owed + left, took
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            say(f"  still {', '.join(left)}")
        await asyncio.sleep(0.5)


def _keep_answers(stage: Stage, load: Load) -> None:
    lines = [f"{count:7} {answer:24} {kind}\n" for (kind, answer), count in sorted(load.answers.items())]
    (stage.folder / "answers.txt").write_text("".join(lines))


@asynccontextmanager
async def _telling(stage: Stage, load: Load, trouble: Trouble, listener: Listener, say: Say) -> AsyncIterator[None]:
    """Say every few seconds how it goes."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            effects = stage.folder / "effects.jsonl"
            happened = effects.stat().st_size // RECORD if effects.exists() else 0
            log = f"; log {log_bytes(stage.database) >> 10} KiB" if stage.disk else ""
            say(
                f"  {sum(load.answers.values())} deliveries, {load.acknowledged} acknowledged;"
                f" {happened} effects, {listener.count} wakes; trouble {trouble.count}: {trouble.latest}{log}"
            )

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


def remove(folder: Path) -> None:
    """Remove the folder of a soak that held."""
    shutil.rmtree(folder)
