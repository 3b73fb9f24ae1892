"""The hold: synchronous mode, in which the harness waits for the decision and runs the call itself."""

import asyncio
import json
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from wakegate_adapter.attempt import Attempt
from wakegate_adapter.claim import Claim
from wakegate_adapter.errors import HeldElsewhere
from wakegate_adapter.grants import Grants
from wakegate_adapter.log import log
from wakegate_adapter.watch import Watch
from wakegate_schema import ids
from wakegate_schema.calls import Call, Calls, Standing, Taken
from wakegate_schema.calls.outcomes import DIFFERS
from wakegate_schema.calls.persistence import ended, patiently, to_the_end, until_lost
from wakegate_schema.calls.refusal import refusal_of
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import HOLD_LOST, UNDECIDED, WAIT_LIMIT, State
from wakegate_schema.store import NotAllowed, StoreUnavailable
from wakegate_schema.wake_targets import NONE

INTERRUPTED: Final = "hold_interrupted"
NOT_STARTED: Final = "not_started"


@dataclass(frozen=True, slots=True)
class Means:
    """What an adapter holds calls with."""

    calls: Calls
    watch: Watch
    grants: Grants
    seconds: float
    """How long a hold lasts without being renewed."""
    patience: float
    """Seconds for which a verb is tried again while nobody answers."""


