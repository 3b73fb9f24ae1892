"""Snapshots: what the store holds at one moment, read past every part of the program."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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

    def __init__(self, path: Path) -> None:
        """Take the store's file."""
        self._connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None)
        self._connection.row_factory = sqlite3.Row

    def look(self) -> Snapshot:
        """Read everything, in one transaction."""
        self._connection.execute("BEGIN")
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

    def change(self, statement: str, *values: object) -> None:
        """Change something that no verb of the store changes yet."""
        self._connection.execute(statement, values)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _rows(self, query: str) -> list[Row]:
        return [dict(row) for row in self._connection.execute(query)]
