"""The grounds that worlds stand on: which database and which queue."""

import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from wakegate_schema.store import migrate_store

if TYPE_CHECKING:
    from support.servers import RedisServer
    from support.servers.emptied import EmptyStores

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


@dataclass(frozen=True)
class Servers:
    """What worlds away from home stand on."""

    stores: "EmptyStores"
    redis: "RedisServer"


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
    stores: "EmptyStores | None" = None
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
        assert self.stores is not None, "no PostgreSQL was started for this ground"
        return stack.enter_context(self.stores.store())

    def _queue(self) -> str:
        assert self.redis is not None, "no Redis was started for this ground"
        number = next(self._queues) % 64  # more than there are worlds at once
        with self.redis.client(number) as client:
            client.flushdb()
        return self.redis.url(number)


@asynccontextmanager
async def land(folder: Path, servers: Servers | None = None) -> AsyncIterator[Land]:
    """Prepare for worlds, in an empty folder; without servers those of `HOME` only."""
    await migrate_store(f"sqlite:///{folder}/{DATABASE}")
    yield Land(folder, *((servers.stores, servers.redis) if servers else ()))


@asynccontextmanager
async def servers() -> AsyncIterator[Servers]:
    """Start the servers, for all that runs meanwhile."""
    from support.servers import PostgresServer, RedisServer  # here: the drivers take their time
    from support.servers.emptied import EmptyStores

    with PostgresServer() as postgres, RedisServer() as redis:
        await migrate_store(postgres.url(postgres.create_database(TEMPLATE)))
        with EmptyStores(postgres, TEMPLATE) as stores:
            yield Servers(stores, redis)
