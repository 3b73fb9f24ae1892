"""A connection to SQLite that only reads."""

from collections.abc import Mapping
from pathlib import Path

from wakegate_schema.store.sqlite.connection import translate
from wakegate_schema.store.sqlite.file import DatabaseFile
from wakegate_schema.store.sqlite.transaction import SqliteTransaction


class SqliteSession:
    """See `ReadSession`: no read outlives its statement, so that the WAL can always be taken in."""

    def __init__(self, path: Path, queries: Mapping[str, str]) -> None:
        """Take the database file's path and the dialect's named queries."""
        self._path = path
        self._queries = queries
        self._file = DatabaseFile(path, read_only=True)

    def transaction(self) -> SqliteTransaction:
        """Return what reading verbs run on."""
        return SqliteTransaction(self._file.current(), self._queries)

    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; leave anything else as it is."""
        return translate(error, self._path)

    def is_cut_off(self, error: Exception) -> bool:  # noqa: ARG002 (whatever it is)
        """Return False: a file is not cut off."""
        return False

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
