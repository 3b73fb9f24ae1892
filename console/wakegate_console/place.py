"""The store's place, as people read it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakegate_schema.settings import Settings


def place(settings: "Settings") -> str:
    """Return the whole path of SQLite's file, or PostgreSQL's URL, which holds no password."""
    return settings.store.name
