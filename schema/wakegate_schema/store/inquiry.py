"""An operator's own query: one statement that only reads, for a bounded time, whatever it says."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from wakegate_schema.store.location import StoreLocation


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query finds."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    """As the driver gives them; read while the query is open."""


def query(where: StoreLocation, text: str, *, seconds: float) -> AbstractContextManager[Answer]:
    """Run one reading statement in a store, which the caller has open as a `Store`.

    Args:
        where: the store.
        text: a SELECT, VALUES or WITH … SELECT in the words of its database. Nothing else runs.
        seconds: how long it may take.

    Raises, in the block too:
        QueryRefused: it is no such statement, is wrong, or took too long; nothing was changed.
        StoreUnavailable: the store cannot be read.
    """
    if where.is_postgresql:
        from wakegate_schema.store.postgresql.inquiry import query_postgresql

        return query_postgresql(where, text, seconds)
    from wakegate_schema.setting_types import sqlite_path
    from wakegate_schema.store.sqlite.inquiry import query_sqlite

    return query_sqlite(sqlite_path(where.url), text, seconds)
