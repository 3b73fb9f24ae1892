"""The world: what its parties can do, and what there is to choose from."""

import asyncio
import math
from collections.abc import Callable

from model.jobs import Fate, Job
from model.parties import Parties
from model.reference import Instance
from model.workers import LEASE_S

from support.deliveries import Sender
from wakegate_schema.clock import DAY, SECOND
from wakegate_schema.states import UNSTARTED
from wakegate_schema.store import NotAllowed, StoreUnavailable
from wakegate_worker.silence import HARNESS_LEASE_S

WATCH_S = LEASE_S / 5
"""How often a worker makes sure that the store takes signs of life."""


class World(Parties):
    """Everybody, and what they do: each act is one step, after which all is compared."""

    # What anybody does

    def pass_time(self, time: int) -> None:
        """Let so many µs pass."""
        self.at += time
        self.step.now = self.at

    async def lease(self, name: str, limit: int) -> list[str]:
        """A worker leases what is due; return what it must not have got."""
        found = await self.workers[name].lease(limit)
        wrong = []
        for execution, job in found:
            before = self.reference.seen.executions.get(execution.execution_id)
            if before is not None and (before["lease_until"] or 0) > self.at:
                wrong.append(f"{execution.idempotency_key} was leased while somebody held it")
            await self._begin(job)
        return wrong

    async def cancels(self, name: str) -> None:
        """A worker takes the cancels and the reports that are due."""
        for job in await self.workers[name].cancels():
            await self._begin(job)

    async def begin_claim(self, execution_id: str, claimer: str) -> None:
        """A harness is about to claim a call: under its id of before, as long as nothing has begun."""
        claim_id = f"{claimer}/{len(self.reference.calls[execution_id].begun)}"
        await self._begin(Job("claim", claimer, execution_id, lambda: self.claim(execution_id, claim_id)))

    async def _begin(self, job: Job) -> None:
        self.jobs.append(job)
        await job.begin()

    async def go(self, job: Job, fate: Fate = Fate.GO) -> None:
        """Let a job on to its next stop."""
        self.step.job = job
        await job.go(fate)
        for worker in self.workers.values():
            await worker.recorder.finish(5)
        call = self.reference.calls[job.subject]
        if job.done and job.name == "handle" and job.task is not None and job.task.exception() is None and call.begun:
            call.told = call.told or self._ran(job)

    def _ran(self, job: Job) -> bool:
        row = self.reference.seen.executions.get(job.subject)
        return row is not None and row["attempt_number"] == job.lease_number

    async def finish(self, job: Job, check: Callable[[], None]) -> None:
        """Let a job on to its end."""
        while not job.done:
            await self.go(job)
            check()

    async def raise_epoch(self) -> None:
        """The store may have gone back in time."""
        await self.desk.raise_epoch("restored", "operator", self.at)

    async def release(self, execution_id: str) -> None:
        """A person says that a call of an older epoch may run."""
        self.step.releases.add(execution_id)
        await self.desk.release_held(execution_id, actor="operator:eve", note="looked", at=self.at)

    def held(self) -> list[str]:
        """The executions that wait for a person's release."""
        found = self.in_state("saved", "submitting", "waiting", "permitted")
        seen = self.reference.seen
        return [one for one in found if seen.executions[one]["epoch"] < seen.epoch]

    async def abandon(self, execution_id: str, fate: Fate) -> None:
        """A harness gives a call up."""
        self.lines["desk"].next = fate
        if fate is not Fate.REFUSED:
            self.step.abandons.add(execution_id)
        try:
            found = await self.desk.abandon(execution_id, "not wanted", "harness", self.at)
        except (NotAllowed, StoreUnavailable):
            return
        if found.state == "abandoned":
            self.reference.calls[execution_id].abandoned = True
        elif found.state in UNSTARTED:
            self.reference.complaints.append(f"{execution_id} was given up, and is {found.state}")

    async def sweep(self, *, both: bool) -> None:
        """One worker sweeps, or both at once."""
        await asyncio.gather(*(self.workers[name].sweep.sweep() for name in (("a", "b") if both else ("a",))))

    async def prune(self, name: str) -> None:
        """A worker follows retention."""
        await self.workers[name].sweep.prune()
        for event, found in list(self.reference.events.items()):
            if found.keep_until <= self.at:
                del self.reference.events[event]

    async def probe(self, name: str) -> None:
        """A worker listens for signs of life of what is in doubt, and asks what became of what gives none."""
        probing = self.workers[name].probing
        for _ in range(math.ceil(max(LEASE_S, HARNESS_LEASE_S) / WATCH_S) + 3):
            await probing.round()
            await probing.watch_store()
            self.pass_time(round(WATCH_S * SECOND))

    async def resolve(self, execution_id: str, *, happened: bool) -> None:
        """A person settles what is in doubt."""
        self.step.person[execution_id] = happened
        await self.desk.settle(execution_id, happened=happened, by="eve", note="looked", at=self.at)
        self.reference.calls[execution_id].person = happened

    async def set_credential(self, instance: Instance, *, refused: bool) -> None:
        """A provider refuses an instance's credential, or there is a new one."""
        provider, instance_id = instance
        if instance in self.reference.retired:
            return
        if refused:
            self.approvers[provider].deaf_to.add(instance_id)
            return
        self.approvers[provider].deaf_to.discard(instance_id)
        await self.desk.set_credential(provider, instance_id, self.credential(instance), None, self.at)

    async def rotate(self, instance: Instance, overlap: int) -> None:
        """An instance gets another registration; those before are taken for `overlap` µs more."""
        if instance in self.reference.retired:
            return
        signer = await self.expect(instance, promised=True)
        delivery = Sender(signer.secret, instance[1]).verification(signer.registration_id, at=self.at / SECOND)
        if await self.door.post(delivery) != 200:
            self.reference.complaints.append("the challenge of a replacement was not answered")
            return
        until = self.at + overlap
        await self.desk.put_in_force(signer.registration_id, until)
        for other in self.reference.signers:
            if other.instance == instance:
                other.superseded_until = min(until, other.superseded_until or until)
        self.reference.signers.append(signer)

    async def retire(self, instance: Instance, *, deleted: bool) -> None:
        """An instance is retired here, and perhaps deleted at its provider."""
        provider, instance_id = instance
        if instance in self.reference.retired:
            return
        self.step.retires.add(instance)
        await self.desk.retire_instance(provider, instance_id, "operator", self.at)
        self.reference.retired[instance] = self.at
        for signer in self.reference.signers:
            if signer.instance == instance:
                signer.retired_at = self.at
        if deleted:
            self.approvers[provider].deaf_to.add(instance_id)

    def due(self, column: str) -> list[str]:
        """The executions for which this column's time has come."""
        rows = self.reference.seen.executions.items()
        return [found for found, row in rows if row[column] is not None and row[column] <= self.at]

    def until_due(self) -> list[int]:
        """How long it is until the next call is due, µs, if one will be within a day."""
        rows = self.reference.seen.executions.values()
        times = [row["due_at"] - self.at for row in rows if row["due_at"] is not None and row["due_at"] > self.at]
        return [min(times)] if times and min(times) < DAY else []

    def swept(self) -> list[str]:
        """The executions that a sweep would change."""
        rows = self.reference.seen.executions.items()
        due = {"started": "lease_until", "permitted": "expires_at"}
        return [
            *self.due("hold_until"),
            *(found for found, row in rows if row["state"] in due and row[due[row["state"]]] <= self.at),
        ]

    def claimable(self) -> list[tuple[str, str]]:
        """The harness-run executions that can be claimed, and some that cannot any more, with who may try."""
        found = [one for one in self.in_state("permitted", "started") if self.reference.calls[one].runs == "harness"]
        busy = [(job.subject, job.process) for job in self.jobs if job.name == "claim" and not job.done]
        return [(one, name) for one in found for name in ("one", "two") if (one, name) not in busy]

    def owed(self) -> list[str]:
        """The wakes that are due."""
        wakes = self.reference.seen.wakes.items()
        return [found for found, row in wakes if row["due_at"] is not None and row["due_at"] <= self.at]

    def in_state(self, *states: str) -> list[str]:
        """The executions that were in one of these states after the last step."""
        return [found for found, row in self.reference.seen.executions.items() if row["state"] in states]
