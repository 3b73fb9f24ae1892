"""Filling SQLite stores with millions of rows, as if they had come in over eight days."""

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.scale.grounds import Ground
from wakegate_schema import clock

OVER_SHARE: Final = 0.02
"""The share of notifications whose time to be kept is over: what retention has to do."""

_BODY: Final = b'{"id":"' + b"0" * 230 + b'"}'
"""As long as a notification's usual one."""
_CACHE_KB: Final = 4_000_000
"""Event ids are random: the whole index stays in memory while it is filled."""
_UUID: Final = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-8'"
    " || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)
_ADD: Final = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    " INSERT INTO {table} ({into}) SELECT {chosen} FROM n, one"
)


def twin(at: Ground, folder: Path) -> Ground:
    """Copy a store that nobody has open, keys and all, so that the same notifications are genuine for both."""
    shutil.copytree(at.folder, folder)
    return Ground(folder, f"sqlite:///{folder}/wakegate.db", None, None)


def fill_notifications(at: Ground, count: int) -> None:
    """Copy the one notification that is there: handled ones of eight days, of which the oldest are over.

    Args:
        at: a store that nobody has open.
        count: of rows to add.
    """
    begun, each = clock.now() - 8 * clock.DAY, 8 * clock.DAY // max(count, 1)
    when = f"{begun} + i * {each}"
    changes = {
        "event_id": _UUID, "request_id": _UUID, "state": "'handled'", "reason": "'succeeded'", "created_at": when,
        "received_at": when, "handled_at": when, "body": f"x'{_BODY.hex()}'",
        "keep_until": f"{when} + {round(8 * clock.DAY * (1 - OVER_SHARE))}",
    }  # fmt: skip
    _fill(at, "notification", count, changes)


def fill_waiting(at: Ground, count: int) -> None:
    """Copy the one waiting execution that is there; none of the copies is due within a day.

    Args:
        at: a store that nobody has open.
        count: of rows to add.
    """
    changes = dict.fromkeys(("execution_id", "idempotency_key", "request_id"), _UUID) | {
        "due_at": f"due_at + {clock.DAY} + i", "lease_until": "NULL", "lease_owner": "NULL",
    }  # fmt: skip
    _fill(at, "execution", count, changes)


def _fill(at: Ground, table: str, count: int, changes: Mapping[str, str]) -> None:
    """Add rows without triggers (calls must begin as saved) and without a journal: a fill that fails is thrown away."""
    if not count:
        return
    with closing(sqlite3.connect(at.folder / "wakegate.db", isolation_level=None)) as own:
        for setting in ("journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF", "temp_store = MEMORY"):
            own.execute(f"PRAGMA {setting}")
        own.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        own.execute(f"CREATE TEMP TABLE one AS SELECT * FROM main.{table} ORDER BY number DESC LIMIT 1")
        columns = [row[1] for row in own.execute(f"PRAGMA table_info({table})") if row[1] != "number"]
        into = ", ".join(f'"{column}"' for column in columns)
        chosen = ", ".join(changes.get(column, f'"{column}"') for column in columns)
        triggers = own.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        own.execute("BEGIN IMMEDIATE")
        for name, _ in triggers:
            own.execute(f"DROP TRIGGER {name}")
        own.execute(_ADD.format(count=count, table=table, into=into, chosen=chosen))
        for _, text in triggers:
            own.execute(text)
        own.execute("COMMIT")
        own.execute("PRAGMA journal_mode = WAL")
