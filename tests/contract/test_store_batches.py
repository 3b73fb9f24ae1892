"""A batch gives the same answers and leaves the same rows as its items one by one, whatever is in it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.desk import Desk, approved
from wakegate_schema import clock
from wakegate_schema.clock import HOUR, MINUTE, SECOND
from wakegate_schema.records import Approval, Claimed, Closing, Execution, Lease, Outcome, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.verbs import attempts, clocks, leases, wakes

Batch = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
OUTCOMES = (
    Outcome("succeeded", "returned", result=b"\x00\xff"),
    Outcome("failed", "tool_failed", error="card\0declined"),
    Outcome("in_doubt", "tool_raised"),
    Outcome("not_begun", "lapsed"),
)


class Undone(Exception):
    """Takes a transaction back."""


@dataclass(frozen=True, slots=True)
class Some:
    """An item in the making: about which call, and what is odd about it."""

    which: int
    apt: bool
    """Whether it is about a call in a state in which the verb may do something, under the lease that there is."""
    step: int
    """Added to the lease's number, unless it is apt."""
    late: bool
    """Whether it comes after the lease, and the approval, have ended."""
    odd: int


SOME = st.builds(
    Some,
    st.integers(0, 11),
    st.sampled_from([True, True, True, True, True, False]),
    st.sampled_from([0, 0, 1, -1]),
    st.sampled_from([False, False, False, True]),
    st.integers(0, 3),
)


