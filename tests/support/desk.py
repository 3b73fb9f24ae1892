"""A refund desk on record: a registration, an instance and calls, saved through the store's own verbs."""

import uuid
from dataclasses import dataclass, field, replace

from wakegate_schema import clock
from wakegate_schema.records import (
    Approval,
    Arrival,
    Challenge,
    Execution,
    Instance,
    Registration,
    RequestIdentity,
    Runs,
    Suspension,
)
from wakegate_schema.store import Store

PROVIDER = "http://127.0.0.1:9"


def new_id() -> str:
    """A fresh UUID as text."""
    return str(uuid.uuid4())


@dataclass
class Desk:
    """One instance at one provider, and the store that knows it."""

    store: Store
    provider: str = PROVIDER
    instance_id: str = field(default_factory=new_id)
    registration_id: str = field(default_factory=new_id)
    name: str = "refund-desk"

    async def open(self) -> "Desk":
        """Register, bind and store a credential."""
        await self.store.add_registration(self.registration())
        await self.store.bind(Challenge(self.registration_id, self.instance_id, clock.now()))
        await self.store.add_instance(self.instance(), self.registration_id)
        return self

    def registration(self) -> Registration:
        """The registration as it is expected."""
        now = clock.now()
        return Registration(
            self.registration_id, self.provider, self.name, "expected", b"sealed secret", None, new_id(), None, now,
            now + clock.HOUR,
        )  # fmt: skip

    def instance(self) -> Instance:
        """The instance with a credential."""
        return Instance(
            self.provider, self.instance_id, self.name, "active", None, "webhook", b"sealed token", None, clock.now()
        )

    def suspension(self, **changes: object) -> Suspension:
        """A refund to be saved."""
        plain = Suspension(
            execution_id=new_id(), provider=self.provider, instance_id=self.instance_id, idempotency_key=new_id(),
            tool="issue_refund", arguments=b'{"amount": 4900}', context=None, reasoning="charged twice",
            timeout="30m", tool_version=None, runs="worker", wake="none", group=None, at=clock.now(),
        )  # fmt: skip
        return replace(plain, **changes)  # type: ignore[arg-type]

    def arrival(self, request_id: str, **changes: object) -> Arrival:
        """A verified notification for a request."""
        now = clock.now()
        plain = Arrival(self.provider, self.registration_id, self.instance_id, new_id(), request_id, now, now, b"{}")
        return replace(plain, **changes)  # type: ignore[arg-type]

    async def save(self, **changes: object) -> Execution:
        """An execution in state saved."""
        return await self.store.save(self.suspension(**changes))

    async def submitting(self, **changes: object) -> Execution:
        """An execution in state submitting, under a lease."""
        saved = await self.save(**changes)
        leased = await self.lease(saved.execution_id)
        await self.store.begin_submission(leased.lease, "1", clock.now())
        return await self.store.execution(saved.execution_id)

    async def waiting(self, **changes: object) -> Execution:
        """An execution in state waiting, under a lease."""
        submitting = await self.submitting(**changes)
        now = clock.now()
        identity = RequestIdentity(new_id(), now, now + 30 * clock.MINUTE)
        return await self.store.attach(submitting.execution_id, identity, now)

    async def permitted(self, approval: Approval | None = None) -> Execution:
        """A harness-run execution in state permitted."""
        waiting = await self.waiting(runs="harness")
        await self.store.permit(waiting.lease, approval or approved(), clock.now())
        return await self.store.execution(waiting.execution_id)

    async def started(self, runs: Runs = "worker", lease: int = clock.MINUTE) -> Execution:
        """An execution in state started, its lease good for `lease` µs."""
        now = clock.now()
        if runs == "harness":
            permitted = await self.permitted()
            await self.store.claim(permitted.execution_id, "claim", now, now + lease, 0)
            return await self.store.execution(permitted.execution_id)
        waiting = await self.waiting()
        started = await self.store.start(waiting.lease, approved(), now, now + lease)
        if started is None:
            raise LookupError("the start was refused")
        return started

    async def in_doubt(self) -> Execution:
        """An execution in doubt."""
        started = await self.started(lease=1)
        await self.store.sweep(clock.now() + clock.SECOND)
        return await self.store.execution(started.execution_id)

    async def lease(self, execution_id: str) -> Execution:
        """Lease one execution for a minute."""
        now = clock.now()
        for leased in await self.store.lease_due("worker-1", 100, now, now + clock.MINUTE):
            if leased.execution_id == execution_id:
                return leased
        raise LookupError(f"{execution_id} is not due")


def approved(valid: int = 15 * clock.MINUTE) -> Approval:
    """An approval given now and good for `valid` µs."""
    now = clock.now()
    return Approval(now - 1, now + valid, "go ahead")
