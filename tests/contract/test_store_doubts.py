"""In doubt: whatever anybody does, an execution leaves it in three ways only, and for succeeded or failed only."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from support.desk import Desk, approved, new_id
from support.raw import open_raw
from support.tables import each_row
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR, SECOND
from wakegate_schema.records import (
    AdoptionLease,
    Challenge,
    Claimed,
    Closing,
    Execution,
    Lease,
    MissingTool,
    Outcome,
    RegisteredWorker,
    RequestIdentity,
)
from wakegate_schema.states import ARROWS, UNSTARTED, State
from wakegate_schema.store import NotAllowed, Store, StoreError

WAYS_OUT = {"finish", "settle", "settle_by_probe"}
"""The attempt's own late word, a person, and the tool's probe."""
ENDS = {to for start, to in ARROWS if start is State.IN_DOUBT}
VERBS = sorted(
    name for name, verb in inspect.getmembers(Store, inspect.iscoroutinefunction) if not name.startswith("_")
)
READERS = [
    name
    for name in VERBS
    if "self._reader" in (code := inspect.getsource(getattr(Store, name))) and "self._writer" not in code
]
"""Those that are given no connection which can write; each other one has a store to itself and may leave it anyhow."""


@dataclass(frozen=True)
class Doubts:
    """One execution in doubt whose worker fell silent, and one whose harness did."""

    desk: Desk
    worker: Execution
    harness: Execution
    token: str

    @property
    def both(self) -> tuple[Execution, Execution]:
        return self.worker, self.harness


async def two_doubts(store: Store) -> Doubts:
    desk = await Desk(store).open()
    worker = await desk.in_doubt()
    permitted, now = await desk.permitted(), clock.now()
    claimed = await store.claim(permitted.execution_id, "claim", now, now + 1, 0)
    assert isinstance(claimed, Claimed)
    await store.sweep(clock.now() + SECOND)
    harness = await store.execution(permitted.execution_id)
    assert {worker.state, harness.state} == {State.IN_DOUBT}
    return Doubts(desk, worker, harness, claimed.attempt_token)


def values_for(name: str, annotation: Any, doubts: Doubts) -> list[Any]:
    """What a verb is called with: everything by which it could mean one of the two, and times that let all run out."""
    now, desk = clock.now(), doubts.desk
    known: dict[str, list[Any]] = {
        "at": [now, now + 40 * DAY],
        "until": [now + HOUR],
        "due_at": [now],
        "erase_finished_before": [now + 40 * DAY],
        "margin": [0],
        "limit": [500],
        "after": [(1, 0)] if annotation == tuple[int, int] | None else [0],
        "instances": [[(desk.provider, desk.instance_id)]],
        "since": [-1],
        "timeout": [0.0],
        "execution_id": [execution.execution_id for execution in doubts.both],
        "key": [doubts.worker.idempotency_key],
        "request_id": [execution.request_id for execution in doubts.both],
        "claim_id": ["claim", "another"],
        "token": [None, doubts.token],
        "lease": [
            Lease(execution.execution_id, execution.lease_number + more) for execution in doubts.both for more in (0, 1)
        ],
        "adoption_lease": [AdoptionLease(1, 1)],
        "frameworks": [["langgraph"]],
        "outcome": [Outcome(kind, "tool_raised") for kind in ("succeeded", "failed", "in_doubt", "not_begun")],
        "closing": [Closing(state, "denied", now) for state in (State.DENIED, State.LAPSED, State.REFUSED)],
        "approval": [approved()],
        "request": [RequestIdentity(execution.request_id or "", now, now + HOUR) for execution in doubts.both],
        "arrival": [desk.arrival(execution.request_id or "") for execution in doubts.both],
        "challenge": [Challenge(desk.registration_id, desk.instance_id, now)],
        "instance": [desk.instance()],
        "registration": [desk.registration()],
        "suspension": [desk.suspension(idempotency_key=execution.idempotency_key) for execution in doubts.both],
        "provider": [desk.provider],
        "instance_id": [desk.instance_id],
        "registration_id": [desk.registration_id],
        "seen_credential": [b"sealed token"],
        "sealed": [b"another sealed token"],
        "but": [()],
        "wake_id": [f"{doubts.worker.execution_id}_7"],
        "worker": [RegisteredWorker("w", "here", "default", "0.2.0", 5, 60, now, now, {"issue_refund": "1"})],
        "missing": [[MissingTool("issue_refund", "1", 1)]],
    }
    if annotation is AdoptionLease:
        return known["adoption_lease"]
    if name in known:
        return known[name]
    plain: dict[Any, list[Any]] = {
        bool: [True, False], int: [now], str: [doubts.worker.execution_id], bytes: [b"sealed token"]
    }  # fmt: skip
    return plain.get(annotation, [None])


def calls_of(verb: Callable[..., Any], doubts: Doubts) -> Iterator[dict[str, Any]]:
    """Every combination of arguments for a verb of the store."""
    taken = inspect.signature(verb).parameters
    values = [values_for(name, parameter.annotation, doubts) for name, parameter in taken.items()]
    for combination in itertools.product(*values):
        yield dict(zip(taken, combination, strict=True))


@pytest.fixture
def states(database: str, store: Store) -> Iterator[Callable[[Doubts], set[State]]]:
    """Looks at the states past every verb."""

    def look(doubts: Doubts) -> set[State]:
        ids = ", ".join(f"'{execution.execution_id}'" for execution in doubts.both)
        found = raw.rows(f"SELECT state FROM execution WHERE execution_id IN ({ids})")
        return {State(state) for (state,) in found}

    with closing(open_raw(database)) as raw:
        yield look


@pytest.mark.parametrize("name", sorted(set(VERBS) - set(READERS)))
async def test_no_verb_moves_a_doubt_except_the_three_that_settle_it(
    store: Store, states: Callable[[Doubts], set[State]], name: str
) -> None:
    reached = await states_after(name, await two_doubts(store), states)
    assert reached <= (ENDS | {State.IN_DOUBT} if name in WAYS_OUT else {State.IN_DOUBT})
    assert (reached != {State.IN_DOUBT}) == (name in WAYS_OUT)


async def test_no_verb_that_only_reads_moves_a_doubt(store: Store, states: Callable[[Doubts], set[State]]) -> None:
    doubts = await two_doubts(store)
    for name in READERS:
        assert await states_after(name, doubts, states) == {State.IN_DOUBT}, name


async def states_after(name: str, doubts: Doubts, states: Callable[[Doubts], set[State]]) -> set[State]:
    """The states that the two are in after any of a verb's calls."""
    reached: set[State] = set()
    verb = getattr(doubts.desk.store, name)
    for arguments in calls_of(verb, doubts):
        with suppress(StoreError):  # to say no moves nothing
            await verb(**arguments)
        reached |= states(doubts)
    return reached


