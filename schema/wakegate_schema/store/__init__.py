"""The store: what is on record, and the verbs that read and change it."""

from wakegate_schema.store.errors import (
    BackupUnusable,
    ClockBehind,
    InvariantViolated,
    KeyConflict,
    NotADatabase,
    NotAllowed,
    NotFound,
    RestoreInterrupted,
    StoreError,
    StoreInUse,
    StoreIsBackup,
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
    "BackupUnusable",
    "ClockBehind",
    "InvariantViolated",
    "KeyConflict",
    "Mode",
    "NotADatabase",
    "NotAllowed",
    "NotFound",
    "RestoreInterrupted",
    "Store",
    "StoreError",
    "StoreInUse",
    "StoreIsBackup",
    "StoreMisplaced",
    "StoreMissing",
    "StoreOutdated",
    "StoreUnavailable",
    "StoreVanished",
    "UnstorableValue",
    "open_store",
]
