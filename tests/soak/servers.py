"""The servers of a soak: PostgreSQL with fsync, a pooler in front of it, Redis; whichever the ground needs."""

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soak.ground import Ground

if TYPE_CHECKING:  # most soaks in CI start none, and the drivers take their time
    from support.servers import PgBouncer, PostgresServer, RedisServer

DATABASE: Final = "wakegate"
_POOLER: Final = {"server_login_retry": "1"}
"""Or it lets nobody in for 15 s after it has found no server."""


class Servers:
    """What stands beside the services, and is killed, stopped, emptied and filled as they are."""

    def __init__(self, ground: Ground) -> None:
        """Take the ground; nothing runs yet."""
        self._ground = ground
        self._stack = ExitStack()
        self._postgres: PostgresServer | None = None
        self._pooler: PgBouncer | None = None
        self._redis: RedisServer | None = None

    def start(self) -> None:
        """Start them all, with an empty database."""
        if self._ground.is_postgresql:
            from support.servers import PgBouncer, PostgresServer

            self._postgres = self._stack.enter_context(PostgresServer(durable=True))
            self._postgres.create_database(DATABASE)
            self._pooler = self._stack.enter_context(PgBouncer(self._postgres, pool=8, settings=_POOLER))
        if self._ground.has_redis:
            from support.servers import RedisServer

            self._redis = self._stack.enter_context(RedisServer())

    @property
    def postgres(self) -> "PostgresServer":
        """The database's server."""
        if self._postgres is None:
            raise LookupError(f"{self._ground} has no PostgreSQL")
        return self._postgres

    @property
    def pooler(self) -> "PgBouncer":
        """The pooler in front of it; it pools transactions."""
        if self._pooler is None:
            raise LookupError(f"{self._ground} has no PgBouncer")
        return self._pooler

    def lets_in(self) -> bool:
        """Return whether a client that comes to the pooler now gets to the database."""
        import psycopg

        try:
            with psycopg.connect(self.pooler.url(DATABASE), connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    @property
    def redis(self) -> "RedisServer":
        """The queue's server, which keeps nothing on disk."""
        if self._redis is None:
            raise LookupError(f"{self._ground} has no Redis")
        return self._redis

    def keep(self, folder: Path) -> None:
        """Leave what they hold and what they have said in a folder, where that can be had."""
        for name, server in (("postgresql", self._postgres), ("pgbouncer", self._pooler), ("redis", self._redis)):
            if server is not None and server.log.exists():
                shutil.copy(server.log, folder / f"{name}.log")
        if self._postgres is not None and self._postgres.alive:
            dump = [str(self._postgres.bin_folder / "pg_dump"), f"--file={folder / 'store.sql'}"]
            subprocess.run([*dump, self._postgres.url(DATABASE)], check=False, capture_output=True)

    def close(self) -> None:
        """End them, and remove all that they had."""
        self._stack.close()
