"""A network for tests: each party on a host of its own, PostgreSQL with a standby, and Redis."""

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import product
from typing import Final, Self

from support.hosts import Hosts
from support.servers import PostgresServer, RedisServer, binaries

HOSTS: Final = ("pg1", "pg2", "queue", "provider", "client", "east", "west", "north", "south")
"""Two for PostgreSQL, then Redis, the provider, who pushes, two receivers, two workers."""
POSTGRES_PORT: Final = 5432
REDIS_PORT: Final = 6379
PATIENCE: Final = "connect_timeout=2&tcp_user_timeout=3000&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"
"""A server that falls silent is noticed within three seconds here; without these words it takes ten."""


class Network:
    """The hosts and the servers on them; a context manager. Skips the test where hosts cannot be cut off."""

    primary: PostgresServer
    redis: RedisServer

    def __init__(self) -> None:
        self.hosts = Hosts(*HOSTS)
        self.primary_on, self.standby_on = "pg1", "pg2"
        """On which host each is."""
        self.standby: PostgresServer | None = None
        self.old: PostgresServer | None = None
        """What was the primary before the standby was promoted, as it is."""
        self._cut: set[tuple[str, str | None]] = set()
        self._end = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as failing:
            failing.callback(self._end.close)
            self._end.enter_context(self.hosts)
            if not self.hosts.separate:
                binaries.missing("a network namespace", "run the tests as root, or allow user namespaces")
            where = self.hosts["pg1"]
            self.primary = PostgresServer(listen=where.address, port=POSTGRES_PORT, inside=where.prefix)
            self._end.enter_context(self.primary)
            where = self.hosts["queue"]
            self.redis = RedisServer(listen=where.address, port=REDIS_PORT, inside=where.prefix)
            self._end.enter_context(self.redis)
            failing.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.close()

    def url(self, database: str) -> str:
        """The URL of a database wherever the primary is."""
        hosts = ",".join(f"{self.hosts[name].address}:{POSTGRES_PORT}" for name in ("pg1", "pg2"))
        return f"postgresql://postgres@{hosts}/{database}?{PATIENCE}"

    def ready(self) -> None:
        """Have every cable whole, and a primary whose commits wait for the standby; a former primary becomes that."""
        self.heal_all()
        if self.old is not None:
            self.old.close()
            self.old = None
        if self.standby is None:
            where = self.hosts[self.standby_on]
            self.standby = self.primary.standby(
                self.standby_on, listen=where.address, port=POSTGRES_PORT, inside=where.prefix
            )
            self._end.enter_context(self.standby)
        self.primary.set_synchronous(self.standby_on)
        self.primary.wait_until_synchronous(self.standby_on)

    def cut(self, one: str, other: str | None = None) -> None:
        """See `Hosts.cut`."""
        self._cut.add((one, other))
        self.hosts.cut(one, other)

    def heal(self, one: str, other: str | None = None) -> None:
        """See `Hosts.heal`."""
        self._cut.discard((one, other))
        self.hosts.heal(one, other)

    def part(self, ones: Iterable[str], others: Iterable[str]) -> None:
        """Cut the network in two; hosts that are named on neither side reach both."""
        for one, other in product(ones, others):
            self.cut(one, other)

    def heal_all(self) -> None:
        """Undo every cut."""
        for one, other in list(self._cut):
            self.heal(one, other)

    def promote(self) -> PostgresServer:
        """Make the standby the primary; return what was the primary, which nobody has told."""
        assert self.standby is not None
        self.standby.promote()
        self.old, self.primary, self.standby = self.primary, self.standby, None
        self.primary_on, self.standby_on = self.standby_on, self.primary_on
        return self.old
