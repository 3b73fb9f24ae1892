"""A stock RQ worker as a side of a comparison: its own Redis, its process, and jobs for it."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis import Redis
from rq import Queue, Worker

from benchmarks import ROOT
from benchmarks.figures import Failed
from benchmarks.peers import rq_jobs
from benchmarks.peers.effects import FILE, Effects
from benchmarks.peers.processes import end
from benchmarks.peers.rq_worker import QUEUE
from support.processes import clean_environment
from support.servers import RedisServer

_PATIENCE_S = 60.0
_LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class RqSide:
    """One worker and its queue."""

    queue: Queue
    effects: Effects

    async def run(self, jobs: Mapping[str, Sequence[object]]) -> float:
        """Enqueue a `fetch` for each, all at once, and return the seconds until all are finished.

        Args:
            jobs: the arguments of each after its key, by key.
        """
        done = self.queue.finished_job_registry.count
        begun = time.monotonic()
        self.queue.enqueue_many([Queue.prepare_data(rq_jobs.fetch, (key, *given)) for key, given in jobs.items()])
        async with asyncio.timeout(_PATIENCE_S):
            while self.queue.finished_job_registry.count - done < len(jobs):
                if self.queue.failed_job_registry.count:
                    raise Failed("a job of RQ's failed")
                await asyncio.sleep(_LOOK_S)
        seconds = time.monotonic() - begun
        if self.effects.new().keys() != jobs.keys():
            raise Failed("RQ has not run every job")
        return seconds

    async def start_ms(self, key: str) -> float:
        """Enqueue one job and return the milliseconds until its first line."""
        begun = time.monotonic_ns()
        self.queue.enqueue(rq_jobs.begin, key)
        return (await seen(self.effects, key) - begun) / 1_000_000


async def seen(effects: Effects, key: str) -> int:
    """Wait for one effect and return its time (ns)."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                await asyncio.sleep(_LOOK_S)
                found = effects.new()
                if key in found:
                    return found[key]
    except TimeoutError:
        raise Failed(f"{key} has not begun within {_PATIENCE_S:.0f} s") from None


@asynccontextmanager
async def rq_side(kind: str, effects: Effects) -> AsyncIterator[RqSide]:
    """Start a Redis that writes no files, and a worker of one of `rq_worker.KINDS` on it."""
    with RedisServer() as server, Redis.from_url(server.url()) as connection:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.peers.rq_worker", kind, server.url(), cwd=ROOT,
            env=clean_environment() | {"PYTHONPATH": str(ROOT), FILE: str(effects.file)},
        )  # fmt: skip
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while not Worker.all(connection=connection):
                    if process.returncode is not None:
                        raise Failed("RQ's worker ended at once")
                    await asyncio.sleep(0.05)
            yield RqSide(Queue(QUEUE, connection=connection), effects)
        finally:
            await end(process)
