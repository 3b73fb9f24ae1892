"""Starting: the permission is spent by one commit, and what it permits is run once (DESIGN, the start, 6 to 9)."""

import functools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wakegate_schema.clock import SECOND
from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Approval, Execution, Outcome
from wakegate_schema.states import NO_WORKER_HAS_THE_TOOL, State
from wakegate_schema.store import Store, StoreUnavailable, StoreVanished
from wakegate_worker.attempt import attempt_of
from wakegate_worker.boundary import Ending
from wakegate_worker.clocks import ClockVerdict, check_clocks, server_time
from wakegate_worker.decisions import Reading
from wakegate_worker.host_clock import HostClock
from wakegate_worker.keeping import Keeping
from wakegate_worker.log import log
from wakegate_worker.outcomes import STILL_RUNNING
from wakegate_worker.recording import Recorder
from wakegate_worker.registry import Tool, has_tool
from wakegate_worker.stopping import Interrupted, Stop
from wakegate_worker.threads import Threads
from wakegate_worker.tool_run import run_tool

START_TOO_SLOW = "start_too_slow"
"""The reason of a start whose commit took as long as its lease."""


class CannotRunHere(WakegateError):
    """This worker cannot run the call; another build of it may."""

    reason = "cannot_run_here"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that this worker can run."""

    tool: Tool
    arguments: Mapping[str, Any]


class Starting:
    """Starts worker-run calls, each at most once."""

    def __init__(
        self,
        store: Store,
        tools: Mapping[str, Tool],
        *,
        threads: Threads,
        keeping: Keeping,
        recorder: Recorder,
        clock: HostClock,
        lease_s: float,
        stop: Stop,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the store, the tools of this worker, what runs and records them, the clocks and a lease's length."""
        self._store = store
        self._tools = tools
        self._threads = threads
        self._keeping = keeping
        self._recorder = recorder
        self._clock = clock
        self._lease_us = round(lease_s * SECOND)
        self._stop = stop
        self._monotonic = monotonic
        self.alive: set[str] = set()
        """Ids of executions whose tool runs in this process now, given up ones included."""
        self.running: list[Tool] = []
        """The tools of the attempts that run now, one for each."""

    async def check_time(self, approval: Approval, reading: Reading) -> ClockVerdict:
        """Mark the host's clock and say what all clocks make of the approval."""
        highest = await self._clock.mark()
        return self._check_time(approval, reading, highest)

    def prepare(self, execution: Execution) -> Prepared:
        """Find out whether this worker can run the call, before anything is spent.

        Raises:
            CannotRunHere: `no_worker_has_the_tool` or `no_thread`.
            ArgumentsDoNotFit: the tool does not take the call's arguments.
        """
        if not has_tool(self._tools, execution.tool, execution.tool_version):
            version = f" at version {execution.tool_version!r}" if execution.tool_version else ""
            raise CannotRunHere(
                f"no living worker has tool {execution.tool!r}{version}; run one with its module in WAKEGATE_TOOLS",
                reason=NO_WORKER_HAS_THE_TOOL,
            )
        tool = self._tools[execution.tool]
        arguments = json.loads(execution.arguments or b"{}")
        tool.check_arguments(None, arguments)
        if not tool.is_async and self._threads.full:
            raise CannotRunHere(
                "every thread is taken, by tools that hang perhaps; restart the worker", reason="no_thread"
            )
        return Prepared(tool, arguments)

    async def start(self, execution: Execution, approval: Approval, prepared: Prepared, reading: Reading) -> bool:
        """Spend the permission and run the call, or do neither, or spend it without running.

        Returns whether the permission was spent here, as far as is known.

        Raises:
            Interrupted: a stop was asked for; nothing was spent.
        """
        if self._stop.requested:
            raise Interrupted
        if execution.execution_id in self.alive:
            log.warning("it is running here already", action="start")
            return True
        self.alive.add(execution.execution_id)
        still_running = False
        try:
            begun_at, begun = self._clock.now(), self._monotonic()
            started = await self._spend(execution, approval, begun_at)
            if started is None:
                log.info("not started here", action="start")
                return False
            log.info("started", action="start", tool=execution.tool)
            unfit = functools.partial(self._unfit, approval, reading, begun_at, begun)
            still_running = await self._run(started, prepared, unfit)
        finally:
            if not still_running:
                self.alive.discard(execution.execution_id)
        return True

    async def _spend(self, execution: Execution, approval: Approval, now: int) -> Execution | None:
        try:
            return await self._store.start(execution.lease, approval, now, now + self._lease_us)
        except StoreUnavailable as error:
            log.warning("the start's answer is lost", action="start", reason=error.reason)
            # A commit into a file that nobody can find any more may be forgotten: it permits nothing.
            vanished = isinstance(error, StoreVanished)
        started = None if vanished else await self._reread(execution)
        if started is None:
            # Should the commit have been made after all, nothing was begun under it; nobody but us knows.
            self._recorder.record_later(execution.lease, Outcome("not_begun", "start_unconfirmed"))
        return started

    async def _reread(self, execution: Execution) -> Execution | None:
        now = self._clock.now()
        try:
            # What can be read back may be forgotten all the same: files that were removed meanwhile, a server that
            # another one has taken the place of, a commit that no standby has. It counts only after a write that
            # needs the start, and is itself known to last.
            if not await self._store.renew(execution.lease, now, now + self._lease_us):
                return None
            found = await self._store.execution(execution.execution_id)
        except StoreUnavailable:
            return None
        ours = found.state is State.STARTED and found.attempt_number == execution.lease_number
        return found if ours else None

    def _unfit(self, approval: Approval, reading: Reading, begun_at: int, begun: float) -> str | None:
        """Return why the call must not begin although it is started; None when it may (DESIGN, the start, step 7).

        Called in the tool's thread, or its task, as the last thing before the call.
        """
        verdict = self._check_time(approval, reading, self._clock.highest)
        if verdict is ClockVerdict.LAPSED:
            return str(Ending.APPROVAL_EXPIRED)
        if verdict is not ClockVerdict.IN_TIME:
            return str(verdict)
        # A process that was held up may find that others have taken the attempt for dead, or settled it.
        took_us = max(self._clock.now() - begun_at, round((self._monotonic() - begun) * SECOND))
        return START_TOO_SLOW if took_us >= self._lease_us else None

    async def _run(self, started: Execution, prepared: Prepared, unfit: Callable[[], str | None]) -> bool:
        """Run the call, and return whether it runs on after its attempt was given up."""
        lease, attempt = started.lease, attempt_of(started)
        if attempt is None:
            await self._recorder.record(lease, Outcome("not_begun", "payload_erased"))
            return False

        def late(outcome: Outcome) -> None:
            self.alive.discard(started.execution_id)
            self._keeping.is_over(started.execution_id)
            self._recorder.record_later(lease, outcome)

        async with self._keeping.renewed(lease):
            self.running.append(prepared.tool)
            try:
                outcome = await run_tool(
                    prepared.tool, attempt, prepared.arguments, threads=self._threads, unfit=unfit, late=late
                )
            finally:
                self.running.remove(prepared.tool)
            await self._recorder.record(lease, outcome)
        runs_on = outcome.reason == STILL_RUNNING and started.execution_id in self.alive
        if runs_on:
            self._keeping.runs_on(lease)
        return runs_on

    def _check_time(self, approval: Approval, reading: Reading, highest: int) -> ClockVerdict:
        server_now = server_time(reading.server_date, reading.received_monotonic, self._monotonic())
        return check_clocks(approval.expires_at, now=self._clock.now(), highest=highest, server_now=server_now)
