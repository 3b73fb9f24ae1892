"""The store: there, whole, up to date, with room."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wakegate_console.doctor import access
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.facts import HELD_MOST, reading
from wakegate_console.doctor.finding import Said, counted, note, ok, problem, sized, warning
from wakegate_console.doctor.site import Site
from wakegate_console.text import printable
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.migrations import available
from wakegate_schema.store.sqlite import placement
from wakegate_schema.store.sqlite.connection import WAL_SIZE_LIMIT
from wakegate_schema.store.sqlite.wal import size

QUICK_MOST: Final = 512 << 20
"""A larger file is left to `wakegate db check`, bytes."""
QUICK_S: Final = 8.0
ROOM_WARNED: Final = 1 << 30
ROOM_REFUSED: Final = 100 << 20
_FLEETING: Final = frozenset({"tmpfs", "ramfs"})


def file(site: Site) -> Iterator[Said]:
    """Say whether there is a store, and where."""
    path = site.store.path
    if path is None:
        return
    if site.store.trouble is not None:
        yield site.store.trouble
        return
    kind = _filesystem(path)
    if kind in _FLEETING:
        yield warning(
            f"{path} lies on {kind}, which is gone after a restart of the machine",
            "name another place by WAKEGATE_DATABASE, unless this is a trial",
        )
    else:
        yield ok(f"{path} is there ({sized(path.stat().st_size)}{f', {kind}' if kind else ''})")


def schema(site: Site) -> Iterator[Said]:
    """Compare the migrations that the store has with those of this program."""
    found = site.store
    if found.trouble is None and found.path is not None:
        yield judge_migrations(found.applied, frozenset(available()), found.needing)
    elif found.server is not None:
        yield judge_migrations(found.applied, frozenset(available(POSTGRESQL)), found.needing, by_themselves=False)


def judge_migrations(
    applied: frozenset[int], known: frozenset[int], needing: int | None, *, by_themselves: bool = True
) -> Said:
    """Say whether the store fits this program.

    Args:
        applied: the migrations that it has.
        known: those that this program knows.
        needing: the first of it that this program is too old for, if there is one.
        by_themselves: whether services apply what is missing.
    """
    if needing is not None:
        return problem(f"the store has migration {needing}, made by a newer wakegate", "upgrade this one")
    if not applied and not by_themselves:
        return problem("there is no store in this database", "run `wakegate db migrate` to make one there")
    if missing := sorted(known - applied):
        return problem(
            f"the store lacks migration {missing[0]}, so nothing else in it was looked at",
            "restart the services, which apply it, or run `wakegate db migrate`"
            if by_themselves
            else "run `wakegate db migrate`; in PostgreSQL no service does it",
        )
    if newer := sorted(applied - known):
        return note(
            f"the store has migration {newer[0]}, made by a newer wakegate, and this one may still work on it",
            "finish the upgrade: replace this one too",
        )
    return ok(f"the store is up to date (migration {max(known)})")


def integrity(site: Site) -> Iterator[Said]:
    """Have SQLite look over the file, as far as that is quick."""
    path = site.store.path
    if path is None or not site.store.opened:
        return
    if (bytes_ := path.stat().st_size) > QUICK_MOST:
        yield note(f"the store has {sized(bytes_)}, too much to look over quickly", "run `wakegate db check`")
        return
    try:
        with reading(path, QUICK_S) as connection:
            lines = [row[0] for row in connection.execute("PRAGMA quick_check(3)").fetchall()]
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        yield note(f"looking over the file takes longer than {QUICK_S:g} s", "run `wakegate db check`")
        return
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        lines = [str(error)]
    if lines == ["ok"]:
        yield ok("SQLite finds the file whole (`wakegate db check` looks closer)")
    else:
        yield problem(
            f"the store is damaged: {printable(lines[0])}",
            "stop the services, keep the file, and restore a backup: wakegate db restore FILE",
        )


def mode(site: Site) -> Iterator[Said]:
    """Say whether commits are made as wakegate wants them."""
    found = site.store.journal_mode
    if site.store.path is None or site.store.trouble is not None:
        return
    if found not in (None, "wal"):
        yield problem(
            f"the store's journal mode is {printable(str(found))}, not WAL",
            "find out who has changed it; services put it right when they start and nobody else has it open",
        )
    else:
        how = "WAL" if found else "WAL once a service has it open"
        yield ok(f"journal mode {how}; every commit of wakegate is synced (synchronous=FULL)")


def wal(site: Site) -> Iterator[Said]:
    """Measure the WAL."""
    if site.store.path is not None and site.store.trouble is None:
        yield judge_wal(size(site.store.path))


def judge_wal(bytes_: int) -> Said:
    """Say whether the WAL is too large."""
    if bytes_ > WAL_SIZE_LIMIT:
        return warning(
            f"the WAL has {sized(bytes_)}: somebody keeps a transaction open",
            "close sqlite3 shells and copies that are paused; start the services, which take it in",
        )
    return ok(f"the WAL has {sized(bytes_)}" if bytes_ else "there is no WAL")


def room(site: Site) -> Iterator[Said]:
    """Measure the room on the store's disk."""
    if site.store.path is None:
        return
    folder = site.store.path.absolute().parent
    if access.status(folder) is not None:
        found = os.statvfs(folder)
        yield judge_room(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None, folder)


def judge_room(free: int, files: int | None, folder: Path) -> Said:
    """Say whether there is room.

    Args:
        free: bytes that users may take.
        files: files that they may make; None where the filesystem does not count them.
        folder: where.
    """
    advice_ = "make room: without it nothing is acknowledged and nothing runs"
    if free < ROOM_REFUSED or files == 0:
        what = "no file can be made" if free >= ROOM_REFUSED else f"{sized(free)} are free"
        return problem(f"{what} in {folder}", advice_)
    if free < ROOM_WARNED:
        return warning(f"{sized(free)} are free in {folder}", advice_)
    return ok(f"{sized(free)} are free in {folder}")


def epoch(site: Site) -> Iterator[Said]:
    """Tell of calls that wait for a release, after a restore."""
    facts = site.store.facts
    if facts is None:
        return
    if facts.held:
        most = " or more" if facts.held >= HELD_MOST else ""
        yield warning(
            f"{counted(facts.held, 'call')}{most} of an older epoch wait for a release: they may have run before the"
            " store was restored",
            "find out, then `wakegate execution release` or `wakegate execution abandon`",
        )
    else:
        yield ok(f"epoch {facts.epoch.number}; no call waits for a release")


def moved(site: Site) -> Iterator[Said]:
    """Tell of a store that was copied elsewhere and closed."""
    if site.store.facts is not None and site.store.facts.moved is not None:
        yield problem(
            f"this store was copied to {printable(site.store.facts.moved)} and closed: nothing works on it",
            "name the new one by WAKEGATE_DATABASE",
        )


CHECKS: Final = (
    Check("store.file", file),
    Check("store.schema", schema),
    Check("store.moved", moved),
    Check("store.integrity", integrity),
    Check("store.mode", mode),
    Check("store.wal", wal),
    Check("store.room", room),
    Check("store.epoch", epoch),
)


def _filesystem(path: Path) -> str:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return placement.filesystem(path.absolute().parent.resolve(), mounts)
