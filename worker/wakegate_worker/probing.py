"""Probing: asking a tool's own probe whether an attempt in doubt happened."""

import asyncio
import functools
import inspect
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn

from wakegate_schema import fault_points
from wakegate_schema.clock import HOUR, SECOND
from wakegate_schema.records import Execution, Outcome
from wakegate_schema.store import Store, StoreError
from wakegate_worker.attempt import Attempt, attempt_of
from wakegate_worker.backoff import delay_s
from wakegate_worker.log import log
from wakegate_worker.registry import Probe, Tool, has_tool
from wakegate_worker.silence import Silence
from wakegate_worker.threads import NoThread, Threads
from wakegate_worker.tool_run import GRACE_S

HAPPENED = Outcome("succeeded", "probe_found_it")
DID_NOT_HAPPEN = Outcome("failed", "probe_found_nothing")
LEAST_PAUSE_S = 1.0
"""Seconds between two rounds at least."""
ROOM = 32
"""How many probes are asked at once."""
ROUND_S = 5.0
"""Seconds a round waits for its answers; who takes longer keeps nobody else waiting."""
THREADS = 32
"""How many threads sync probes may have, hung ones included; tools have their own."""


@dataclass(frozen=True, slots=True)
class _Asked:
    tries: int
    due_at: int


