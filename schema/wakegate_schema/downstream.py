"""Keys derived from an execution: the same after any crash, for the APIs that its call calls and for its provider."""

from typing import Final
from uuid import UUID, uuid5

_NAMESPACE: Final = UUID("5b0f3a52-9d0e-5c68-8f5e-0d4c0f0a7f1b")
_CONSUMPTION: Final = UUID("c9d6a5d0-41f7-5a44-9c1a-6a2f3b7e8d15")


def downstream_key(execution_id: str) -> str:
    """Return the UUID that is this execution's idempotency key downstream; derived, so it survives any crash."""
    return str(uuid5(_NAMESPACE, execution_id))


def consumption_key(execution_id: str, epoch: int) -> str:
    """Return the idempotency key under which this execution consumes its approval (DESIGN, the start, step 5).

    With the store's epoch in it: after the store went back in time, a consumption of the history that is lost is not
    taken for this one's.

    Args:
        execution_id: the execution's.
        epoch: the one that it belongs to.
    """
    return str(uuid5(_CONSUMPTION, f"{execution_id}:{epoch}"))
