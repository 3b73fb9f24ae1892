"""A transfer: every row of a store, and how its numbers go on, written into an empty one and proved there.

Both databases have the same tables with the same columns in the same order, so a row is written as it was read. The
triggers, which would take it for a change that is made now, are lifted meanwhile; keys, checks and foreign keys are
not. The caller's transaction of the target makes all of it one change, that happens or does not.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wakegate_schema.store.errors import CopyFailed
from wakegate_schema.store.progress import Progress
from wakegate_schema.store.transaction import Table, Transaction

TABLES: Final = (
    "probe",
    "clock_mark",
    "clock_reset",
    "epoch",
    "numbering",
    "registration",
    "instance",
    "consuming_provider",
    "notification",
    "anomaly",
    "call_group",
    "execution",
    "transition",
    "wake",
    "resolution",
    "adoption",
    "adoption_mark",
)
"""The tables that are transferred, each after those that it refers to."""
MADE: Final = ("epoch", "probe", "numbering", "adoption_mark")
"""Those that the migrations have put something into, which gives way."""
EQUAL: Final = ("arrow",)
"""Those whose rows every store has from the migrations."""
LEFT: Final = frozenset({"migration", "backup", "moved", "filling", "worker", "worker_tool", "worker_resumer"})
"""Those that are about one database alone: what was done to it, and who works there now."""


@dataclass(frozen=True, slots=True)
class TableContent:
    """What is in a table."""

    rows: int
    digest: str
    """SHA-256, in hex, over every column of every row, in the order of the key."""


def survey(source: Transaction, *, refuse_nul: bool) -> dict[str, int]:
    """Read all that would be transferred; return how many rows each table has.

    Args:
        source: one snapshot.
        refuse_nul: the target holds no text with U+0000 in it, which PostgreSQL does not.

    Raises:
        CopyFailed: it cannot be transferred; names the table, the row and the place in it.
    """
    counts = dict.fromkeys(TABLES, 0)
    for table in TABLES:
        for page in source.pages(f"copy_{table}"):
            counts[table] += len(page)
            if refuse_nul:
                _refuse_nul(table, page)
    return counts


def transfer(source: Transaction, target: Transaction, *, total: int, progress: Progress) -> Mapping[str, TableContent]:
    """Write everything into the target, and prove that it is there.

    Args:
        source: one snapshot.
        target: an empty store's.
        total: rows that `survey` counted.
        progress: told how far it is.

    Returns what each table has, equal on both sides.

    Raises:
        CopyFailed: what can be read in the target is not what was read in the source.
    """
    guards = target.all("guards")
    for guard in guards:
        target.run(guard["lifted"])
    for table in MADE:
        target.change(f"copy_clear_{table}")
    contents: dict[str, TableContent] = {}
    for table in TABLES:
        before = sum(each.rows for each in contents.values())
        contents[table] = _write(source, target, table, before, total, progress)
    _go_on_numbering(source, target)
    for guard in guards:
        target.run(guard["set_again"])
    target.change("copied_statistics")
    _prove(target, contents | {table: content(source, table) for table in EQUAL})
    return contents


def try_guards(target: Transaction) -> None:
    """Lift the triggers and set them again: who may not do that, only the owner, is told before anything is begun."""
    for guard in target.all("guards"):
        target.run(guard["lifted"])
        target.run(guard["set_again"])


def content(side: Transaction, table: str) -> TableContent:
    """Return what is in a table, whatever database it is in."""
    digest, rows = hashlib.sha256(), 0
    for page in side.pages(f"copy_{table}"):
        rows += len(page)
        digest.update(_bytes(page))
    return TableContent(rows, digest.hexdigest())


def _write(
    source: Transaction, target: Transaction, table: str, before: int, total: int, progress: Progress
) -> TableContent:
    digest, rows = hashlib.sha256(), 0
    for page in source.pages(f"copy_{table}"):
        target.add_rows(f"copy_into_{table}", page)
        digest.update(_bytes(page))
        rows += len(page)
        progress(before + rows, total)
    return TableContent(rows, digest.hexdigest())


def _bytes(page: Table) -> bytes:
    """Return rows so that other rows are other bytes: there is only text, bytes, whole numbers and NULL in them."""
    return "".join(f"{tuple(row)!r}\n" for row in page).encode("utf-8", "surrogatepass")


def _go_on_numbering(source: Transaction, target: Transaction) -> None:
    """No number that was given is given again, that of a row long gone neither: streams resume by them."""
    given = {row["table"]: row["last"] for row in source.all("ends")}
    for row in source.all("counters"):
        given[row["table"]] = max(row["last"], given.get(row["table"], 0))
    for table, last in given.items():
        target.all("counter_forget", {"table": table})
        target.all("counter_set", {"table": table, "last": last})


def _prove(target: Transaction, wanted: Mapping[str, TableContent]) -> None:
    for table, expected in wanted.items():
        found = content(target, table)
        if found != expected:
            raise CopyFailed(
                f"table {table} has {found.rows} rows in the copy and {expected.rows} in the source, or others; nothing"
                " was kept of the copy. Run `wakegate db check` on the source"
            )


def _refuse_nul(table: str, page: Table) -> None:
    for row in page:
        if any(isinstance(value, str) and "\0" in value for value in row):
            known = ", ".join(str(each) for each in row[:2] if not isinstance(each, bytes))
            raise CopyFailed(
                f"the row {known!r} of table {table} has U+0000 in a text, which PostgreSQL cannot hold; nothing was"
                " changed",
                reason="text_has_nul",
            )
