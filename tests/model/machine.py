"""The machine: everything that can happen, in any order, checked against the reference after every step."""

import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Any, ClassVar, TypeVar

import structlog
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from model import notices, saving, settling
from model.acts import Act, Chosen, act, acts_of, choices
from model.approver import Request
from model.changes import unjust
from model.focus import EVERYTHING, Focus
from model.jobs import Fate, Job
from model.parties import PROVIDERS
from model.reference import Disagreement, Step
from model.shelf import Shelf
from model.standing import UNRESOLVED, broken, unsettled
from model.world import World

from wakegate_schema.clock import HOUR, MINUTE, SECOND

_T = TypeVar("_T")
INSTANCE = "00000000-0000-4000-8000-00000000000a"
"""An instance id that both providers give."""
KEYS = st.sampled_from([f"key-{number}" for number in range(1, 6)])
WORKERS = st.sampled_from(["a", "b"])
FATES = st.sampled_from([Fate.GO, Fate.GO, Fate.GO, Fate.LOST, Fate.REFUSED])
HARD_FATES = st.sampled_from([*[Fate.GO] * 9, Fate.LOST, Fate.BLIND, Fate.REFUSED])
STATUSES = st.sampled_from(["approved"] * 6 + ["denied", "cancelled"])
LUCK = st.sampled_from([False, False, True])
"""Whether what would end everything else happens."""


