"""The states an execution passes through, and the only arrows between them.

The same arrows stand in the database (table `arrow`), which refuses every other change; a test holds the two equal.
"""

from enum import StrEnum

from wakegate_schema.clock import DAY


class State(StrEnum):
    """Where an execution stands."""

    SAVED = "saved"
    """The exact call is durable; nothing was said to the provider."""
    SUBMITTING = "submitting"
    """A submission may have reached the provider; its request id is not known yet."""
    WAITING = "waiting"
    """The provider has the request; its decision is not on record here."""
    PERMITTED = "permitted"
    """A valid approval is on record and not yet spent."""
    STARTED = "started"
    """The permission is spent; the call may have begun."""
    SUCCEEDED = "succeeded"
    """The call ran and returned."""
    FAILED = "failed"
    """The call is known not to have happened."""
    IN_DOUBT = "in_doubt"
    """The call was started and nobody knows whether it happened. Never run again by the program."""
    DENIED = "denied"
    """A person or a policy said no."""
    EXPIRED = "expired"
    """Nobody decided before the deadline."""
    CANCELLED = "cancelled"
    """The request was cancelled at the provider."""
    LAPSED = "lapsed"
    """Approved, but the approval's `expires_at` came before the start."""
    REFUSED = "refused"
    """No decision can ever permit this call."""
    UNOBTAINED = "unobtained"
    """No decision could be had in time. Never called a denial."""
    ABANDONED = "abandoned"
    """The harness or an operator gave the call up before it started."""


_S = State

ARROWS: frozenset[tuple[State, State]] = frozenset(
    {(_S.SAVED, to) for to in (_S.SUBMITTING, _S.REFUSED, _S.UNOBTAINED, _S.ABANDONED)}
    | {(_S.SUBMITTING, to) for to in (_S.WAITING, _S.REFUSED, _S.UNOBTAINED, _S.ABANDONED)}
    | {
        (_S.WAITING, to)
        for to in (
            _S.PERMITTED,
            _S.DENIED,
            _S.EXPIRED,
            _S.CANCELLED,
            _S.LAPSED,
            _S.REFUSED,
            _S.UNOBTAINED,
            _S.ABANDONED,
        )
    }
    | {(_S.PERMITTED, to) for to in (_S.STARTED, _S.LAPSED, _S.ABANDONED)}
    | {(_S.STARTED, to) for to in (_S.SUCCEEDED, _S.FAILED, _S.IN_DOUBT, _S.LAPSED)}
    | {(_S.IN_DOUBT, to) for to in (_S.SUCCEEDED, _S.FAILED)}
)
"""Every change of state that exists (DESIGN, "Records and states")."""

UNDECIDED: frozenset[State] = frozenset({_S.SAVED, _S.SUBMITTING, _S.WAITING})
"""States in which a decision is still to come; the only ones in which an execution is due some time."""

UNSTARTED: frozenset[State] = UNDECIDED | {_S.PERMITTED}
"""States from which a call can still be abandoned."""

RESOLVED: frozenset[State] = frozenset(State) - UNSTARTED - {_S.STARTED, _S.IN_DOUBT}
"""States that no arrow leaves."""

WAIT_LIMIT = "wait_limit"
"""The reason of a call abandoned by a harness that waited as long as it could."""
HOLD_LOST = "hold_lost"
"""The reason of a call abandoned because the harness that waited for it fell silent."""
OPERATOR = "operator:"
"""How the actor of what a person has said begins; the person's name follows."""
OLDER_EPOCH = "older_epoch"
"""The problem of an unstarted call that may have started in a time that the store does not know of any more."""
NO_WORKER_HAS_THE_TOOL = "no_worker_has_the_tool"
"""The problem of an undecided call whose tool no living worker has at the version that it declares."""
GIVE_UP_AFTER = 8 * DAY
"""How long after its deadline an undecided call becomes unobtained, in µs."""
