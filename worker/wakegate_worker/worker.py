"""The worker: its parts put together, begun, and brought to an end in order."""

import asyncio
import functools
from collections.abc import Coroutine, Mapping
from typing import Any

import aiohttp

from wakegate_schema.records import Execution
from wakegate_schema.sealing import Sealer
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store
from wakegate_schema.store.sqlite.wal import LOOK_EVERY_S, WalWatch
from wakegate_worker import wake_programs
from wakegate_worker.aap import AapClient
from wakegate_worker.adopting import Adopting
from wakegate_worker.alarm import ALARM_EVERY_S, Alarm
from wakegate_worker.attendance import Attendance, registered
from wakegate_worker.cancelling import Cancelling
from wakegate_worker.consuming import Consuming
from wakegate_worker.exchanges import Exchanges
from wakegate_worker.handling import Handler
from wakegate_worker.hints.waiting import HintSource
from wakegate_worker.host_clock import HostClock
from wakegate_worker.keeping import Keeping
from wakegate_worker.leasing import Leasing
from wakegate_worker.log import log
from wakegate_worker.long_polls import LongPolls
from wakegate_worker.orphans import ORPHANS_EVERY_S, Orphans
from wakegate_worker.periodic import every
from wakegate_worker.probing import Probing
from wakegate_worker.pump import Pump
from wakegate_worker.pumps import pump_adoptions, pump_owed, pump_wakes
from wakegate_worker.recording import Recorder
from wakegate_worker.registry import Tool
from wakegate_worker.reporting import Reporting
from wakegate_worker.resuming import Resuming, resumers_of
from wakegate_worker.resumption import Resumption
from wakegate_worker.slots import Slots
from wakegate_worker.sources import Sources
from wakegate_worker.starting import Starting
from wakegate_worker.stopping import Stop
from wakegate_worker.submission import Submission
from wakegate_worker.sweep import PRUNE_EVERY_S, WARN_EVERY_S, Sweep
from wakegate_worker.threads import Threads
from wakegate_worker.tool_run import GRACE_S
from wakegate_worker.wake_sender import WakeSender
from wakegate_worker.waking import Waking

PROBE_EVERY_S = 60.0
"""How often it is looked for attempts in doubt to probe, in seconds."""
MARK_EVERY_S = 30.0
"""How often this host's clock is noted at least, in seconds."""
RECORD_S = 5.0
"""Seconds that a stop waits, after the tools, for their outcomes to be recorded."""


