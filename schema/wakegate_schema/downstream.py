"""Downstream keys: how an execution is named to the APIs that its call calls, whoever runs it."""

from typing import Final
from uuid import UUID, uuid5

_NAMESPACE: Final = UUID("5b0f3a52-9d0e-5c68-8f5e-0d4c0f0a7f1b")


def downstream_key(execution_id: str) -> str:
    """Return the UUID that is this execution's idempotency key downstream; derived, so it survives any crash."""
    return str(uuid5(_NAMESPACE, execution_id))
