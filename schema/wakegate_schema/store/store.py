"""The store: every verb by which the parties read and change what is on record.

Each verb is one transaction, or part of one: whatever waits is committed together (group commit), and a verb
returns only after its commit is on disk. A verb raises `StoreUnavailable` when its commit could not be made or
its answer was lost; then nothing is promised, and the caller reads again before it acts.
"""

from collections.abc import Sequence
from typing import Self

from wakegate_schema.records import (
    Anomaly,
    Approval,
    Arrival,
    Binding,
    Census,
    Challenge,
    Claimed,
    ClockMark,
    ClockReset,
    Closing,
    Doubts,
    Epoch,
    Execution,
    Group,
    Instance,
    Lease,
    Notification,
    Outcome,
    Pruned,
    PutOff,
    Receipt,
    Registration,
    RequestIdentity,
    Suspension,
    Swept,
    Timing,
    Told,
    Transition,
    Wake,
    WakeState,
)
from wakegate_schema.states import State
from wakegate_schema.store import wal
from wakegate_schema.store.doorbell import Doorbell
from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.presence import Presence
from wakegate_schema.store.reader import Reader
from wakegate_schema.store.verbs import (
    anomalies,
    attempts,
    census,
    clocks,
    epochs,
    executions,
    groups,
    instances,
    leases,
    notifications,
    registrations,
    resolutions,
    retention,
    wakes,
)