class Hold:
    """One held call, from its saving to its end: an async context manager that gives an `Attempt`.

    Entering saves the call and waits for its decision; the attempt is permitted, or says why not. Leaving records how
    it ended, as a claim does. Use it once.
    """

    def __init__(self, means: Means, call: Call, wait_limit: float) -> None:
        """Take what `Adapter.holding` was given; `wait_limit` in seconds."""
        self._means = means
        self._calls = means.calls
        self._call = call
        self._wait_limit = wait_limit
        self._hold_id = ids.new()
        self._standing: Standing | None = None
        self.claim: Claim | None = None
        """The claim, while the call may run."""

    async def __aenter__(self) -> Attempt:
        """Save, wait and claim.

        Raises:
            HeldElsewhere: the key's call is unresolved and not held by this hold.
        """
        until = asyncio.get_running_loop().time() + self._wait_limit
        standing = await self._saved()
        if standing.resolved or standing.state is State.IN_DOUBT:
            return self._refused(standing)
        execution_id = standing.resolution.execution_id
        if standing.hold_id != self._hold_id:
            raise HeldElsewhere(
                f"execution {execution_id} was already saved with this key and is {standing.state};"
                " wait for it with Adapter.wait, or make a new key for a new attempt"
            )
        try:
            reason = await self._permitted(execution_id, until - asyncio.get_running_loop().time())
        except asyncio.CancelledError:
            await to_the_end(self._let_go(execution_id, INTERRUPTED))
            raise
        if reason is not None:
            return self._refused(await self._abandoned(execution_id, reason))
        return await self._claimed(execution_id)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record what was told, or that nobody knows. Raises `OutcomeNotRecorded`."""
        if self.claim is not None:
            await self.claim.__aexit__(kind, error, trace)
            self._standing = self.claim.standing

    @property
    def resolution(self) -> Resolution | None:
        """How the call ended, once this is left; before that, how it stood if it may not run."""
        return None if self._standing is None else self._standing.resolution

    async def _saved(self) -> Standing:
        saving = asyncio.get_running_loop().create_task(patiently(self._save, self._means.patience))
        try:
            return await asyncio.shield(saving)
        except asyncio.CancelledError:
            await to_the_end(self._give_up_saved(saving))
            raise

    async def _save(self) -> Standing:
        hold_id, seconds = self._hold_id, self._means.seconds
        return (await self._calls.suspend(self._call, "harness", NONE, hold_id=hold_id, hold_seconds=seconds))[0]

    async def _give_up_saved(self, saving: "asyncio.Task[Standing]") -> None:
        await asyncio.wait({saving})
        if not saving.cancelled() and saving.exception() is None and saving.result().hold_id == self._hold_id:
            await self._let_go(saving.result().resolution.execution_id, INTERRUPTED)

    async def _permitted(self, execution_id: str, seconds: float) -> str | None:
        """Wait until the call is permitted or resolved; return why it is to be abandoned instead, if it is."""
        loop = asyncio.get_running_loop()
        keeping = loop.create_task(self._keep(execution_id))
        waiting = loop.create_task(self._means.watch.until(execution_id, _decided))
        try:
            await asyncio.wait({keeping, waiting}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await ended(keeping, waiting)
        if not keeping.cancelled():
            keeping.result()
        if not waiting.cancelled():
            if waiting.result().state is not State.PERMITTED or await self._still_held(execution_id):
                return None
            return HOLD_LOST
        return WAIT_LIMIT if keeping.cancelled() else HOLD_LOST

    async def _keep(self, execution_id: str) -> None:
        """Keep the hold; return when it was lost."""

        def failed(error: StoreUnavailable) -> None:
            log.warning(
                "the hold could not be renewed yet", action="hold", execution_id=execution_id, reason=error.reason
            )

        await until_lost(lambda: self._renewed(execution_id), self._means.seconds, failed)

    async def _still_held(self, execution_id: str) -> bool:
        return await patiently(lambda: self._renewed(execution_id), self._means.patience)

    async def _renewed(self, execution_id: str) -> bool:
        return await self._calls.keep_hold(execution_id, self._hold_id, self._means.seconds)

    async def _claimed(self, execution_id: str) -> Attempt:
        claim = Claim(self._means.grants, execution_id)
        try:
            attempt = await claim.__aenter__()
        except asyncio.CancelledError:
            await to_the_end(self._let_go(execution_id, INTERRUPTED))
            raise
        if attempt.permitted:
            if not self._is_this(attempt):
                return await self._not_this(claim, attempt)
            self.claim = claim
            return attempt
        if attempt.resolution.state is State.PERMITTED:  # too late, or the clock is not to be believed
            standing = await self._abandoned(execution_id, attempt.refusal or NOT_STARTED)
        else:
            standing = await self._means.watch.now(execution_id)
        return self._refused(standing, attempt.refusal, attempt.explanation)

    def _is_this(self, attempt: Attempt) -> bool:
        """Say whether what was claimed is, to the byte, what was to be approved."""
        found, call = attempt.resolution, self._call
        arguments = json.dumps(attempt.arguments, ensure_ascii=False, separators=(",", ":"))
        return (found.tool, found.key, arguments) == (call.tool, call.key, call.arguments_json.decode())

    async def _not_this(self, claim: Claim, attempt: Attempt) -> Attempt:
        attempt.tell(DIFFERS)
        await claim.__aexit__(None, None, None)
        return self._refused(claim.standing or await self._means.watch.now(attempt.execution_id))

    def _refused(self, standing: Standing, refusal: str | None = None, explanation: str | None = None) -> Attempt:
        self._standing = standing
        word, sentence = refusal_of(standing)
        return Attempt(Taken(standing, explanation or sentence, refusal or word))

    async def _abandoned(self, execution_id: str, reason: str) -> Standing:
        try:
            return await to_the_end(patiently(lambda: self._calls.abandon(execution_id, reason), self._means.patience))
        except NotAllowed:  # somebody else claimed it in the last moment
            return await self._means.watch.now(execution_id)

    async def _let_go(self, execution_id: str, reason: str) -> None:
        """Abandon without insisting: an unrenewed hold is abandoned by the sweep in any case."""
        try:
            await self._calls.abandon(execution_id, reason)
        except NotAllowed:
            log.info("it has started already", action="hold", execution_id=execution_id)
        except StoreUnavailable as error:
            log.warning(
                "the call could not be abandoned yet; it will be, once its hold runs out",
                action="hold",
                execution_id=execution_id,
                reason=error.reason,
            )


def _decided(standing: Standing) -> bool:
    return standing.state not in UNDECIDED