def test_the_only_ends_of_a_doubt_are_that_it_happened_and_that_it_did_not() -> None:
    assert set(ENDS) == {State.SUCCEEDED, State.FAILED}


@each_row("to", sorted(set(State) - ENDS - {State.IN_DOUBT}))
async def test_the_database_itself_lets_a_doubt_become_nothing_else(database: str, store: Store, to: State) -> None:
    doubtful = await (await Desk(store, name=f"desk-{to}".replace("_", "-")).open()).in_doubt()
    due = clock.now() if to in UNSTARTED - {State.PERMITTED} else None
    change = f"state = '{to}', due_at = {due or 'NULL'}, lease_until = 1"
    with closing(open_raw(database)) as raw:
        refusal = raw.refusal(f"UPDATE execution SET {change} WHERE execution_id = '{doubtful.execution_id}'")
    assert refusal.message == "there is no such change of state"


async def test_a_doubt_is_neither_due_nor_erased_nor_deleted(database: str, store: Store) -> None:
    doubtful = await (await Desk(store).open()).in_doubt()
    later = clock.now() + 4000 * DAY
    assert await store.lease_due("worker-1", 100, later, later + SECOND) == []
    await store.prune(later, later)
    found = await store.execution(doubtful.execution_id)
    assert (found.due_at, found.erased_at, found.arguments) == (None, None, doubtful.arguments)
    with closing(open_raw(database)) as raw:
        assert "never deleted" in raw.refusal("DELETE FROM execution").message


