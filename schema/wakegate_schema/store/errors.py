"""What can go wrong with a store."""

from wakegate_schema.errors import WakegateError


class StoreError(WakegateError):
    """The store refused."""

    reason = "store_error"


class StoreUnavailable(StoreError):
    """The store cannot be written now; nothing was promised. Try again."""

    reason = "store_unavailable"


class StoreVanished(StoreUnavailable):
    """The store's files were removed or replaced under running services; nothing written there would be found."""

    reason = "store_vanished"


class StoreIsBackup(StoreUnavailable):
    """The store's file is a backup; run `wakegate db restore` with it."""

    reason = "store_is_a_backup"


class RestoreInterrupted(StoreUnavailable):
    """A restore was interrupted here; run `wakegate db restore` again."""

    reason = "restore_interrupted"


class StoreInUse(StoreUnavailable):
    """Somebody has the store open; stop every process that uses it."""

    reason = "store_in_use"


class BackupUnusable(StoreError):
    """This file cannot be restored, or no backup can be made there."""

    reason = "backup_unusable"


class ClockBehind(StoreError):
    """This host's clock is behind a time that is on record; correct it."""

    reason = "clock_behind"


class NotADatabase(StoreUnavailable):
    """The store's file is no database."""

    reason = "store_corrupt"


class StoreMissing(StoreError):
    """There is no store here; run `wakegate db migrate` or start a service to make one."""

    reason = "store_missing"


class StoreOutdated(StoreError):
    """The store was made by another version of wakegate; run `wakegate db migrate`."""

    reason = "store_outdated"


class WorkersTooOld(StoreError):
    """Workers of an older version work on this store, and a migration would shut them out; stop them first."""

    reason = "workers_too_old"


class StoreMisplaced(StoreError):
    """The store may not lie here."""

    reason = "store_misplaced"


class InvariantViolated(StoreError):
    """The database refused a change that must never happen."""

    reason = "invariant_violated"


class UnstorableValue(StoreError):
    """The database cannot hold a value of this call; nothing was changed."""

    reason = "unstorable_value"


class NotFound(StoreError):
    """There is no such thing in the store."""

    reason = "not_found"


class KeyConflict(StoreError):
    """This idempotency key was used for another call; make a new key for a new attempt."""

    reason = "idempotency_conflict"


class NotAllowed(StoreError):
    """The record's present state does not allow this."""

    reason = "not_allowed"


class Collided(StoreUnavailable):
    """Another transaction was in the way and this one was broken off; nothing was changed. Try again."""

    reason = "store_collision"


class StoreDenied(StoreUnavailable):
    """The database refuses this login, or its role may not do this."""

    reason = "store_denied"


class StoreMoved(StoreUnavailable):
    """The store was copied elsewhere by `wakegate db copy`; name the new one by WAKEGATE_DATABASE."""

    reason = "store_moved"


class StoreFilling(StoreUnavailable):
    """A copy into this store, or a restore, has not ended; run the same command again."""

    reason = "store_filling"


class StoreNotEmpty(StoreError):
    """There is something in this database already; make a new one."""

    reason = "store_not_empty"


class CopyFailed(StoreError):
    """The store cannot be copied."""

    reason = "copy_failed"


class QueryRefused(StoreError):
    """The query does not only read, is wrong, or took too long."""

    reason = "query_refused"
