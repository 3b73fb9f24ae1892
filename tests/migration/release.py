"""What a release's store code does on a store, as a program that is run with that release's package.

    python release.py URL NAME CALLS     prints, as JSON, which package it was, what it knows, and how its calls ended

It saves calls, has them notified, takes whatever is due as far as it goes, its own calls and others', claims, sweeps,
delivers wakes and reads every list, until all of its own calls are resolved.
"""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import wakegate_schema
from support.desk import Desk, approved, new_id
from wakegate_schema import clock
from wakegate_schema.records import Claimed, Closing, Execution, Outcome, RequestIdentity
from wakegate_schema.states import RESOLVED, State
from wakegate_schema.store import Store, migrations, open_store

ENDS = ("succeeded", "denied", "in_doubt", "claimed", "abandoned")
LEASE = 10 * clock.SECOND


class Release:
    """One process of a release: harness, receiver and worker in one."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._desk = Desk(store, name=name)
        self._name = name
        self._own: list[str] = []
        self.attempts: Counter[str] = Counter()
        """How often it has started each execution, its own and others'."""

    async def work(self, count: int) -> dict[str, int]:
        """Save so many calls and work until all of them are resolved; return how many ended in each state."""
        await self._desk.open()
        for number in range(count):
            await self._save(ENDS[number % len(ENDS)])
        async with asyncio.timeout(60):
            while unresolved := await self._unresolved():
                await self._round()
                await self._settle(unresolved)
                await asyncio.sleep(0.01)
        await self._read_everything()
        ended = [await self._store.execution(execution_id) for execution_id in self._own]
        return dict(Counter(str(execution.state) for execution in ended))

    async def _save(self, end: str) -> None:
        runs = "harness" if end == "claimed" else "worker"
        saved = await self._desk.save(reasoning=end, runs=runs, wake="crm", idempotency_key=new_id())
        self._own.append(saved.execution_id)
        if end == "abandoned":
            await self._store.abandon(saved.execution_id, "closed", "harness", clock.now())

    async def _unresolved(self) -> list[Execution]:
        found = [await self._store.execution(execution_id) for execution_id in self._own]
        return [execution for execution in found if execution.state not in RESOLVED]

    async def _round(self) -> None:
        store, now = self._store, clock.now()
        await store.next_due_at(self._name)
        for leased in await store.lease_due(self._name, 4, now, now + LEASE):
            await (self._submit(leased) if leased.request_id is None else self._decide(leased))
        await store.sweep(clock.now())
        for wake in await store.lease_wakes(10, now, now + LEASE):
            await store.wake_delivered(wake.wake_id, clock.now())
        for cancel in await store.lease_cancels(10, now, now + LEASE):
            await store.cancel_settled(cancel.execution_id)
        await store.mark_clock(self._name, now)

    async def _submit(self, leased: Execution) -> None:
        """Put it to a provider, which notifies at once."""
        store, now = self._store, clock.now()
        if not await store.begin_submission(leased.lease, "1", now):
            return
        identity = RequestIdentity(new_id(), now, now + 30 * clock.MINUTE)
        await store.attach(leased.execution_id, identity, now)
        if leased.instance_id == self._desk.instance_id:
            await store.record(self._desk.arrival(identity.request_id))
        await store.release(leased.lease, now, None, now)

    async def _decide(self, leased: Execution) -> None:
        store, now = self._store, clock.now()
        if leased.reasoning == "denied":
            await store.close_unstarted(leased.lease, Closing(State.DENIED, "denied", now - 1), now)
        elif leased.runs == "harness":
            await store.permit(leased.lease, approved(), now)
        else:
            await self._run(leased)

    async def _run(self, leased: Execution) -> None:
        store, now = self._store, clock.now()
        lasting = LEASE if leased.reasoning == "succeeded" else 1
        started = await store.start(leased.lease, approved(), now, now + lasting)
        if started is None:
            return
        self.attempts[leased.execution_id] += 1
        if leased.reasoning == "succeeded":
            await store.renew(started.lease, clock.now(), clock.now() + LEASE)
            await store.finish(started.lease, Outcome("succeeded", "returned", result=b"{}"), clock.now())

    async def _settle(self, unresolved: list[Execution]) -> None:
        """Claim what is permitted, and say what became of what is in doubt."""
        store, now = self._store, clock.now()
        for execution in unresolved:
            if execution.state is State.PERMITTED:
                claimed = await store.claim(execution.execution_id, new_id(), now, now + LEASE, 0)
                if isinstance(claimed, Claimed):
                    self.attempts[execution.execution_id] += 1
                    outcome = Outcome("succeeded", "returned", result=b"{}")
                    await store.finish(claimed.execution.lease, outcome, clock.now(), claimed.attempt_token)
            elif execution.state is State.IN_DOUBT:
                await store.settle(execution.execution_id, happened=False, by="ops", note="looked", at=now)

    async def _read_everything(self) -> None:
        store, one = self._store, self._own[0]
        await store.executions()
        await store.latest_executions()
        await store.executions(0, 10, State.WAITING)
        await store.transitions(one)
        await store.wakes(one)
        await store.latest_wakes()
        await store.notifications()
        await store.latest_notifications()
        await store.anomalies()
        await store.in_doubt()
        await store.held_executions()
        await store.clock_marks()
        await store.instances()
        await store.registrations()
        await store.resolutions_end()
        await store.timings(0, 100)
        await store.census()
        await store.epoch()
        await store.probe()
        await store.prune(clock.now(), 0)


async def main(url: str, name: str, calls: int) -> None:
    """Work, and print what came of it."""
    async with await open_store(url, mode="service") as store:
        release = Release(store, name)
        ended = await release.work(calls)
        said = {
            "package": str(Path(wakegate_schema.__file__)),
            "knows": max(migrations.available()),
            "ended": ended,
            "attempts": release.attempts,
        }
    print(json.dumps(said))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
