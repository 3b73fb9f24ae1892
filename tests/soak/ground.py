"""The ground that a soak stands on: which database, and which queue."""

from dataclasses import dataclass
from typing import Final, Literal

Database = Literal["sqlite", "postgresql"]
Queue = Literal["embedded", "redis"]


@dataclass(frozen=True, slots=True)
class Ground:
    """One kind of ground."""

    database: Database = "sqlite"
    queue: Queue = "embedded"

    def __str__(self) -> str:
        """Its name."""
        return f"{self.database}+{self.queue}"

    @property
    def is_postgresql(self) -> bool:
        """Whether the store is in PostgreSQL."""
        return self.database == "postgresql"

    @property
    def has_redis(self) -> bool:
        """Whether hints go through Redis."""
        return self.queue == "redis"


HOME: Final = Ground()
"""One machine."""
