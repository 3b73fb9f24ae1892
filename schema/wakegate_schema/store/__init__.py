"""The store: what is on record, and the verbs that read and change it."""

from wakegate_schema.store.errors import (
    InvariantViolated,
    KeyConflict,
    NotADatabase,
    NotAllowed,
    NotFound,
    StoreError,
    StoreMisplaced,
    StoreMissing,
    StoreOutdated,
    StoreUnavailable,
    StoreVanished,
    UnstorableValue,
)
from wakegate_schema.store.opening import Mode, open_store
from wakegate_schema.store.store import Store

__all__ = [
    "InvariantViolated",
    "KeyConflict",
    "Mode",
    "NotADatabase",
    "NotAllowed",
    "NotFound",
    "Store",
    "StoreError",
    "StoreMisplaced",
    "StoreMissing",
    "StoreOutdated",
    "StoreUnavailable",
    "StoreVanished",
    "UnstorableValue",
    "open_store",
]