class Worker:
    """Submits, resumes, cancels, reports, wakes and sweeps, all at once, in the event loop it was begun in."""

    def __init__(
        self,
        store: Store,
        tools: Mapping[str, Tool],
        *,
        sealer: Sealer,
        session: aiohttp.ClientSession,
        sender: WakeSender,
        owner: str,
        settings: Settings,
        stop: Stop,
        hints: HintSource | None = None,
    ) -> None:
        """Take what it works with.

        Args:
            store: the store, opened to write.
            tools: what it can run, by name.
            sealer: the worker's key.
            session: from `outbound.open_session`.
            sender: delivers wakes.
            owner: this process's name on its leases.
            settings: `worker_concurrency`, `lease_seconds`, `sweep_seconds`, `retention_days` and the names of
                `wake_targets` are used.
            stop: ends it.
            hints: where hints come from; None to hear of every commit from the store itself.
        """
        self._store = store
        self._settings = settings
        self.tools = tools
        """What it can run, by name."""
        self._lease_s = float(settings.lease_seconds)
        self._stop = stop
        self._clock = HostClock(store)
        self._woken, self._doubted = asyncio.Event(), asyncio.Event()
        self._threads = Threads(2 * settings.worker_concurrency)
        self._keeping = Keeping(store, lease_s=self._lease_s, now=self._clock.now)
        self._recorder = Recorder(store, now=self._clock.now, woken=self._woken, doubted=self._doubted)
        self._starting = self._make_starting()
        sources = Sources(sealer, functools.partial(AapClient, session))
        slots = Slots(settings.worker_concurrency)
        self._leasing = Leasing(store, owner, hints, slots=slots, settings=settings, clock=self._clock, stop=stop)
        self._executions = self._pump_executions(sources, settings, slots)
        self._orphans = Orphans(store, owner, self._executions, slots, lease_s=self._lease_s, now=self._clock.now)
        has = {name: tool.version for name, tool in tools.items()}
        self._attendance = Attendance(store, registered(owner, has, settings, self._clock.now()), now=self._clock.now)
        self._owed = [
            pump_owed(kind(store, sources, now=self._clock.now, stop=stop), settings, stop)
            for kind in (Cancelling, Reporting)
        ]
        self._adoptions = pump_adoptions(
            Resuming(store, sources, resumers_of(settings), now=self._clock.now, stop=stop), settings, stop
        )
        self._wakes = pump_wakes(Waking(store, sender, now=self._clock.now), settings, self._woken, stop)
        self._probing = Probing(
            store,
            tools,
            alive=self._starting.alive,
            lease_s=self._lease_s,
            now=self._clock.now,
            woken=self._woken,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Register and begin to work. Raises `StoreUnavailable`."""
        await self._attendance.begin()
        wake_programs.tell_of_missing(self._settings.wake_targets.values())
        pumps: list[Pump[Any]] = [self._executions, *self._owed, *self._wakes, *self._adoptions]
        work = (*(pump.run() for pump in pumps), *self._periodic_work())
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(one) for one in work]

    async def finish(self) -> None:
        """Bring everything to an end, once a stop was requested. The order matters."""
        # 1. Nothing new: the request has ended every wait, so no more is leased, swept or probed.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._leasing.close()
        # 2. What had not started was broken off by the request too, long polls included, and gives its lease back,
        #    so that another worker takes it over at once. Calls that had started run on, up to the longest timeout
        #    there is; their leases are renewed meanwhile. A second request ends the wait.
        self._tell_of_tools()
        left, _ = await asyncio.gather(
            self._executions.finish(self._longest_timeout + GRACE_S + RECORD_S),
            self._attendance.drop_tools(RECORD_S),
        )
        # 3. Cancels and reports were broken off and stay owed, those of the calls that just ended, too: another worker
        #    tells them, or the next. Wakes under way are short, or their programs are ended and they come again;
        #    resumers too.
        await asyncio.gather(*(pump.finish(RECORD_S) for pump in self._owed))
        woken: list[Pump[Any]] = [*self._wakes, *self._adoptions]
        await asyncio.gather(*(pump.finish(RECORD_S) for pump in woken))
        await self._probing.finish()
        # 4. Late words that are being recorded.
        await self._recorder.finish(RECORD_S)
        # 5. What still runs is left: nobody renews its lease any more, so it becomes in doubt.
        await self._keeping.finish()
        await self._attendance.end(RECORD_S)
        if left:
            log.error("left running", action="stop", executions=left)

    @property
    def longest_stop(self) -> float:
        """Seconds within which `finish` comes to its end, whatever runs."""
        return stop_seconds(self._longest_timeout)

    @property
    def _longest_timeout(self) -> float:
        return max((tool.timeout for tool in self.tools.values()), default=0.0)

    async def probe(self) -> None:
        """Make a real write in the store. Raises `StoreUnavailable` when that does not work now."""
        await self._store.probe()

    def _tell_of_tools(self) -> None:
        running = self._starting.running
        if running:
            log.info(
                "stopping, waiting for tools; again to leave them in doubt",
                action="stop",
                tools=", ".join(sorted(tool.name for tool in running)),
                longest_s=max(tool.timeout for tool in running),
            )

    def _make_starting(self) -> Starting:
        return Starting(
            self._store,
            self.tools,
            threads=self._threads,
            keeping=self._keeping,
            recorder=self._recorder,
            clock=self._clock,
            lease_s=self._lease_s,
            stop=self._stop,
        )

    def _pump_executions(self, sources: Sources, settings: Settings, slots: Slots) -> Pump[Execution]:
        exchanges = Exchanges(slots, max(1, settings.worker_concurrency // 2))
        consuming = Consuming(self._store, settings.consumption, exchanges, now=self._clock.now, stop=self._stop)
        resumption = Resumption(
            self._store,
            self._starting,
            consuming,
            clock=self._clock,
            slots=slots,
            long_polls=LongPolls(),
            lease_s=self._lease_s,
            stop=self._stop,
        )
        submission = Submission(
            self._store, self.tools, targets=settings.wake_targets, now=self._clock.now, stop=self._stop
        )
        handler = Handler(
            self._store,
            sources,
            submission,
            resumption,
            exchanges,
            self._keeping,
            now=self._clock.now,
            stop=self._stop,
            woken=self._woken,
        )
        return Pump(
            "lease",
            slots=slots,
            take=self._leasing.take,
            handle=handler.handle,
            wait=self._leasing.wait,
            stop=self._stop,
        )

    async def _mark_clock(self) -> None:
        """Keep the mark near the present while nothing starts too: the next claim sees a clock that was set back."""
        await self._clock.mark()

    def _periodic_work(self) -> list[Coroutine[Any, Any, None]]:
        now, stop = self._clock.now, self._stop
        adopts = [Adopting(self._store, now=now)] if self._settings.resumers else []
        sweep = Sweep(
            self._store,
            retention_days=self._settings.retention_days,
            now=now,
            woken=self._woken,
            doubted=self._doubted,
        )
        return [
            every(self._settings.sweep_seconds, "sweep", sweep.sweep, stop=stop),
            every(max(self._settings.sweep_seconds, ORPHANS_EVERY_S), "orphans", self._orphans.round, stop=stop),
            *(every(self._settings.sweep_seconds, "adopt", one.step, stop=stop) for one in adopts),
            every(MARK_EVERY_S, "mark", self._mark_clock, stop=stop),
            every(PRUNE_EVERY_S, "prune", sweep.prune, stop=stop),
            every(WARN_EVERY_S, "warn", sweep.warn, stop=stop),
            every(LOOK_EVERY_S, "wal", WalWatch(self._store.take_in_wal).look, stop=stop),
            every(ALARM_EVERY_S, "in_doubt", Alarm(self._store, now=now).sound, stop=stop),
            every(self._lease_s / 5, "watch", self._probing.watch_store, stop=stop),
            every(PROBE_EVERY_S, "probe", self._probing.round, stop=stop, wake=self._doubted),
        ]


def stop_seconds(longest_timeout: float) -> float:
    """Return after how many seconds a worker that was asked to stop has surely come to its end.

    Args:
        longest_timeout: of its tools, seconds.
    """
    rest = 6 * RECORD_S  # outcomes, what is owed, wakes, late words, its row; signs of life and probes are short
    return longest_timeout + GRACE_S + rest