class Store:
    """One process's way into the store. Open it with `open_store`, close it with `close` or `async with`."""

    def __init__(self, writer: GroupCommit, reader: Reader, doorbell: Doorbell, presence: Presence) -> None:
        """Take the parts that `open_store` made."""
        self._writer = writer
        self._reader = reader
        self._doorbell = doorbell
        self._presence = presence

    async def __aenter__(self) -> Self:
        """Return the store itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Commit what waits and let go of the database."""
        self._doorbell.close()
        written = await self._writer.close()
        await self._reader.close()
        if written:  # else the writer, which hangs, may still write, until the process ends
            self._presence.close()

    async def probe(self) -> None:
        """Make a real, durable write. Raises `StoreUnavailable` when that does not work now."""
        await self._writer.do(retention.probe, None)

    async def take_in_wal(self) -> int:
        """Take the WAL in if it has grown too large; return how many bytes it has then. See `store/wal.py`."""
        return await self._reader.read(wal.take_in, self._reader.path)

    async def wal_bytes(self) -> int:
        """Return how many bytes the WAL has: what was committed and is not in the database's own file yet."""
        return await self._reader.read(wal.measure, self._reader.path)

    async def changed(self, since: int, timeout: float) -> int:
        """Wait until anybody has committed something since change number `since`, at most `timeout` seconds.

        Returns the number of the latest change noticed; hand it in next time, so that nothing is missed between
        two calls, however many wait. Begin with -1, which returns at once.
        """
        return await self._doorbell.wait(since, timeout)

    # Registrations and instances

    async def add_registration(self, registration: Registration) -> None:
        """Save a registration. Raises `NotAllowed` when its id, or its name at this provider, is taken."""
        await self._writer.do(registrations.add, registration)

    async def registrations(self) -> list[Registration]:
        """Return every registration, oldest first."""
        return await self._reader.read(registrations.every)

    async def bind(self, challenge: Challenge) -> Binding:
        """Bind the challenged instance to its registration, or say why not (DESIGN, "The receiver's answers")."""
        return await self._writer.do(registrations.bind, challenge)

    async def put_in_force(self, registration_id: str, until: int) -> int:
        """Let a verified replacement take the place of the registrations of its instance, in one commit.

        They are superseded: what they sign is taken `until` then (µs), or until their own overlap ends if that is
        sooner. Returns how many were; repeats are no-ops. Raises `NotFound`, or `NotAllowed` when it is not verified.
        """
        return await self._writer.do(registrations.put_in_force, (registration_id, until))

    async def reseal_secret(self, registration_id: str, seen: bytes, sealed: bytes) -> bool:
        """Exchange the sealed secret for another sealing of it. False when it is not the one `seen` any more."""
        return await self._writer.do(registrations.reseal, (registration_id, seen, sealed))

    async def retire_registration(self, registration_id: str, at: int) -> None:
        """Give up a registration: nothing it signs from now on is acted on. Repeats are no-ops.

        While its instance lives, what it signs is not acknowledged either.
        """
        await self._writer.do(registrations.retire, (registration_id, at))

    async def add_instance(self, instance: Instance, registration_id: str | None) -> None:
        """Save an instance with its sealed credential.

        With a registration, that must be verified and bound to this very instance. Repeating the same instance
        replaces its credential. Raises `NotAllowed` naming what stands in the way.
        """
        await self._writer.do(instances.add, (instance, registration_id))

    async def set_credential(
        self, provider: str, instance_id: str, sealed: bytes, expires_at: int | None, at: int
    ) -> None:
        """Replace the credential and unpark the instance: all that waited for it becomes due.

        Raises `NotFound`, or `NotAllowed` when the instance is retired.
        """
        await self._writer.do(instances.set_credential, (provider, instance_id, sealed, expires_at, at))

    async def instances(self) -> list[Instance]:
        """Return every instance, oldest first."""
        return await self._reader.read(instances.every)

    async def instance(self, provider: str, instance_id: str) -> Instance:
        """Return one instance. Raises `NotFound`."""
        return await self._reader.read(instances.one, provider, instance_id)

    async def reseal_credential(self, provider: str, instance_id: str, seen: bytes, sealed: bytes) -> bool:
        """Exchange the sealed credential for another sealing of it; nothing else of the instance changes.

        False when it is not the one that was `seen` any more.
        """
        return await self._writer.do(instances.reseal, (provider, instance_id, seen, sealed))

    async def park_instance(self, provider: str, instance_id: str, reason: str, seen_credential: bytes) -> bool:
        """Stop using a credential that the provider refused.

        False when it is another one now, or sealed anew, and in use: try again with that.
        """
        return await self._writer.do(instances.park, (provider, instance_id, reason, seen_credential))

    async def retire_instance(self, provider: str, instance_id: str, actor: str, at: int) -> int:
        """Abandon what is unfinished and erase the credential, in one commit. Repeats are no-ops.

        Returns how many executions were abandoned. Raises `NotFound`.
        """
        return await self._writer.do(instances.retire, (provider, instance_id, actor, at))

    # Notifications

    async def record(self, arrival: Arrival) -> Receipt:
        """Record a verified notification and make the execution it names due. Durable when this returns."""
        return await self._writer.do(notifications.record, arrival)

    async def notification(self, event_id: str) -> list[Notification]:
        """Return the notifications with this event id: one per provider that used it."""
        return await self._reader.read(notifications.one, event_id)

    async def notifications(self, after: int = 0, limit: int = 500) -> list[tuple[int, Notification]]:
        """Return a page of notifications with their row numbers, in order of receipt, after row `after`."""
        return await self._reader.read(notifications.page, after, limit)

    async def latest_notifications(self, before: int | None = None, limit: int = 500) -> list[tuple[int, Notification]]:
        """Return a page of notifications with their row numbers, the latest first, before row `before`."""
        return await self._reader.read(notifications.latest, before, limit)

    async def notifications_called(self, prefix: str) -> list[Notification]:
        """Return up to 20 notifications whose event ids begin with `prefix`, which is in lower case."""
        return await self._reader.read(notifications.called, prefix)

    async def anomalies(self) -> list[Anomaly]:
        """Return what cannot be, oldest first."""
        return await self._reader.read(anomalies.every)

    # Saving and looking

    async def save(self, suspension: Suspension) -> Execution:
        """Save a call. The same key with the same call returns the execution saved before.

        Raises `KeyConflict` for the same key with anything else, `NotFound` for an unknown instance, `NotAllowed`
        for a retired one, and for a group that is sealed or wakes another target.
        """
        return await self._writer.do(executions.save, suspension)

    async def execution(self, execution_id: str) -> Execution:
        """Return one execution. Raises `NotFound`."""
        return await self._reader.read(executions.one, execution_id)

    async def find_execution(self, provider: str, instance_id: str, request_id: str) -> Execution | None:
        """Return the execution that waits for this request, if it was saved here."""
        return await self._reader.read(executions.by_request, provider, instance_id, request_id)

    async def notified(self, provider: str, instance_id: str, request_id: str) -> bool:
        """Return whether a notification about this request came in that nothing has come of yet."""
        return await self._reader.read(notifications.unhandled, provider, instance_id, request_id)

    async def executions(
        self, after: int = 0, limit: int = 500, state: State | None = None
    ) -> list[tuple[int, Execution]]:
        """Return a page of executions with their row numbers, oldest first, after row `after`."""
        return await self._reader.read(executions.page, after, limit, state)

    async def latest_executions(
        self, before: int | None = None, limit: int = 500, state: State | None = None
    ) -> list[tuple[int, Execution]]:
        """Return a page of executions with their row numbers, the latest first, before row `before`."""
        return await self._reader.read(executions.latest, before, limit, state)

    async def executions_of(
        self,
        instances: Sequence[tuple[str, str]],
        before: int | None = None,
        limit: int = 100,
        state: State | None = None,
        group: str | None = None,
    ) -> list[tuple[int, Execution]]:
        """Return a page of the executions of some instances, with their row numbers, the latest first.

        Args:
            instances: provider and id of each.
            before: only what has a lower row number.
            limit: the most there are in the page.
            state: only those in this state.
            group: only those of this group.
        """
        return await self._reader.read(resolutions.executions, instances, before, limit, state, group)

    async def executions_called(self, key: str, prefix: str | None) -> list[Execution]:
        """Return executions with this idempotency key, or whose ids begin with `prefix`: up to 20 of each."""
        return await self._reader.read(executions.called, key, prefix)

    async def transitions(self, execution_id: str) -> list[Transition]:
        """Return every change of an execution's state, oldest first."""
        return await self._reader.read(executions.transitions, execution_id)

    async def abandon(self, execution_id: str, reason: str, actor: str, at: int) -> Execution:
        """Give up an execution that has not started, and owe its cancel. A resolved one is returned as it is.

        Raises `NotFound`, or `NotAllowed` when the call has started: it may be happening.
        """
        return await self._writer.do(executions.abandon, (execution_id, reason, actor, at))

    async def keep_hold(self, execution_id: str, hold_id: str, until: int, at: int) -> bool:
        """Lengthen a hold. False when it was lost: the execution is, or will be, abandoned."""
        return await self._writer.do(executions.keep_hold, (execution_id, hold_id, until, at))

    # The worker's lease

    async def lease_due(self, owner: str, limit: int, at: int, until: int) -> list[Execution]:
        """Lease up to `limit` unstarted executions that are due, soonest first.

        A lease that nobody gives back makes the execution due again at `until`. `owner` names one process: to the one
        that passed an execution on, it is due two seconds later than to everybody else.
        """
        return await self._writer.do(leases.take, (owner, limit, at, until))

    async def next_due_at(self, owner: str | None = None) -> int | None:
        """Return when the soonest unstarted execution becomes due to `owner`, or None when nothing will."""
        return await self._reader.read(leases.next_due_at, owner)

    async def keep_lease(self, lease: Lease, at: int, until: int) -> bool:
        """Lengthen a lease before the start. False when it was lost: stop working on the execution."""
        return await self._writer.do(leases.keep, (lease, at, until))

    async def release(
        self,
        lease: Lease,
        due_at: int,
        problem: str | None,
        at: int,
        *,
        pass_on: bool = False,
        approval: Approval | None = None,
    ) -> bool:
        """Give a lease back and look again at `due_at`, or now if something came in meanwhile.

        A `problem` counts as a try that brought nothing; None clears both. With `pass_on` somebody else is to look:
        the lease's owner comes after everybody else. An `approval` that was read and cannot be used yet is pinned:
        no other one is taken for this execution from now on. False when the lease was lost.
        """
        return await self._writer.do(leases.release, (lease, due_at, problem, at, pass_on, approval))

    async def begin_submission(self, lease: Lease, tool_version: str | None, at: int) -> bool:
        """saved → submitting, before the first byte goes out. `tool_version` is kept if none was declared.

        True also when it was submitting already; False when the lease or the state was lost.
        """
        return await self._writer.do(leases.begin_submission, (lease, tool_version, at))

    async def attach(self, execution_id: str, request: RequestIdentity, at: int) -> Execution:
        """Record the request's identity, in any state; submitting → waiting.

        Due at once when its notification came first. Repeats are no-ops; another identity than the recorded one
        raises `InvariantViolated`. One whose request was made before the present epoch began, give or take the clocks,
        belongs to the older epoch unless it was released. Returns the execution as it is now.
        """
        return await self._writer.do(leases.attach, (execution_id, request, at))

    async def close_unstarted(self, lease: Lease, closing: Closing, at: int) -> bool:
        """End an execution that will not start. False when the lease or the state was lost."""
        return await self._writer.do(leases.close, (lease, closing, at))

    async def permit(self, lease: Lease, approval: Approval, at: int, ahead: int = 0) -> bool:
        """waiting → permitted, for a harness-run execution. False when the lease, the state or the time was lost.

        `ahead` is by how many µs the provider's clock is ahead of the one that shows `at`; a claim, which cannot ask
        the provider, has that much less time.
        """
        return await self._writer.do(attempts.permit, (lease, approval, at, ahead))

    async def start(self, lease: Lease, approval: Approval, at: int, until: int) -> Execution | None:
        """waiting → permitted → started, in one commit, for a worker-run execution. Spends the permission.

        Guarded by state, lease and `at < expires_at`. Returns None when the guard does not hold. When this raises
        `StoreUnavailable`, read the execution again: it is yours only if it says started under this lease's number.
        """
        return await self._writer.do(attempts.start, (lease, approval, at, until))

    async def mark_clock(self, host: str, at: int) -> int:
        """Raise this host's highest wall clock reading to `at`; return the highest before that (µs, 0 for none)."""
        return await self._writer.do(clocks.mark, (host, at))

    async def clock_marks(self) -> list[ClockMark]:
        """Return every host's mark, the highest first."""
        return await self._reader.read(clocks.marks)

    async def clock_resets(self) -> list[ClockReset]:
        """Return every reset of a mark, oldest first."""
        return await self._reader.read(clocks.resets)

    async def reset_clock(self, host: str, actor: str, at: int) -> ClockReset | None:
        """Lower the host's mark to `at`, the right time, and keep for good who did. None when it is not ahead of that.

        Raises `NotFound` for a host without a mark.
        """
        return await self._writer.do(clocks.reset, (host, actor, at))

    async def bring_forward(self, at: int, resume: PutOff | None = None, limit: int = 500) -> PutOff | None:
        """Make due what a clock that was ahead has put off for more than an hour from `at`, the right time.

        No lease, hold or wake lasts or waits that long by itself; looks do, and looking early is harmless. One
        bounded step: returns where the next one resumes, or None when nothing is left.
        """
        return await self._writer.do(clocks.bring_forward, (at, resume, limit))

    # The attempt

    async def claim(
        self, execution_id: str, claim_id: str, at: int, until: int, margin: int, actor: str = "harness"
    ) -> Claimed | Execution:
        """permitted → started, for a harness that runs the call itself. `claim_id` is the claimer's choice.

        `actor` is who claims, as the records name them.

        A repeat with the same id returns the same attempt with a fresh token, while it is running. Anything that
        does not permit a start (state, another's claim, less than `margin` µs before expires_at) returns the
        execution as it is instead. Raises `NotFound`.
        """
        return await self._writer.do(attempts.claim, (execution_id, claim_id, at, until, margin, actor))

    async def renew(self, lease: Lease, at: int, until: int, token: str | None = None) -> bool:
        """Say that the attempt still runs. False when it is in doubt or settled. A claim's needs its token."""
        return await self._writer.do(attempts.renew, (lease, at, until, token))

    async def runs_on(self, lease: Lease, at: int, until: int, token: str | None = None) -> bool:
        """Say that the attempt still runs although its lease is lost or it is in doubt: a sign of life until `until`.

        Nothing is settled by it; but a probe's "it did not happen" is not taken from who has not seen it. False when
        the attempt is settled.
        """
        return await self._writer.do(attempts.runs_on, (lease, at, until, token))

    async def finish(
        self, lease: Lease, outcome: Outcome, at: int, token: str | None = None, actor: str | None = None
    ) -> Execution:
        """Record how the attempt ended; also late, when it was in doubt. A claim's needs its token.

        Repeats are no-ops. A word against what a person has settled is kept as an anomaly. Returns the execution
        as it is now. `actor` is who says so in the records, unless given whoever runs the call. Raises `NotAllowed`
        when this attempt does not exist or the token is not its own.
        """
        return await self._writer.do(attempts.finish, (lease, outcome, at, token, actor))

    async def settle(self, execution_id: str, *, happened: bool, by: str, note: str, at: int) -> Execution:
        """in_doubt → succeeded or failed, on a person's word.

        Raises `NotFound`, or `NotAllowed` from any other state.
        """
        return await self._writer.do(attempts.settle, (execution_id, happened, by, note, at))

    async def settle_by_probe(self, execution_id: str, outcome: Outcome, at: int, seen: int | None = None) -> bool:
        """in_doubt → succeeded or failed, on the word of the tool's probe.

        `seen` is the last sign of life that the one who asked has seen (`Execution.lease_until`). False when the
        execution is not in doubt any more, and for a `failed` when the attempt has given another sign since.
        """
        return await self._writer.do(attempts.settle_by_probe, (execution_id, outcome, at, seen))

    async def doubts(self, limit: int = 1000) -> Doubts:
        """Count what is in doubt, looking at the first `limit` at most."""
        return await self._reader.read(attempts.doubts, limit)

    async def in_doubt(self, after: int = 0, limit: int = 500) -> list[tuple[int, Execution]]:
        """Return a page of executions in doubt, oldest first."""
        return await self.executions(after, limit, State.IN_DOUBT)

    # Epochs

    async def epoch(self) -> Epoch:
        """Return the present epoch."""
        return await self._reader.read(epochs.present)

    async def raise_epoch(self, reason: str, actor: str, at: int) -> Epoch:
        """Begin the next epoch, because the store may have gone back in time.

        In the same commit every unstarted execution is held as `older_epoch`, and every lease is void: what is
        started goes in doubt with the next sweep. Cancels, holds and lapses go on.
        """
        return await self._writer.do(epochs.begin, (reason, actor, at))

    async def release_held(self, execution_id: str, *, actor: str, note: str | None, at: int) -> Execution:
        """Bring an execution of an older epoch into the present one, due now. It may run, and may have run before.

        Kept as a transition from its state to itself. Raises `NotFound`, or `NotAllowed` when nothing holds it.
        """
        return await self._writer.do(epochs.release, (execution_id, actor, note, at))

    async def held_executions(self, after: int = 0, limit: int = 500) -> list[tuple[int, Execution]]:
        """Return a page of executions that wait for a release, with their row numbers, oldest first."""
        return await self._reader.read(epochs.held, after, limit)

    # The sweep

    async def sweep(self, at: int, limit: int = 200) -> Swept:
        """Act on what time has done: started calls whose lease ran out, approvals that lapsed, holds that were lost."""
        return await self._writer.do(leases.sweep, (at, limit))

    async def lease_cancels(self, limit: int, at: int, until: int) -> list[Execution]:
        """Return executions that owe the provider a cancel, each due again at `until`."""
        return await self._writer.do(leases.take_cancels, (limit, at, until))

    async def cancel_settled(self, execution_id: str) -> None:
        """The provider has answered: no cancel is owed any more."""
        await self._writer.do(leases.cancel_settled, execution_id)

    async def cancel_retry(self, execution_id: str, due_at: int) -> None:
        """The cancel did not get through: try again at `due_at`."""
        await self._writer.do(leases.cancel_retry, (execution_id, due_at))

    async def lease_wakes(
        self, limit: int, at: int, until: int, *, target: str | None = None, but: Sequence[str] = ()
    ) -> list[Wake]:
        """Return wakes that are owed, each due again at `until`: those of one target, or of all `but` some."""
        return await self._writer.do(wakes.take, (limit, at, until, target, tuple(but)))

    async def keep_wake(self, wake_id: str, since: int, until: int) -> bool:
        """Lengthen the lease of a wake, which was until `since`. False when it is not; it may be delivered twice."""
        return await self._writer.do(wakes.keep, (wake_id, since, until))

    async def wake_delivered(self, wake_id: str, at: int) -> None:
        """The harness has acknowledged the wake."""
        await self._writer.do(wakes.delivered, (wake_id, at))

    async def wake_failed(self, wake_id: str, due_at: int | None, problem: str) -> None:
        """The wake did not get through: try again at `due_at`, or never (undelivered, visible) for None."""
        await self._writer.do(wakes.failed, (wake_id, due_at, problem))

    async def wakes(self, execution_id: str) -> list[Wake]:
        """Return the wakes that tell of an execution, oldest first: its own, and that of its group."""
        return await self._reader.read(wakes.of_execution, execution_id)

    async def replay_wake(self, wake_id: str, at: int) -> Wake:
        """Owe a wake anew from `at` on, whatever has become of it: delivered and given-up ones too.

        Returns it as it is now. Raises `NotFound`.
        """
        return await self._writer.do(wakes.replay, (wake_id, at))

    async def wake(self, wake_id: str) -> Wake:
        """Return one wake. Raises `NotFound`."""
        return await self._reader.read(wakes.one, wake_id)

    async def wakes_called(self, prefix: str) -> list[Wake]:
        """Return up to 20 wakes whose ids begin with `prefix`, which is in lower case."""
        return await self._reader.read(wakes.called, prefix)

    async def latest_wakes(
        self, before: int | None = None, limit: int = 500, state: WakeState | None = None
    ) -> list[tuple[int, Wake]]:
        """Return a page of wakes with their row numbers, the latest first, before row `before`."""
        return await self._reader.read(wakes.latest, before, limit, state)

    # Groups

    async def seal_group(self, provider: str, instance_id: str, group: str, at: int) -> list[Execution]:
        """Say that a group is complete: one wake tells of it once all of its calls are resolved. Repeats are no-ops.

        Returns its calls, the first saved first. Raises `NotFound` when no call was saved with this group.
        """
        return await self._writer.do(groups.seal, (provider, instance_id, group, at))

    async def group_executions(
        self, group_number: int, after: int = 0, limit: int = 20
    ) -> list[tuple[int, Execution, str]]:
        """Return a page of what a group's wake tells of, the first saved first, after row `after`.

        Each with its row number, and the id of its resolution.
        """
        return await self._reader.read(groups.told, group_number, after, limit)

    async def group_name(self, group_number: int) -> str:
        """Return the name of a wake's group."""
        return await self._reader.read(groups.name, group_number)

    async def open_groups(self, before: int | None = None, limit: int = 500) -> list[tuple[int, Group]]:
        """Return a page of the groups that are not sealed, with their numbers, the latest first, before `before`."""
        return await self._reader.read(groups.open_ones, before, limit)

    async def stuck_groups(self, limit: int = 1000) -> int:
        """Count, up to `limit`, the groups whose calls are all resolved and that wake nobody for want of a seal."""
        return await self._reader.read(groups.stuck, limit)

    # What harnesses are told

    async def resolutions(
        self, instances: Sequence[tuple[str, str]] | None, after: tuple[int, int] | None, limit: int = 100
    ) -> list[Told]:
        """Return a page of what was told of some instances, or of all for None, in the order of the commits.

        Args:
            instances: provider and id of each.
            after: a place, `Told.place`; None begins with the earliest that is kept. A place of an older epoch
                resumes with whatever that epoch has not left here.
            limit: the most there are in the page.
        """
        return await self._reader.read(resolutions.page, instances, after, limit)

    async def resolutions_end(self, instances: Sequence[tuple[str, str]] | None = None) -> tuple[int, int]:
        """Return the place of the last thing told of some instances, or of all for None: epoch and number."""
        return await self._reader.read(resolutions.end, instances)

    async def numbering_key(self) -> bytes:
        """Return the secret 32 bytes under which the numbers of calls and resolutions are shown to harnesses."""
        return await self._reader.read(resolutions.numbering_key)

    # Counting

    async def census(self) -> Census:
        """Count what is unfinished, and say since when the oldest of it is due."""
        return await self._reader.read(census.take)

    async def timings(self, after: int | None, limit: int = 500) -> list[Timing]:
        """Return what was told after number `after`, in order, with the times of the attempt; for None the last."""
        return await self._reader.read(census.timings, after, limit)

    async def prune(self, at: int, erase_finished_before: int, limit: int = 500) -> Pruned:
        """Take one bounded step of retention (DESIGN, "Retention"). Tombstones stay."""
        return await self._writer.do(retention.prune, (at, erase_finished_before, limit))
