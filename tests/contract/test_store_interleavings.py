"""Whatever order things happen in: no hint is lost, nothing starts twice, every transition is told once."""

from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.desk import Desk, new_id
from wakegate_schema.clock import HOUR, MINUTE, SECOND
from wakegate_schema.records import Approval, Closing, Execution, Lease, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.store import NotAllowed, Store

WORKERS = ("a", "b")
TOLD = frozenset({State.ABANDONED, State.REFUSED, State.IN_DOUBT})
"""The states reached here that a harness must hear of."""
START = 1_800_000_000 * SECOND

STEPS = st.one_of(
    st.tuples(st.just("record"), st.sampled_from([-HOUR, 0, MINUTE])),
    st.tuples(st.just("wait"), st.sampled_from([1, SECOND, MINUTE, 2 * HOUR])),
    *(
        st.tuples(st.just(name), st.sampled_from(WORKERS))
        for name in ("lease", "keep", "release", "begin", "start", "close")
    ),
    st.tuples(st.sampled_from(["attach", "abandon", "sweep"]), st.none()),
)


@dataclass
class Model:
    """What the store should hold of one worker-run execution, and a clock."""

    execution_id: str
    request_id: str
    now: int
    state: State = State.SAVED
    number: int = 0
    until: int = 0
    """Until when lease `number` is good; 0 for given back."""
    due_at: int = 0
    hinted: bool = False
    """Whether something came in that nobody has looked at since."""
    attached: bool = False
    early: bool = False
    """Whether a notification came before the request id."""
    held: dict[str, int] = field(default_factory=dict)
    states: list[State] = field(default_factory=lambda: [State.SAVED])

    def holds(self, worker: str) -> bool:
        """Whether the worker's lease is good now."""
        return self.held.get(worker) == self.number and self.now < self.until and self.undecided

    @property
    def undecided(self) -> bool:
        """Whether a worker still has something to do here."""
        return self.state in (State.SAVED, State.SUBMITTING, State.WAITING)

    def lease(self, worker: str) -> Lease:
        """The worker's lease, good or not."""
        return Lease(self.execution_id, self.held.get(worker, 0))

    def move(self, *states: State) -> None:
        """Change the state."""
        self.state = states[-1]
        self.states += states


async def take(model: Model, store: Store, desk: Desk, step: tuple[str, object]) -> None:
    """Take one step in the store and in the model, and compare what the verb says."""
    name, detail = step
    now, worker = model.now, str(detail)
    match name:
        case "wait":
            model.now += detail if isinstance(detail, int) else 0
        case "record":
            skew = detail if isinstance(detail, int) else 0
            await store.record(desk.arrival(model.request_id, received_at=now + skew, created_at=now))
            if model.state is State.WAITING:
                model.hinted = True  # a receiver's clock that is ahead puts nothing off: it is due since the decision
                model.due_at = model.due_at if model.until else min(model.due_at, now + skew, now)
            model.early = model.early or not model.attached
        case "lease":
            due = model.undecided and model.until <= now and (model.due_at <= now or model.hinted)
            found = await store.lease_due(worker, 100, now, now + MINUTE)
            assert [e.execution_id for e in found] == ([model.execution_id] if due else [])
            if due:
                model.number, model.until, model.due_at = model.number + 1, now + MINUTE, now + MINUTE
                model.held[worker], model.hinted = model.number, False
        case "keep":
            assert await store.keep_lease(model.lease(worker), now, now + MINUTE) == model.holds(worker)
            if model.holds(worker):
                model.until = model.due_at = now + MINUTE
        case "release":
            assert await store.release(model.lease(worker), now + HOUR, None, now) == model.holds(worker)
            if model.holds(worker):
                model.until, model.due_at = 0, now + HOUR
        case "begin":
            may = model.holds(worker) and model.state in (State.SAVED, State.SUBMITTING)
            assert await store.begin_submission(model.lease(worker), None, now) == may
            if may and model.state is State.SAVED:
                model.move(State.SUBMITTING)
        case "attach" if model.state is not State.SAVED:
            await store.attach(model.execution_id, RequestIdentity(model.request_id, START, START + HOUR), now)
            if model.state is State.SUBMITTING:
                model.move(State.WAITING)
                model.hinted = model.hinted or model.early
            model.attached = True
        case "start":
            may = model.holds(worker) and model.state is State.WAITING
            approval = Approval(now - 1, now + HOUR, None)
            started = await store.start(model.lease(worker), approval, now, now + MINUTE)
            assert (started is not None) == may
            if may:
                model.move(State.PERMITTED, State.STARTED)
                model.until = now + MINUTE
        case "close":
            may = model.holds(worker)
            assert await store.close_unstarted(model.lease(worker), Closing(State.REFUSED, "x"), now) == may
            if may:
                model.move(State.REFUSED)
        case "abandon":
            await abandon(model, store, now)
        case "sweep":
            swept = await store.sweep(now)
            lost = model.state is State.STARTED and model.until <= now
            assert (model.execution_id in swept.in_doubt) == lost
            if lost:
                model.move(State.IN_DOUBT)


async def abandon(model: Model, store: Store, now: int) -> None:
    """Give up the execution, unless it has begun."""
    try:
        found = await store.abandon(model.execution_id, "x", "harness", now)
    except NotAllowed:
        assert model.state in (State.STARTED, State.IN_DOUBT)
        return
    if model.undecided:
        assert (found.cancel_due_at is not None) == (model.state is not State.SAVED)
        model.move(State.ABANDONED)


def compare(model: Model, found: Execution, step: tuple[str, object]) -> None:
    """The state is the model's, and what came in is looked at as soon as the lease, if there is one, ends."""
    assert found.state is model.state
    assert (found.due_at is not None) == model.undecided
    if model.hinted and model.undecided:
        assert (found.due_at or 0) <= max(model.now, model.until), f"the hint is lost after {step}"
    elif model.undecided and model.until <= model.now:
        assert found.due_at == model.due_at


@pytest.mark.file  # PostgreSQL: test_postgresql_interleavings.py
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=1, max_size=25))
async def test_the_store_and_a_small_model_agree_on_every_interleaving(
    desk: Desk, store: Store, steps: list[tuple[str, object]]
) -> None:
    await agree(desk, store, steps)


async def agree(desk: Desk, store: Store, steps: list[tuple[str, object]]) -> None:
    """Take the steps with the store and with the model."""
    saved = await desk.save(at=START, wake="my-harness")
    model = Model(saved.execution_id, new_id(), START, due_at=START)
    try:
        # The first steps of every life; the rest is left to chance.
        for step in [("lease", "a"), ("begin", "a"), *steps]:
            await take(model, store, desk, step)
            compare(model, await store.execution(model.execution_id), step)
        transitions = await store.transitions(model.execution_id)
        assert [t.to_state for t in transitions] == model.states
        assert [w.to_state for w in await store.wakes(model.execution_id)] == [s for s in model.states if s in TOLD]
        if not model.undecided and model.attached:
            assert not await store.notified(desk.provider, desk.instance_id, model.request_id)
    finally:
        with suppress(NotAllowed):  # the next example must not find it due
            await store.abandon(model.execution_id, "end", "test", model.now)
