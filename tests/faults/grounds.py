"""The grounds that worlds stand on: which database and which queue."""

import itertools
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from wakegate_schema.store import migrate_store

if TYPE_CHECKING:
    from support.servers import PostgresServer, RedisServer

Database = Literal["sqlite", "postgresql"]
Queue = Literal["embedded", "redis"]

DATABASE: Final = "wakegate.db"
TEMPLATE: Final = "template"


@dataclass(frozen=True)
class Ground:
    """One kind of ground."""

    database: Database
    queue: Queue

    def __str__(self) -> str:
        """Its name."""
        return f"{self.database}+{self.queue}"


HOME: Final = Ground("sqlite", "embedded")
"""One machine."""
FARTHEST: Final = Ground("postgresql", "redis")
"""What differs most from one machine."""
GROUNDS: Final = (HOME, Ground("sqlite", "redis"), Ground("postgresql", "embedded"), FARTHEST)


@dataclass
class Place:
    """Where one world stands."""

    ground: Ground
    url: str
    """The store's."""
    settings: dict[str, str]
    """What the processes in the world are told of it."""


@dataclass
class Land:
    """Everything that worlds of some grounds stand on: a store to copy, and the servers."""

    folder: Path
    postgres: "PostgresServer | None" = None
    redis: "RedisServer | None" = None
    _queues: "itertools.count[int]" = field(default_factory=itertools.count)

    @asynccontextmanager
    async def place(self, ground: Ground, folder: Path, *, fresh: bool) -> AsyncIterator[Place]:
        """Make the store of a world in its folder, or in a database of its own, and remove it afterwards.

        Args:
            ground: of the world.
            folder: the world's.
            fresh: a service is to make the store, where services do that: PostgreSQL's is made by `db migrate` only.
        """
        with ExitStack() as stack:
            if ground.database == "sqlite":
                url = f"sqlite:///{folder}/{DATABASE}"
                if not fresh:
                    shutil.copy(self.folder / DATABASE, folder / DATABASE)
            else:
                url = self._database(stack)
            settings = {"WAKEGATE_DATABASE": url}
            if ground.queue == "redis":
                settings["WAKEGATE_QUEUE"] = self._queue()
            yield Place(ground, url, settings)

    def _database(self, stack: ExitStack) -> str:
        assert self.postgres is not None, "no PostgreSQL was started for this ground"
        name = self.postgres.create_database(f"world_{secrets.token_hex(6)}", template=TEMPLATE)
        stack.callback(self.postgres.drop_database, name)
        return self.postgres.url(name)

    def _queue(self) -> str:
        assert self.redis is not None, "no Redis was started for this ground"
        number = next(self._queues) % 64  # more than there are worlds at once
        with self.redis.client(number) as client:
            client.flushdb()
        return self.redis.url(number)


@asynccontextmanager
async def land(folder: Path, *grounds: Ground) -> AsyncIterator[Land]:
    """Prepare for worlds of these grounds, in an empty folder."""
    found = Land(folder)
    await migrate_store(f"sqlite:///{folder}/{DATABASE}")
    with ExitStack() as stack:
        if any(ground.database == "postgresql" for ground in grounds):
            from support.servers import PostgresServer  # here: the driver takes its time

            found.postgres = stack.enter_context(PostgresServer())
            name = found.postgres.create_database(TEMPLATE)
            await migrate_store(found.postgres.url(name))
        if any(ground.queue == "redis" for ground in grounds):
            from support.servers import RedisServer

            found.redis = stack.enter_context(RedisServer())
        yield found