class Machine(RuleBasedStateMachine):
    """One history of everybody on one store."""

    shelf: ClassVar[Shelf]
    """Where the empty store comes from that every history begins with."""
    acts: ClassVar[list[Act]]
    """What can happen."""
    focuses: ClassVar[tuple[Focus, ...]] = (EVERYTHING,)
    """What a history may be about."""
    focus = EVERYTHING

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        url, keys = self._stack.enter_context(self.shelf.store())
        self._logged = self._stack.enter_context(structlog.testing.capture_logs())
        self._loop = asyncio.new_event_loop()
        self.world = World(url, keys)
        self.reference = self.world.reference
        self.run(self.world.open())

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do something in this history's event loop."""
        return self._loop.run_until_complete(work)

    def teardown(self) -> None:
        """Let everything come to rest, compare what came of it, and end."""
        try:
            if not self._failed:
                self.run(settling.settle(self.world, self.check))
                self.complain([*unsettled(self.reference, self.world.observer.look())])
        finally:
            self._end()

    def _end(self) -> None:
        self.run(self.world.close())
        self.run(self._loop.shutdown_default_executor())
        self._loop.close()
        self._stack.close()

    _failed = False

    def complain(self, complaints: list[str]) -> None:
        """Raise what is wrong."""
        unforeseen = [entry for entry in self._logged if entry.get("event") in ("unforeseen error", "a batch failed")]
        complaints += [f"logged: {entry}" for entry in unforeseen]
        self._logged.clear()
        if complaints:
            self._failed = True
            raise Disagreement("\n".join(complaints))

    @invariant()
    def agrees(self) -> None:
        """What the store holds is what may be."""
        self.check()

    def check(self) -> None:
        """Compare the store with the reference, as one step has left it, and begin the next."""
        now = self.world.observer.look()
        complaints = [*unjust(self.reference, now, self.world.step), *broken(self.reference, now)]
        self.reference.seen = now
        self.world.step = Step(self.world.at)
        self.complain(complaints)

    # What may be chosen

    @property
    def open_jobs(self) -> list[Job]:
        """What somebody is about to do."""
        return [job for job in self.world.jobs if not job.done and not job.dead]

    @property
    def pending(self) -> list[tuple[str, Request]]:
        """What may be decided."""
        return [(url, found) for url, approver in self.world.approvers.items() for found in approver.pending()]

    @property
    def deliverable(self) -> list[notices.Notice]:
        """What may be delivered; once it has arrived, only where histories are about more than its arrival."""
        return notices.deliverable(self.world, again=len(self.focus.hows) > 1)

    # What happens

    @initialize(data=st.data(), focus=st.runner().flatmap(lambda machine: st.sampled_from(machine.focuses)))
    def provision(self, data: st.DataObject, focus: Focus) -> None:
        """Both providers give the same instance id; a few calls are there already, some of them approved."""
        self.focus = focus
        for provider in PROVIDERS:
            if not self.run(self.world.open_instance(provider, INSTANCE)):
                raise Disagreement("a verification was not answered")
        for number in range(data.draw(st.sampled_from(focus.calls), label="calls")):
            call = data.draw(saving.calls(focus), label=f"call {number}")
            instance = (PROVIDERS[number % 2], INSTANCE)
            self.complain(self.run(saving.save(self.world, instance, f"key-{number // 2 + 1}", Fate.GO, **call)))
        if focus.stage != "saved":
            self.run(settling.work(self.world, "a", self.check))
        for provider, request in self.pending:
            if data.draw(st.sampled_from(focus.approved), label="approved"):
                valid = data.draw(st.sampled_from(focus.valid), label="valid")
                self.world.approvers[provider].decide(request, "approved", valid)
        if focus.stage in ("due", "permitted"):
            self.world.pass_time(61 * SECOND)
        if focus.stage == "permitted":
            self.run(settling.work(self.world, "a", self.check))

    @rule(this=choices())
    def happens(self, this: Chosen) -> None:
        """Something happens that can happen now."""
        getattr(self, this.name)(**this.chosen)

    @act(3, provider=st.sampled_from(PROVIDERS), key=KEYS, call=st.runner().flatmap(saving.drawn), fate=FATES)
    def save(self, provider: str, key: str, call: dict[str, Any], fate: Fate) -> None:
        """A harness saves a call, or repeats an old key."""
        self.complain(self.run(saving.save(self.world, (provider, INSTANCE), key, fate, **call)))

    @act(12, worker=WORKERS, limit=lambda machine: machine.world.due("due_at") and [1, 2, 3])
    def lease(self, worker: str, limit: int) -> None:
        """A worker leases what is due, and is about to work on it."""
        self.complain(self.run(self.world.lease(worker, limit)))

    @act(24, job=lambda machine: machine.open_jobs, fate=HARD_FATES, words=lambda machine: machine.focus.words)
    def go(self, job: Job, fate: Fate, words: int) -> None:
        """Somebody says the word that it was stopped before, and perhaps more."""
        self.run(self.world.go(job, fate))
        for _ in range(words - 1):
            if not job.done:
                self.check()
                self.run(self.world.go(job))

    @act(4, job=lambda machine: machine.open_jobs, time=lambda machine: machine.focus.times)
    def oversleep(self, job: Job, time: int) -> None:
        """Somebody is held up right before a word, and then goes on as if nothing were."""
        self.world.pass_time(time)
        self.run(self.world.finish(job, self.check))

    @act(2, time=lambda machine: [*machine.focus.times, *machine.world.until_due() * 3])
    def wait(self, time: int) -> None:
        """Time passes."""
        self.world.pass_time(time)

    @act(1, time=lambda machine: machine.focus.long_times, worker=WORKERS, luck=LUCK)
    def wait_long(self, time: int, worker: str, luck: bool) -> None:
        """Much time passes, and retention follows."""
        if luck:
            self.world.pass_time(time)
            self.run(self.world.prune(worker))

    @act(
        16, found=lambda machine: machine.pending, status=STATUSES, valid=lambda machine: machine.focus.valid
    )  # fmt: skip
    def decide(self, found: tuple[str, Request], status: Any, valid: int) -> None:
        """Somebody decides at a provider."""
        self.world.approvers[found[0]].decide(found[1], status, valid)

    @act(6, notice=lambda machine: machine.deliverable, how=lambda machine: machine.focus.hows, fate=FATES)
    def deliver(self, notice: notices.Notice, how: str, fate: Fate) -> None:
        """A provider delivers an event: rightly, again, twice at once, or as nobody should."""
        self.complain(self.run(notices.deliver(self.world, notice, how, fate)))

    @act(1, execution_id=lambda machine: machine.world.in_state(*UNRESOLVED), fate=FATES)
    def abandon(self, execution_id: str, fate: Fate) -> None:
        """A harness gives a call up, at whatever moment."""
        self.run(self.world.abandon(execution_id, fate))

    @act(8, both=lambda machine: machine.world.swept() and [False, True])
    def sweep(self, both: bool) -> None:
        """One worker sweeps, or two at once."""
        self.run(self.world.sweep(both=both))

    @act(10, who=lambda machine: machine.world.claimable())
    def claim(self, who: tuple[str, str]) -> None:
        """A harness is about to claim a call, perhaps again."""
        self.run(self.world.begin_claim(*who))

    @act(3, worker=lambda machine: machine.world.due("cancel_due_at") and ["a", "b"])
    def cancel(self, worker: str) -> None:
        """A worker takes the cancels and the reports that are owed, and is about to say them."""
        self.run(self.world.cancels(worker))

    @act(3, worker=lambda machine: machine.world.in_state("in_doubt") and ["a", "b"])
    def probe(self, worker: str) -> None:
        """A worker asks the tools what became of what is in doubt."""
        self.run(self.world.probe(worker))

    @act(1, execution_id=lambda machine: machine.world.in_state("in_doubt"), happened=st.booleans())
    def resolve(self, execution_id: str, happened: bool) -> None:
        """A person says what became of a call."""
        self.run(self.world.resolve(execution_id, happened=happened))

    @act(1, worker=lambda machine: machine.world.owed() and ["a", "b"], deaf=st.booleans())
    def wake(self, worker: str, deaf: bool) -> None:
        """A worker tells the harnesses, which may not hear."""
        self.world.listener.deaf = deaf
        self.run(self.world.workers[worker].wake())

    @act(1, worker=lambda machine: machine.open_jobs and ["a", "b"])
    def restart(self, worker: str) -> None:
        """A worker dies, and another begins."""
        self.world.restart(worker)

    @act(1, provider=lambda machine: machine.open_jobs and PROVIDERS, refused=st.booleans())
    def set_credential(self, provider: str, refused: bool) -> None:
        """A provider refuses the credential, or there is a new one."""
        self.run(self.world.set_credential((provider, INSTANCE), refused=refused))

    @act(1, provider=lambda machine: machine.pending and PROVIDERS, overlap=st.sampled_from([MINUTE, HOUR]))
    def rotate(self, provider: str, overlap: int) -> None:
        """An instance gets another registration; the one before is taken a while longer."""
        self.run(self.world.rotate((provider, INSTANCE), overlap))

    @act(1, luck=lambda machine: machine.reference.calls and [False, False, True])
    def raise_epoch(self, luck: bool) -> None:
        """The store may have gone back in time."""
        if luck:
            self.run(self.world.raise_epoch())

    @act(3, execution_id=lambda machine: machine.world.held())
    def release(self, execution_id: str) -> None:
        """A person says that a call of an older epoch may run."""
        self.run(self.world.release(execution_id))

    @act(1, provider=lambda machine: machine.open_jobs and PROVIDERS, deleted=st.booleans(), luck=LUCK)
    def retire(self, provider: str, deleted: bool, luck: bool) -> None:
        """An instance is retired, and perhaps deleted at its provider."""
        if luck:
            self.run(self.world.retire((provider, INSTANCE), deleted=deleted))


Machine.acts = acts_of(Machine)