class Probing:
    """Asks soon after an attempt came into doubt and on every start, then less and less often, at least hourly.

    An attempt is not asked about while it may still be doing it: not before its tool's timeout is over, nor while it
    runs in this process, nor until it has given no sign of life for a lease. "It did not happen" would then be true
    only for the moment. Nor is a probe called again while an earlier call of it for the same attempt has not come
    back.
    """

    def __init__(
        self,
        store: Store,
        tools: Mapping[str, Tool],
        *,
        alive: Collection[str],
        lease_s: float,
        now: Callable[[], int],
        woken: asyncio.Event,
    ) -> None:
        """Take the store, this worker's tools, which executions run here, a lease, the clock, and what wakes set."""
        self._store = store
        self._tools = {name: tool for name, tool in tools.items() if tool.probe is not None}
        self._threads = Threads(THREADS)
        self._alive = alive
        self._lease_s = lease_s
        self._silence = Silence(lease_s=lease_s)
        self._now = now
        self._woken = woken
        self._asked: dict[str, _Asked] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._watching = False
        """Whether a silence is waited for now."""
        self._hanging: set[str] = set()
        """Whose sync probe was given up and has not come back."""

    async def round(self) -> float | None:
        """Ask about every execution in doubt that is due to be asked about; return seconds until the next is."""
        if not self._tools:
            return None
        self._silence.expect(max(self._lease_s, await self._store.longest_lease_seconds()))
        after, next_at, seen = 0, None, set()
        self._watching = False
        while page := await self._store.in_doubt(after):
            after = page[-1][0]
            for _, execution in page:
                seen.add(execution.execution_id)
                due_at = self._due_at(execution)
                if due_at is not None and due_at <= self._now() and len(self._asking) < ROOM:
                    self._ask(execution)
                elif due_at is not None:
                    next_at = due_at if next_at is None else min(next_at, due_at)
        self._asked = {key: asked for key, asked in self._asked.items() if key in seen}
        self._silence.keep(seen)
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=ROUND_S)
        return self._pause(next_at)

    async def watch_store(self) -> None:
        """Find out, while a silence is waited for, whether the store takes writes, signs of life among them."""
        if self._watching:
            await self._store.probe()
            self._silence.store_took()

    async def finish(self) -> None:
        """Break off what is being asked; the next start asks again."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)

    def _pause(self, next_at: int | None) -> float | None:
        if self._asking:
            return ROUND_S
        again = [asked.due_at for asked in self._asked.values()]
        soonest = min(again if next_at is None else [next_at, *again], default=None)
        return None if soonest is None else max(LEAST_PAUSE_S, (soonest - self._now()) / SECOND)

    def _due_at(self, execution: Execution) -> int | None:
        """Return when to ask, or None if this worker cannot, or not while its own run goes on."""
        if not has_tool(self._tools, execution.tool, execution.tool_version):
            return None
        tool = self._tools[execution.tool]
        if execution.execution_id in self._alive or execution.execution_id in self._asking:
            return None
        if execution.execution_id in self._hanging:
            return None
        asked, now = self._asked.get(execution.execution_id), self._now()
        # By the wall clock it may have started in the future: that clock went back, and counts for nothing then.
        age_s = max(self._silence.look(execution), (now - (execution.started_at or 0)) / SECOND)
        silence_s = self._silence.left_s(execution)
        quiet_at = now + round(max(tool.timeout + GRACE_S - age_s, silence_s) * SECOND)
        if asked is not None and asked.due_at > quiet_at:
            return asked.due_at
        self._watching = self._watching or silence_s > 0
        return quiet_at

    def _ask(self, execution: Execution) -> None:
        task = asyncio.get_running_loop().create_task(self._settle(execution))
        self._asking[execution.execution_id] = task
        task.add_done_callback(lambda _: self._asking.pop(execution.execution_id))

    async def _settle(self, execution: Execution) -> None:
        """Ask, and settle what is in doubt or put down when to ask again."""
        tool, attempt = self._tools[execution.tool], attempt_of(execution)
        if attempt is None or tool.probe is None:
            return
        answer = await self._answer(tool, tool.probe, attempt)
        tries = self._asked[execution.execution_id].tries + 1 if execution.execution_id in self._asked else 0
        wait_s = delay_s(tries, random.random, base_s=2.0, cap_s=HOUR / SECOND)
        self._asked[execution.execution_id] = _Asked(tries, self._now() + round(wait_s * SECOND))
        log.info("probed", action="probe", execution_id=execution.execution_id, happened=answer, tries=tries)
        if answer is None:
            return
        outcome = HAPPENED if answer else DID_NOT_HAPPEN
        try:
            settled = await self._store.settle_by_probe(
                execution.execution_id, outcome, self._now(), execution.lease_until
            )
        except StoreError as error:
            log.warning("not settled yet", action="probe", execution_id=execution.execution_id, reason=error.reason)
            return
        if not settled:
            log.info("settled already, or it runs", action="probe", execution_id=execution.execution_id)
            return
        self._asked.pop(execution.execution_id, None)
        self._woken.set()

    async def _answer(self, tool: Tool, probe: Probe, attempt: Attempt) -> bool | None:
        """Return the probe's answer; None also for one that failed, took too long or said something else."""
        try:
            async with asyncio.timeout(tool.timeout):
                await fault_points.passing("probe.begin", tool.name)
                answer = await self._call(probe, attempt)
                await fault_points.passing("probe.end", tool.name)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            log.exception(
                "the probe failed", action="probe", execution_id=attempt.execution_id, error=type(error).__name__
            )
            return None
        if answer is None or isinstance(answer, bool):
            return answer
        log.warning("the probe answered neither True, False nor None", action="probe", tool=tool.name)
        return None

    async def _call(self, probe: Probe, attempt: Attempt) -> object:
        if inspect.iscoroutinefunction(probe):
            return await probe(attempt)
        if self._threads.full:
            return None
        try:
            ending = self._threads.run(lambda: _ended(probe, attempt))
        except NoThread:
            return None
        self._hanging.add(attempt.execution_id)
        ending.add_done_callback(lambda _: self._hanging.discard(attempt.execution_id))
        answer = (await asyncio.shield(ending))()
        return await answer if inspect.isawaitable(answer) else answer


def _is_cancelled() -> bool:
    """Return whether the stop cancels this task, rather than the probe raising what a cancellation raises."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _ended(probe: Probe, attempt: Attempt) -> Callable[[], object]:
    """Call the probe in this thread; what is returned tells its answer, or raises what it raised, in another."""
    try:
        answer = probe(attempt)
    except BaseException as error:  # noqa: BLE001 (the loop's thread is told)
        return functools.partial(_raise, error)
    return lambda: answer


def _raise(error: BaseException) -> NoReturn:
    raise RuntimeError("the probe raised") from error
