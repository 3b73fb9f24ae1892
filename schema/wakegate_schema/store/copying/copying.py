"""Copying a store into another database, where it goes on (decision 0018).

In this order, each step one commit: the target is marked, so that nobody opens it; the source is closed; everything is
written into the target and proved there, a new epoch begins and the mark goes. A process that dies in between leaves at
most one store that can be opened, and the same command goes on. As long as the target's mark is there nobody has worked
there, so the source may be opened again: the mark is loosened first, and then no copy can end.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from wakegate_schema import fault_points
from wakegate_schema.records import Epoch
from wakegate_schema.store import shut
from wakegate_schema.store.copying import filling, transfer
from wakegate_schema.store.copying.filling import Origin
from wakegate_schema.store.copying.site import Site
from wakegate_schema.store.copying.transfer import TableContent
from wakegate_schema.store.engine import Engine
from wakegate_schema.store.errors import NotAllowed, StoreIsBackup, StoreMoved
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.progress import Progress, Step
from wakegate_schema.store.transaction import Transaction

COPIED = "copied"
"""The reason of an epoch that a copy began."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy came to."""

    epoch: Epoch
    """The one that began in the target."""
    contents: dict[str, TableContent]
    """What each table had, equal on both sides, before that epoch began."""


def copy(
    source: StoreLocation, target: StoreLocation, *, actor: str, at: int, step: Step, progress: Progress
) -> Copied | None:
    """Copy a store into an empty one and close it.

    Args:
        source: the store; in SQLite nobody may have it open, in PostgreSQL whoever has it open cannot write any more.
        target: where it is to go on. A file that is not there is made, and so are the tables of an empty database.
        actor: who does it.
        at: wall clock, µs: when the new epoch begins.
        step: told `look`, `mark`, `close`, `write`.
        progress: told how many rows are written, of how many.

    Returns None when the same copy has ended before; nothing was changed then.

    Raises:
        StoreNotEmpty: something is in the target; nothing was changed.
        StoreInUse: somebody has one of the two open; nothing was changed.
        StoreMoved: the source was copied elsewhere; nothing was changed.
        StoreFilling: another store is being copied into one of the two; nothing was changed.
        StoreOutdated: one of the two has not the schema of this program; nothing was changed.
        CopyFailed: the target cannot hold what is in the source (nothing was changed), or does not.
        ClockBehind, StoreUnavailable and others, as of opening. Raised after `close`, the source stays closed.
    """
    with _both(source, target) as (here, there), here.engine() as closing, there.engine() as writing:
        step("look")
        here.require()
        with here.snapshot() as tx:
            _check_source(tx, here, target.url)
            filling.refuse_future(tx, at, source.url)
            origin = Origin(source.url, filling.identity(tx), bound=True)
            total = sum(transfer.survey(tx, refuse_nul=target.is_postgresql).values())
            closed = tx.first("moved_to") is not None
        step("mark")
        there.migrate(writing)
        if closed and _has_ended(writing, origin):
            return None
        filling.mark(writing, there.dialect, target.url, origin)
        step("close")
        _close(closing, here, target.url, at)
        step("write")
        with here.snapshot() as tx:
            _require_closed(tx, source.url, target.url)
            begin = (COPIED, actor, at)
            filled = filling.fill(writing, tx, target.url, origin, begin, total=total, progress=progress)
    return Copied(filled.epoch, filled.contents)


def reopen(source: StoreLocation, target: StoreLocation) -> bool:
    """Give up a copy that has not ended, so that the source is used on; return whether it was closed already.

    Only while the target bears the mark of this very store: then nobody can have opened it since the source was closed,
    and once the mark is loosened no process that still copies can end.

    Raises:
        NotAllowed: the target bears no such mark: the copy has ended, or was never begun there. Nothing was changed.
        StoreMoved: the source was copied elsewhere. Nothing was changed.
    """
    with _both(source, target) as (here, there), here.engine() as opening, there.engine() as loosening:
        here.require()
        there.require()
        with here.snapshot() as tx:
            _check_source(tx, here, target.url)
            store, closed = filling.identity(tx), tx.first("moved_to") is not None
        with loosening.transaction() as tx:
            found = tx.first("filling")
            if found is None or found["store"] != store:
                raise NotAllowed(
                    f"the copy into {target.url} has ended, or was never begun there: calls may have run by it, so"
                    f" {source.url} stays as it is" + (". Use the copy" if closed else "")
                )
            tx.change("filling_unbind")
            fault_points.reach("store.commit", reopen)
        fault_points.reach("store.committed", reopen)
        with opening.transaction() as tx:
            tx.change("moved_unmark")
            fault_points.reach("store.commit", reopen)
        fault_points.reach("store.committed", reopen)
        with loosening.transaction() as tx:
            tx.change("filling_end")
    return closed


@contextmanager
def _both(source: StoreLocation, target: StoreLocation) -> Iterator[tuple[Site, Site]]:
    here, there = Site(source), Site(target)
    if source.url == target.url or (here.file is not None and here.file == there.file):
        raise NotAllowed(f"{source.url} and {target.url} are one store; name another to copy it to")
    with ExitStack() as stack:
        stack.enter_context(here.alone())
        stack.enter_context(there.alone())
        yield here, there


def _check_source(tx: Transaction, here: Site, to: str) -> None:
    filling.require_current(tx, here.dialect, here.location.url)
    shut.refuse_unfinished(tx, here.location.url)
    if tx.first("backup_made_at") is not None:
        raise StoreIsBackup(f"{here.location.url} is a backup; restore it instead, by `wakegate db restore`")
    moved = tx.first("moved_to")
    if moved is not None and moved["to"] != to:
        raise StoreMoved(f"the store at {here.location.url} was copied to {moved['to']} and closed; copy that")


def _has_ended(engine: Engine, origin: Origin) -> bool:
    """Return whether the target holds this very store already, whole."""
    with engine.transaction() as tx:
        return (
            tx.first("filling") is None and tx.first("store_used") is not None and filling.identity(tx) == origin.store
        )


def _close(engine: Engine, here: Site, to: str, at: int) -> None:
    """Close the source, durably: from now on no service or adapter works on it."""
    with engine.transaction() as tx:
        fault_points.reach("store.begin", copy)
        _check_source(tx, here, to)
        if tx.first("moved_to") is None:
            tx.change("moved_mark", {"at": at, "to": to})
        fault_points.reach("store.commit", copy)
    fault_points.reach("store.committed", copy)


def _require_closed(tx: Transaction, where: str, to: str) -> None:
    """What is written is what nobody can change any more, whoever has closed it."""
    moved = tx.first("moved_to")
    if moved is None or moved["to"] != to:
        raise NotAllowed(f"{where} was opened again meanwhile; nothing was written")
