"""Filling a store: nobody may open it from before anything is written until all of it is there, in a new epoch.

The mark is one commit, everything else a second one: a process that dies in between leaves an empty store that nobody
can open, and the same command goes on.
"""

import hashlib
from dataclasses import dataclass

from wakegate_schema import clock, fault_points
from wakegate_schema.records import Epoch
from wakegate_schema.store import migrations, shut
from wakegate_schema.store.copying import transfer
from wakegate_schema.store.dialects import Dialect
from wakegate_schema.store.engine import Engine
from wakegate_schema.store.errors import StoreFilling, StoreNotEmpty, StoreOutdated
from wakegate_schema.store.progress import Progress
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.verbs import epochs


@dataclass(frozen=True, slots=True)
class Origin:
    """What is to be written into a store."""

    name: str
    """A URL, or a file."""
    store: str
    """Which store's content it is: see `identity`."""
    bound: bool
    """Whether that store is closed for it, so that only it may be written there."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A store that was filled."""

    epoch: Epoch
    """The one that began with it."""
    contents: dict[str, transfer.TableContent]
    """What was proved to be in each table, before the epoch began."""


def identity(tx: Transaction) -> str:
    """Return which store this is: the digest of the secret that every store has its own of, and every copy the same."""
    (row,) = tx.all("numbering_key")
    return hashlib.sha256(b"store" + row["key"]).hexdigest()


def mark(engine: Engine, dialect: Dialect, where: str, origin: Origin) -> None:
    """Keep everybody from opening an empty store, whose schema this program has made.

    Args:
        engine: of the store, one for maintenance.
        dialect: its database's.
        where: what to call it.
        origin: what is to be written into it. A mark for the same, or for what nobody was closed for, gives way.

    Raises:
        StoreNotEmpty: something is in it.
        StoreFilling: another store is bound to it.
        StoreOutdated: this program has not made its schema.
        StoreDenied: the tables are another role's, so nothing could be written.
    """
    with engine.transaction() as tx:
        require_current(tx, dialect, where)
        found = tx.first("filling")
        if found is not None and found["bound"] and found["store"] != origin.store:
            raise shut.unfinished(where, found["from"])
        _require_empty(tx, where)
        transfer.try_guards(tx)
        tx.change(
            "filling_begin",
            {"at": clock.now(), "from": origin.name, "store": origin.store, "bound": int(origin.bound)},
        )
        fault_points.reach("store.commit", mark)
    fault_points.reach("store.committed", mark)


def fill(
    engine: Engine,
    source: Transaction,
    where: str,
    origin: Origin,
    begin: tuple[str, str, int],
    *,
    above: int = 0,
    total: int,
    progress: Progress,
) -> Filled:
    """Write everything into a marked store, and take the mark away as a new epoch begins there; all in one commit.

    Args:
        engine: of the store that was marked, one for maintenance.
        source: one snapshot of the other, which nobody changes any more.
        where: what to call the store.
        origin: as it was marked for.
        begin: of the epoch: the reason, the actor, and when (µs).
        above: the epoch's number is higher than this.
        total: the rows to be written.
        progress: told how far it is.

    Raises:
        StoreFilling: the mark is gone, or another's: somebody has given this up, or done it.
        CopyFailed: what was written is not what was read.
    """
    with engine.transaction() as tx:
        fault_points.reach("store.begin", fill)
        found = tx.first("filling")
        if found is None or found["store"] != origin.store or bool(found["bound"]) != origin.bound:
            raise StoreFilling(f"another command has ended this copy into {where}, or given it up; nothing was written")
        _require_empty(tx, where)
        contents = transfer.transfer(source, tx, total=total, progress=progress)
        epoch = epochs.begin_above(tx, begin, above)
        tx.change("filling_end")
        fault_points.reach("store.commit", fill)
    fault_points.reach("store.committed", fill)
    return Filled(epoch, dict(contents))


def require_current(tx: Transaction, dialect: Dialect, where: str) -> None:
    """Raise `StoreOutdated` unless a store has the tables of this program, no more and no fewer."""
    migrations.check(tx, dialect)
    if (latest := max(migrations.numbers(tx))) > max(migrations.available(dialect)):
        raise StoreOutdated(
            f"the store at {where} has migration {latest}, which this wakegate would leave out; upgrade it"
        )


def refuse_future(tx: Transaction, at: int, where: str) -> None:
    """Raise `ClockBehind` when a clock has shown a later time: the new epoch would begin before calls that ran."""
    for row in tx.all("clock_marks"):
        epochs.check_clock(row["highest_at"], at, f"the store at {where} was used")


def _require_empty(tx: Transaction, where: str) -> None:
    if tx.first("store_used") is not None:
        raise StoreNotEmpty(
            f"the store at {where} is in use, or was; nothing was changed. Make a new, empty database and name that (by"
            " WAKEGATE_DATABASE for a restore)"
        )