async def test_doubts_are_counted_from_when_the_first_came(store: Store) -> None:
    desk = await Desk(store).open()
    assert (await store.doubts()).count == 0
    first = await desk.in_doubt()
    await desk.in_doubt()
    doubts = await store.doubts()
    assert (doubts.count, doubts.since) == (2, first.changed_at)
    assert (await store.doubts(limit=1)).count == 1
    await store.settle(first.execution_id, happened=True, by="Ada", note="seen", at=clock.now())
    assert (await store.doubts()).count == 1


async def test_a_person_settles_also_what_belongs_to_a_retired_instance(store: Store) -> None:
    desk = await Desk(store).open()
    doubtful = await desk.in_doubt()
    await store.retire_instance(desk.provider, desk.instance_id, "operator:Ada", clock.now())
    assert (await store.execution(doubtful.execution_id)).state is State.IN_DOUBT
    settled = await store.settle(doubtful.execution_id, happened=False, by="Ada", note="not there", at=clock.now())
    assert (settled.state, settled.reason) == (State.FAILED, "resolved_did_not_happen")


async def test_after_a_sign_of_life_a_probes_no_is_not_taken_from_who_has_not_seen_it(store: Store) -> None:
    doubtful = await (await Desk(store).open()).in_doubt()
    lease = Lease(doubtful.execution_id, doubtful.attempt_number or 0)
    assert await store.runs_on(lease, clock.now() + SECOND)
    no = Outcome("failed", "probe_found_nothing")
    assert not await store.settle_by_probe(doubtful.execution_id, no, clock.now(), doubtful.lease_until)
    seen = await store.execution(doubtful.execution_id)
    assert seen.state is State.IN_DOUBT
    assert await store.settle_by_probe(doubtful.execution_id, no, clock.now(), seen.lease_until)


async def test_each_sign_of_life_is_another_although_the_clock_stands_still_or_went_back(store: Store) -> None:
    doubtful = await (await Desk(store).open()).in_doubt()
    lease, at = Lease(doubtful.execution_id, doubtful.attempt_number or 0), clock.now()
    seen = []
    for until in (at, at, at - DAY, at - DAY, at + DAY):
        assert await store.runs_on(lease, until)
        seen.append((await store.execution(doubtful.execution_id)).lease_until)
    assert len(set(seen)) == len(seen)


async def test_a_probes_yes_is_taken_although_the_call_goes_on(store: Store) -> None:
    doubtful = await (await Desk(store).open()).in_doubt()
    await store.runs_on(Lease(doubtful.execution_id, doubtful.attempt_number or 0), clock.now() + SECOND)
    yes = Outcome("succeeded", "probe_found_it")
    assert await store.settle_by_probe(doubtful.execution_id, yes, clock.now(), doubtful.lease_until)


@pytest.mark.parametrize("kind", ["settled", "another attempt", "another token"])
async def test_only_the_attempt_itself_gives_signs_of_life_and_only_in_doubt(store: Store, kind: str) -> None:
    doubtful = await (await Desk(store).open()).in_doubt()
    lease, token = Lease(doubtful.execution_id, doubtful.attempt_number or 0), None
    if kind == "settled":
        await store.settle(doubtful.execution_id, happened=True, by="Ada", note="seen", at=clock.now())
    elif kind == "another attempt":
        lease = Lease(doubtful.execution_id, lease.number + 1)
    else:
        token = new_id()
    assert not await store.runs_on(lease, clock.now() + SECOND, token)
    assert (await store.execution(doubtful.execution_id)).lease_until is None


async def test_a_doubt_of_an_older_epoch_is_not_released_and_wakes_nobody_again(store: Store) -> None:
    desk = await Desk(store).open()
    saved = await desk.save(wake="my-harness")
    leased = await desk.lease(saved.execution_id)
    now = clock.now()
    await store.begin_submission(leased.lease, "1", now)
    await store.attach(saved.execution_id, RequestIdentity(new_id(), now, now + HOUR), now)
    assert await store.start(leased.lease, approved(), clock.now(), clock.now() + 1) is not None
    await store.sweep(clock.now() + SECOND)
    wakes = await store.wakes(saved.execution_id)
    await store.raise_epoch("restored", "operator:Ada", clock.now())
    with pytest.raises(NotAllowed):
        await store.release_held(saved.execution_id, actor="operator:Ada", note="looked", at=clock.now())
    assert (await store.execution(saved.execution_id)).state is State.IN_DOUBT
    assert await store.wakes(saved.execution_id) == wakes
