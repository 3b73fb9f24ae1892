"""Workers: the real parts of a worker, taken hold of one by one instead of by their own loops."""

import asyncio
import functools
from collections.abc import Callable, Mapping

from model.approver import Approver, ApproverLine
from model.jobs import Job

from wakegate_schema.clock import MINUTE, SECOND
from wakegate_schema.records import Execution, Wake
from wakegate_schema.sealing import Sealer
from wakegate_schema.store import Store
from wakegate_worker.cancelling import Cancelling
from wakegate_worker.consuming import Consuming
from wakegate_worker.exchanges import Exchanges
from wakegate_worker.handling import Handler
from wakegate_worker.host_clock import HostClock
from wakegate_worker.keeping import Keeping
from wakegate_worker.long_polls import LongPolls
from wakegate_worker.probing import Probing
from wakegate_worker.recording import Recorder
from wakegate_worker.registry import Tool
from wakegate_worker.reporting import Reporting
from wakegate_worker.resumption import Resumption
from wakegate_worker.slots import Slots
from wakegate_worker.sources import Sources
from wakegate_worker.starting import Starting
from wakegate_worker.stopping import Stop
from wakegate_worker.submission import Submission
from wakegate_worker.sweep import Sweep
from wakegate_worker.threads import Threads
from wakegate_worker.wake_message import GroupTold
from wakegate_worker.wake_sender import Delivered, RetryAt, WakeResult, WakeSender
from wakegate_worker.waking import Waking

LEASE_S = 60.0
TARGET = "harness"
RETENTION_DAYS = 30
ROOM = 1_000
"""Slots, threads and slow exchanges: none of them is ever short here."""


class Listener(WakeSender):
    """A harness that is told, in this process; sometimes it does not hear."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self.heard: list[str] = []
        self.deaf = False

    def takes_long(self, wake: Wake) -> bool:
        """Whether a program runs for it: it hears at once."""
        return False

    async def deliver(self, wake: Wake, told: Execution | GroupTold, now: int) -> WakeResult:
        """Hear a wake, or not."""
        if self.deaf:
            return RetryAt(now + MINUTE, "deaf")
        self.heard.append(wake.wake_id)
        return Delivered()


class Parts:
    """One worker process."""

    def __init__(
        self,
        name: str,
        store: Store,
        tools: Mapping[str, Tool],
        sealer: Sealer,
        approvers: Mapping[str, Approver],
        listener: Listener,
        now: Callable[[], int],
    ) -> None:
        """Put the parts together as `wakegate_worker.worker.Worker` does."""
        self.name, self._store, self._now = name, store, now
        stop, woken, doubted = Stop(), asyncio.Event(), asyncio.Event()
        clock = HostClock(store, host="host", now=now)
        monotonic = lambda: now() / SECOND  # noqa: E731 - a clock, not a function of its own
        slots, keeping = Slots(ROOM), Keeping(store, lease_s=LEASE_S, now=now)
        self.recorder = Recorder(store, now=now, woken=woken, doubted=doubted)
        starting = Starting(
            store, tools, threads=Threads(ROOM), keeping=keeping, recorder=self.recorder, clock=clock,
            lease_s=LEASE_S, stop=stop, monotonic=monotonic,
        )  # fmt: skip
        sources = Sources(sealer, lambda found: ApproverLine(approvers[found.provider], found, monotonic))
        exchanges = Exchanges(slots, ROOM)
        consuming = Consuming(store, "auto", exchanges, now=now, stop=stop, monotonic=monotonic)
        resumption = Resumption(
            store, starting, consuming, clock=clock, slots=slots, long_polls=LongPolls(), lease_s=LEASE_S, stop=stop
        )
        submission = Submission(store, tools, targets={TARGET, "none"}, now=now, stop=stop)
        self._handler = Handler(
            store, sources, submission, resumption, exchanges, keeping, now=now, stop=stop, woken=woken
        )
        self._cancelling = Cancelling(store, sources, now=now, stop=stop)
        self._reporting = Reporting(store, sources, now=now, stop=stop)
        self._waking = Waking(store, listener, now=now)
        self.sweep = Sweep(store, retention_days=RETENTION_DAYS, now=now, woken=woken, doubted=doubted)
        self.probing = Probing(store, tools, alive=starting.alive, lease_s=LEASE_S, now=now, woken=woken)

    async def lease(self, limit: int) -> list[tuple[Execution, Job]]:
        """Lease what is due, as the worker's pump does; a job for each."""
        now = self._now()
        found = await self._store.lease_due(self.name, limit, now, now + round(LEASE_S * SECOND))
        return [(execution, self._job("handle", execution, self._handler.handle)) for execution in found]

    async def cancels(self) -> list[Job]:
        """Take the cancels and the reports that are due."""
        return [
            self._job(owed.action, execution, owed.handle)
            for owed in (self._cancelling, self._reporting)
            for execution in await owed.take(ROOM)
        ]

    async def wake(self) -> None:
        """Deliver the wakes that are due."""
        for wake in await self._waking.take(ROOM):
            await self._waking.handle(wake)

    def _job(self, name: str, execution: Execution, handle: Callable[[Execution], object]) -> Job:
        job = Job(name, self.name, execution.execution_id, functools.partial(handle, execution))  # type: ignore[arg-type]
        job.lease_number = execution.lease_number if name == "handle" else 0
        return job
