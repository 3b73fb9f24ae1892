"""Snapshots: what the store holds at one moment, read past every part of the program."""

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from wakegate_schema.setting_types import sqlite_path

Row = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """Every row that the promises are about."""

    executions: dict[str, Row] = field(default_factory=dict)
    transitions: dict[str, list[Row]] = field(default_factory=dict)
    notifications: dict[tuple[str, str], Row] = field(default_factory=dict)
    """By provider and event id."""
    wakes: dict[str, Row] = field(default_factory=dict)
    epoch: int = 1


class Observer:
    """Somebody with a connection of their own, who sees only what is committed."""

    def __init__(self, url: str) -> None:
        """Take the store's URL."""
        self._connection: Any = _sqlite(url) if url.startswith("sqlite:") else _postgres(url)
        self._begin = "BEGIN" if url.startswith("sqlite:") else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def look(self) -> Snapshot:
        """Read everything, in one transaction."""
        self._connection.execute(self._begin)
        transitions: dict[str, list[Row]] = {}
        for row in self._rows("SELECT * FROM transition ORDER BY execution_id, number"):
            transitions.setdefault(row["execution_id"], []).append(row)
        found = Snapshot(
            {row["execution_id"]: row for row in self._rows("SELECT * FROM execution ORDER BY number")},
            transitions,
            {(row["provider"], row["event_id"]): row for row in self._rows("SELECT * FROM notification")},
            {row["wake_id"]: row for row in self._rows("SELECT * FROM wake")},
            self._rows("SELECT MAX(number) AS number FROM epoch")[0]["number"],
        )
        self._connection.execute("COMMIT")
        return found

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def _rows(self, query: str) -> list[Row]:
        return [dict(row) for row in self._connection.execute(query)]


def _sqlite(url: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{sqlite_path(url).as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def _postgres(url: str) -> Any:
    import psycopg  # here, because it takes its time
    from psycopg.rows import dict_row

    return psycopg.connect(url, autocommit=True, row_factory=dict_row)
