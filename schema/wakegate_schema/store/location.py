"""Where a store is: what settings say of it, and what `open_store` needs to know."""

from dataclasses import dataclass
from pathlib import Path

from wakegate_schema.queue import QueueLocation
from wakegate_schema.setting_types import is_postgresql, sqlite_path

EMBEDDED = QueueLocation()
"""The queue that is the store itself."""


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A store's place. Nothing in it is secret: a password is in a file of its own."""

    url: str
    """`sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`."""
    password_file: Path | None = None
    """PostgreSQL's password; None where the server asks for none, or libpq finds one (a password file)."""
    queue: QueueLocation = EMBEDDED
    """What carries hints to the workers on this store."""

    @property
    def is_postgresql(self) -> bool:
        """Whether the store is in PostgreSQL."""
        return is_postgresql(self.url)

    @property
    def file(self) -> Path | None:
        """SQLite's file; None for a store in PostgreSQL."""
        return None if self.is_postgresql else sqlite_path(self.url)

    @property
    def name(self) -> str:
        """What messages call the store: its file's whole path, or its URL."""
        return self.url if self.file is None else str(self.file.absolute())
