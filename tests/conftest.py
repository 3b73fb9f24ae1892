"""Fixtures that every folder of tests shares."""

import asyncio
import gc
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from support import ordering
from support.rooms import room
from wakegate_schema.store import Store, StoreLocation, migrate_store, open_store

if TYPE_CHECKING:  # most processes of a run start no server, and the drivers take their time
    from support.servers import PostgresServer, RedisServer
    from support.servers.emptied import EmptyStores

# What a run compiles of its tests it keeps for the next, whatever the environment says: a third of the collection.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # for the processes that tests start

# No test goes by the machine's certificate authorities or by plugins of pydantic, and a process that aiohttp need not
# read the first for, nor pydantic look through every installed package for the second, starts a fifth sooner.
os.environ |= {"SSL_CERT_FILE": "", "SSL_CERT_DIR": "", "PYDANTIC_DISABLE_PLUGINS": "__all__"}

# Folders of tests lie in memory, so that no commit of a small store waits for a disk.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", room(programs=True) or tempfile.gettempdir())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: that takes a third of the time, and what is collected stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the longest tests early: where several processes share them, the last that ends is waited for."""
    if processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        items[:] = ordering.ordered(items, processes)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Keep how long the tests took, if that is asked for: `support.ordering`."""
    if os.environ.get("WAKEGATE_TEST_DURATIONS"):
        reports = [report for reports in terminalreporter.stats.values() for report in reports]
        took: dict[str, float] = defaultdict(float)
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[report.nodeid] += report.duration
        ordering.write(took.items())


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    """Put logging back as it was: `logs.configure` sets it up for the whole process."""
    root, access = logging.getLogger(), logging.getLogger("aiohttp.access")
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)
    access.disabled = False
    access.propagate = True


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a database that does not exist yet."""
    return f"sqlite:///{tmp_path}/wakegate.db"


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an empty store, to copy."""
    path = tmp_path_factory.mktemp("empty") / "wakegate.db"
    asyncio.run(migrate_store(f"sqlite:///{path}"))
    return path


@pytest.fixture
async def store(database: str, empty_file: Path) -> AsyncIterator[Store]:
    """A real store in a real file, or in the database that a test asks for."""
    path = StoreLocation(database).file
    if path is not None and not path.exists():
        shutil.copy(empty_file, path)
        path.chmod(0o660)
    async with await open_store(database, mode="service") as opened:
        yield opened


@pytest.fixture(scope="session", autouse=True)
def kept_clusters(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the processes of a run share what `initdb` makes: `support.servers.clusters`."""
    own = tmp_path_factory.getbasetemp()
    os.environ["PYTEST_KEPT_CLUSTERS"] = str((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "clusters")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["PostgresServer"]:
    """A PostgreSQL server without fsync for all tests of this process; one that kills it starts its own."""
    from support.servers import PostgresServer

    with PostgresServer(settings={"autovacuum": "off"}) as server:  # its stores are emptied before they grow
        yield server


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer") -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    name = postgres_server.create_database(f"test_{secrets.token_hex(6)}")
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def empty_store(postgres_server: "PostgresServer") -> str:
    """The name of a database with an empty store, to copy."""
    name = postgres_server.create_database("empty_store")
    asyncio.run(migrate_store(postgres_server.url(name)))
    return name


@pytest.fixture(scope="session")
def empty_stores(postgres_server: "PostgresServer", empty_store: str) -> Iterator["EmptyStores"]:
    """Gives out empty stores in PostgreSQL, and takes them back."""
    from support.servers.emptied import EmptyStores

    with EmptyStores(postgres_server, empty_store) as stores:
        yield stores


@pytest.fixture
def empty_store_url(empty_stores: "EmptyStores") -> Iterator[str]:
    """The URL of an empty store of the test's own, in PostgreSQL."""
    with empty_stores.store() as url:
        yield url


@pytest.fixture
def new_store_url(postgres_server: "PostgresServer", empty_store: str) -> Iterator[str]:
    """The URL of an empty store that nobody has ever used, in PostgreSQL."""
    name = postgres_server.create_database(f"new_{secrets.token_hex(6)}", template=empty_store)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator["RedisServer"]:
    """A Redis server that keeps nothing for all tests of this process; one that kills it starts its own."""
    from support.servers import RedisServer

    with RedisServer() as server:
        yield server


@pytest.fixture
def queue_url(redis_server: "RedisServer") -> Iterator[str]:
    """The URL of an empty Redis database, one of many, so that a process of another test is not in it."""
    database = secrets.randbelow(64)
    with redis_server.client(database) as client:
        client.flushdb()
        yield redis_server.url(database)
        client.flushdb()