@dataclass(frozen=True, slots=True)
class Stage:
    """Calls in every state, each with its token if it has one, and the wakes that are owed."""

    calls: list[tuple[Execution, str | None]]
    wakes: list[tuple[str, int]]
    """The id of each, and when it is due."""
    approval: Approval

    def item(self, verb: Batch, some: Some) -> Any:
        """What a verb takes."""
        chosen = [each for each in self.calls if not some.apt or is_apt(verb, each[0])]
        call, token = chosen[some.which % len(chosen)]
        number = call.lease_number + (0 if some.apt else some.step)
        lease, at = Lease(call.execution_id, number), clock.now() + HOUR * some.late
        until, odd = at + MINUTE, some.odd
        wake_id, due_at = [*self.wakes, ("none", 1)][some.which % (1 + len(self.wakes))]
        items: dict[Batch, Any] = {
            leases.keep: (lease, at, until),
            leases.release: (lease, until, "x" if odd else None, at, odd == 1, self.approval if odd == 2 else None),
            leases.begin_submission: (lease, "2" if odd else None, at),
            leases.attach: (call.execution_id, RequestIdentity(call.request_id or f"r-{odd}", 1 + odd, 9), at),
            leases.close: (
                lease,
                Closing(State.DENIED if odd == 3 else State.REFUSED, "x", note="\0", cancel=odd == 1),
                at,
            ),
            attempts.permit: (lease, self.approval, at, odd),
            attempts.start: (lease, self.approval, at, until),
            attempts.renew: (lease, at, until, "wrong" if odd == 1 else token),
            attempts.runs_on: (lease, until, "wrong" if odd == 1 else token),
            attempts.finish: (lease, OUTCOMES[odd], at, token, "harness:x" if some.late else None),
            wakes.keep: (wake_id, due_at + odd // 2, until),
            wakes.delivered: (wake_id, at + odd),
            wakes.failed: (wake_id, until if odd else None, f"problem_{odd}"),
            clocks.mark: (f"host-{some.which % 2}", at + odd),
        }
        return items[verb]


VERBS: tuple[Batch, ...] = (
    leases.keep, leases.release, leases.begin_submission, leases.attach, leases.close, attempts.permit, attempts.start,
    attempts.renew, attempts.runs_on, attempts.finish, wakes.keep, wakes.delivered, wakes.failed, clocks.mark,
)  # fmt: skip


def is_apt(verb: Batch, call: Execution) -> bool:
    """Whether a verb may change this call."""
    if verb in (leases.keep, leases.release, leases.close):
        return call.due_at is not None and call.lease_until is not None
    if verb is leases.begin_submission:
        return call.state in (State.SAVED, State.SUBMITTING)
    if verb is leases.attach:
        return call.state in (State.SUBMITTING, State.WAITING)
    if verb in (attempts.permit, attempts.start):
        runs = "harness" if verb is attempts.permit else "worker"
        return call.state is State.WAITING and call.lease_until is not None and call.runs == runs
    return call.attempt_number is not None


async def furnished(desk: Desk, store: Store) -> Stage:
    """Put calls in every state on the desk: one of an older epoch, one erased, two of a sealed group, one notified."""
    erased = await desk.started()
    await store.finish(erased.lease, OUTCOMES[0], clock.now())
    await store.prune(clock.now() + SECOND, clock.now() + SECOND)
    told = await desk.waiting(wake="mine")
    await store.close_unstarted(told.lease, Closing(State.DENIED, "denied"), clock.now())
    saved, early = await desk.save(), await desk.submitting()
    await store.record(desk.arrival("r-0"))
    grouped = [await desk.waiting(wake="mine", group="turn") for _ in range(2)]
    await store.seal_group(desk.provider, desk.instance_id, "turn", clock.now())
    running, permitted = await desk.waiting(), await desk.permitted()
    free = [
        saved,
        early,
        *grouped,
        await desk.waiting(wake="mine"),
        await desk.waiting(runs="harness"),
        running,
        permitted,
    ]
    older, doubtful = await desk.waiting(), await desk.in_doubt()
    await store.raise_epoch("restored", "operator:x", clock.now())
    for each in free:
        await store.release_held(each.execution_id, actor="operator:x", note=None, at=clock.now())
    now = clock.now()
    leased = {each.execution_id: each.lease for each in await store.lease_due("w", 100, now, now + MINUTE)}
    await store.start(leased[running.execution_id], approved(), now, now + MINUTE)
    claim = await store.claim(permitted.execution_id, "c", now, now + MINUTE, 0)
    found = [*free, await desk.submitting(), older, doubtful, erased, told]
    calls = [await store.execution(each.execution_id) for each in found]
    tokens = {permitted.execution_id: claim.attempt_token if isinstance(claim, Claimed) else None}
    owed = [(wake.wake_id, wake.due_at or 0) for _, wake in await store.latest_wakes()]
    return Stage([(call, tokens.get(call.execution_id)) for call in calls], owed, approved())


def rows(tx: Transaction, stage: Stage) -> dict[str, Any]:
    """All that the verbs write, but for the numbers that rows of different calls get, and who ends a group last."""
    page = {"after": 0, "limit": 1000}
    told = [plain(row, "number") for row in tx.all("resolutions", page)]
    owed = [plain(row, "place", "rowid") for row in tx.all("wakes_latest", {"before": 2**62, "limit": 1000})]
    found: dict[str, Any] = {
        "marks": sorted(plain(row)["host"] + str(row["highest_at"]) for row in tx.all("clock_marks")),
        "wakes": {wake["wake_id"]: wake for wake in owed if wake["group_number"] is None},
        "groups": {wake["group_number"] for wake in owed},
        "notifications": [plain(row) for row in tx.all("notifications", page)],
        "anomalies": sorted((plain(row, "anomaly_id") for row in tx.all("anomalies")), key=repr),
    }
    for call, _ in stage.calls:
        key = {"execution_id": call.execution_id}
        changes = [plain(row) for row in tx.all("transitions", key)]
        heard = [line for line in told if line["execution_id"] == call.execution_id]
        found[call.execution_id] = [plain(tx.all("execution", key)[0]), changes, heard]
    return found


def plain(row: Any, *but: str) -> dict[str, Any]:
    """A row by its columns, without some of them."""
    return {name: row[name] for name in row.keys() if name not in but}  # noqa: SIM118 (SQLite's are no mappings)


def said(store: Store, tx: Transaction, verb: Batch, items: Sequence[Any]) -> list[Any]:
    """What a verb answers to a batch, as group commit has it run: a failure leaves no trace and is told by its kind."""
    engine = store._writer._engine
    with engine.savepoint(tx) as savepoint:
        try:
            return list(verb(tx, items))
        except Exception as error:  # noqa: BLE001 (so does group commit)
            savepoint.undo()
            return [type(engine.translate(error)).__name__] * len(items)


def both(store: Store, stage: Stage, verb: Batch, items: Sequence[Any]) -> list[tuple[list[Any], dict[str, Any]]]:
    """What is answered and left by a batch, and by its items one by one; both are taken back."""
    found = []
    for parts in ([items], [[item] for item in items]):
        with suppress(Undone), store._writer._engine.transaction() as tx:
            answers = [answer for part in parts for answer in said(store, tx, verb, part)]
            found.append((answers, rows(tx, stage)))
            raise Undone
    return found


async def compare(desk: Desk, store: Store, examples: int) -> None:
    """Compare batches of every verb. One that fails as a whole, group commit takes one by one."""
    stage = await furnished(desk, store)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(verb=st.sampled_from(VERBS), mix=st.lists(SOME, min_size=2, max_size=9))
    def agree(verb: Batch, mix: list[Some]) -> None:
        batch, singly = both(store, stage, verb, [stage.item(verb, some) for some in mix])
        if isinstance(batch[0][0], str):
            assert any(isinstance(answer, str) for answer in singly[0])
        else:
            assert batch == singly

    agree()


async def test_a_batch_does_what_its_items_do(desk: Desk, store: Store, database: str) -> None:
    await compare(desk, store, 60 if database.startswith("postgresql:") else 300)
