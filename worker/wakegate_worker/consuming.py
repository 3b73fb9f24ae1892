"""Consuming: an approval is spent at its provider before the call starts here (DESIGN, the start, step 5)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from wakegate_schema import timestamps
from wakegate_schema.downstream import consumption_key
from wakegate_schema.records import Approval, Closing, Execution
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_worker import boundary
from wakegate_worker.boundary import Close, Permit, Refusal, check
from wakegate_worker.decisions import ConsumeRefusal, DecisionSource, Reading
from wakegate_worker.exchanges import Exchanges
from wakegate_worker.reading_once import ReadingOnce
from wakegate_worker.stopping import Stop

Consumption = Literal["auto", "always", "never"]
"""Whether approvals are consumed: where the provider knows how to, always, or never."""

CONSUMPTION_UNSUPPORTED: Final = "consumption_unsupported"
"""The problem of an approval that is to be consumed at a provider that has no such operation (any more)."""
CONSUMPTION_DISAGREES: Final = "consumption_disagrees"
"""The problem of a request that reads as approved, and of which the consumption says otherwise."""
ASKED_AGAIN_S: Final = 600.0
"""How long a provider that does not know consumption is taken at its word, in seconds."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """The call may start under this approval; the reading is the last word of its provider."""

    approval: Approval
    reading: Reading


@dataclass(frozen=True, slots=True)
class NotNow:
    """The approval could not be consumed yet, or is not known to be."""

    problem: str
    hint: str


class Consuming:
    """Consumes approvals, each under a key that is the same after any crash."""

    def __init__(
        self,
        store: Store,
        mode: Consumption,
        exchanges: Exchanges,
        *,
        now: Callable[[], int],
        stop: Stop,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the store, the setting, what bounds exchanges, the wall clock in µs, the stop and a clock in seconds."""
        self._store = store
        self._mode = mode
        self._exchanges = exchanges
        self._now = now
        self._stop = stop
        self._monotonic = monotonic
        self._knows: set[str] = set()
        """Providers that have shown that they know consumption: for good."""
        self._known: ReadingOnce[str, bool] = ReadingOnce(store.consumes)
        self._unsupported: dict[str, float] = {}
        """When a provider last said that it does not."""

    async def consume(
        self, execution: Execution, approval: Approval, source: DecisionSource, reading: Reading
    ) -> Cleared | NotNow | Closing:
        """Spend the approval of a request that was just read as approved, where that is to be done.

        Raises:
            DecisionError: no answer; it may be spent under our key. The same is to be asked again.
            Interrupted: a stop broke it off; as above.
        """
        is_consumed = reading.request.consumption is not None
        if self._mode == "never":
            return _not_ours() if is_consumed else Cleared(approval, reading)
        if is_consumed:
            await self._note(execution.provider)
        elif not await self._is_to_be_asked(execution.provider):
            return Cleared(approval, reading)
        answer = await self._ask(execution, source)
        if isinstance(answer, Reading):
            return self._judge(execution, approval, answer)
        if answer is ConsumeRefusal.UNSUPPORTED and self._mode == "auto":
            self._unsupported[execution.provider] = self._monotonic()
            if not await self._is_known(execution.provider):  # nor has another worker seen it do it meanwhile
                return Cleared(approval, reading)
        return _refused(approval, answer)

    async def lapsed(self, execution: Execution, closing: Closing, source: DecisionSource, reading: Reading) -> Closing:
        """Return the end of a call whose approval has lapsed, with the consumption if it was this call's.

        It may have been consumed from here, and the answer lost. Raises as `consume`.
        """
        if closing.consumed_at is not None or reading.request.consumption is None or self._mode == "never":
            return closing
        answer = await self._ask(execution, source)
        if not isinstance(answer, Reading) or answer.request.consumption is None:
            return closing
        if answer.request.id != execution.request_id:
            return closing
        return replace(closing, consumed_at=timestamps.parse(answer.request.consumption.consumed_at))

    async def _ask(self, execution: Execution, source: DecisionSource) -> Reading | ConsumeRefusal:
        key = consumption_key(execution.execution_id, execution.epoch)
        with self._exchanges.under_way(execution.provider), self._stop.interruptible():
            answer = await source.consume(execution, key)
        if _shows_consumption(execution, answer):
            await self._note(execution.provider)
        return answer

    def _judge(self, execution: Execution, approval: Approval, reading: Reading) -> Cleared | NotNow | Closing:
        """Look at the consumed request as at every other word of the provider: all of it again."""
        consumption = reading.request.consumption
        if consumption is None:
            return _disagrees()
        if reading.request.id != execution.request_id:
            return Closing(State.REFUSED, Refusal.REQUEST_ID_DIFFERS)
        consumed_at = timestamps.parse(consumption.consumed_at)
        verdict = check(execution, reading.request, self._now())
        if isinstance(verdict, Close):
            return replace(verdict.closing, consumed_at=consumed_at)
        if not isinstance(verdict, Permit):
            return _disagrees()
        found = verdict.approval
        if (found.decided_at, found.expires_at) != (approval.decided_at, approval.expires_at):
            return Closing(State.REFUSED, Refusal.DECISION_DIFFERS, consumed_at=consumed_at)
        return Cleared(replace(found, consumed_at=consumed_at), reading)

    async def _is_to_be_asked(self, provider: str) -> bool:
        """Whether nothing starts without consumption; else whether it is time to find out."""
        if self._mode == "always" or await self._is_known(provider):
            return True
        said = self._unsupported.get(provider)
        return said is None or self._monotonic() >= said + ASKED_AGAIN_S

    async def _is_known(self, provider: str) -> bool:
        """Whether any worker has seen it consume, until now."""
        if provider not in self._knows and await self._known.read(provider):
            self._knows.add(provider)
        return provider in self._knows

    async def _note(self, provider: str) -> None:
        """Keep for good that it knows consumption, before anything starts: no 404 opens a way around from now on."""
        if provider not in self._knows:
            await self._store.note_consuming(provider, self._now())
            self._knows.add(provider)


def _refused(approval: Approval, refusal: ConsumeRefusal) -> NotNow | Closing:
    match refusal:
        case ConsumeRefusal.ALREADY_CONSUMED:
            return _not_ours()
        case ConsumeRefusal.APPROVAL_EXPIRED:
            return boundary.lapsed(approval)
        case ConsumeRefusal.NOT_APPROVED:
            return _disagrees()
        case ConsumeRefusal.UNSUPPORTED:
            return NotNow(
                CONSUMPTION_UNSUPPORTED,
                "the provider takes no consumption, which it has shown to know or which WAKEGATE_CONSUMPTION=always"
                " asks for; ask whoever runs it",
            )


def _shows_consumption(execution: Execution, answer: Reading | ConsumeRefusal) -> bool:
    """Whether only a provider that knows consumption answers like this."""
    if isinstance(answer, ConsumeRefusal):
        return answer is not ConsumeRefusal.UNSUPPORTED
    return answer.request.id == execution.request_id and answer.request.consumption is not None


def _not_ours() -> Closing:
    return Closing(State.REFUSED, Refusal.ALREADY_CONSUMED)


def _disagrees() -> NotNow:
    return NotNow(
        CONSUMPTION_DISAGREES,
        "the request reads as approved, and its consumption says otherwise; ask whoever runs the provider",
    )
