"""The calls of a harness: every verb it may use, the same over the store and over the control API."""

from collections.abc import AsyncGenerator
from typing import Protocol

from wakegate_schema.calls.call import Call
from wakegate_schema.calls.grant import Grant
from wakegate_schema.calls.standing import Standing, Taken
from wakegate_schema.records import Outcome, Runs
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import State

HOLD_S = 30.0
"""How long a hold lasts without being renewed, in seconds."""
LEASE_S = 30.0
"""How long a claimed call's lease lasts without being renewed, in seconds."""


class Calls(Protocol):
    """The verbs. Each sees only what is in its scope: anything else is not found.

    Every verb raises `StoreUnavailable` when it could not be done, or its answer was lost; it may be repeated as it is.
    """

    async def suspend(
        self, call: Call, runs: Runs, wake: str, *, hold_id: str | None = None, hold_seconds: float = HOLD_S
    ) -> tuple[Standing, bool]:
        """Save a call durably, or find what its key saved before; say whether this saved it.

        With a `hold_id`, somebody waits for it and renews that hold; a hold that runs out abandons the call.

        Raises:
            CallRefused, InstanceUnclear, KeyConflict, NotAllowed: it cannot be saved as it is.
        """
        ...

    async def show(self, execution_id: str, *, unlike: str | None = None, wait: float = 0.0) -> Standing:
        """Return where a call stands, at the latest after `wait` seconds; at once if its version is not `unlike`.

        Raises:
            NotFound: there is no such call.
        """
        ...

    async def listed(
        self, *, state: State | None = None, group: str | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[list[Standing], int | None]:
        """Return a page of calls, the latest first, and what to hand in as `before` for the next; None at the end."""
        ...

    async def keep_hold(self, execution_id: str, hold_id: str, hold_seconds: float = HOLD_S) -> bool:
        """Lengthen a hold. False when it was lost: the call is, or will be, abandoned."""
        ...

    async def take(self, execution_id: str, claim_id: str) -> Taken:
        """Claim a permitted call: commit `started`, once, with every clock looked at before and after.

        Repeating it with the same id, while the attempt runs, gives the same attempt again with a fresh token.

        Raises:
            NotFound: there is no such call.
        """
        ...

    async def renew(self, grant: Grant) -> bool:
        """Lengthen the lease of a taken call. False when it was lost: the call is in doubt, or settled."""
        ...

    async def runs_on(self, grant: Grant) -> bool:
        """Say that a taken call goes on although its lease is lost. False when it is settled."""
        ...

    async def finish(self, grant: Grant, outcome: Outcome) -> Standing:
        """Record how a taken call ended, also late. Repeats are no-ops.

        Raises:
            NotAllowed: the grant is not this attempt's.
        """
        ...

    async def abandon(self, execution_id: str, reason: str) -> Standing:
        """Give a call up before it starts. A resolved one is returned as it is.

        Raises:
            NotFound: there is no such call.
            NotAllowed: it has started, and may have happened.
        """
        ...

    async def seal(
        self, group: str, instance: str | None = None, *, after: int | None = None, limit: int = 100
    ) -> tuple[list[Standing], int | None]:
        """Say that a group is complete: one wake tells of it once all of its calls are resolved. Repeats are no-ops.

        Returns a page of the group's calls, the first saved first, and what to hand in as `after` for the next; None
        at the end.

        Raises:
            NotFound: there is no such group.
            InstanceUnclear: more than one instance could be meant.
        """
        ...

    def resolutions(self, after: str | None = None) -> AsyncGenerator[tuple[str, Resolution], None]:
        """Yield what harnesses are told, in order and without end: each with the place to resume `after`.

        None begins with what comes from now on, the empty string with the earliest that is kept. At least once:
        what was yielded and not yet acted on comes again when it is resumed from before.
        """
        ...

    async def end_of_stream(self) -> str:
        """Return the place in the stream of what was told last: to resume after it is to begin with what comes now."""
        ...

    async def close(self) -> None:
        """Let go of what it works over."""
        ...
