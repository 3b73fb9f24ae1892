"""Fixtures that every folder of tests shares."""

import asyncio
import gc
import logging
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from wakegate_schema.store import Store, StoreLocation, migrate_store, open_store

if TYPE_CHECKING:  # most processes of a run start no server, and the drivers take their time
    from support.servers import PostgresServer, RedisServer
    from support.servers.emptied import EmptyStores

# What a run compiles of its tests it keeps for the next, whatever the environment says: a third of the collection.
sys.dont_write_bytecode = False

# No test goes by the machine's certificate authorities or by plugins of pydantic, and a process that aiohttp need not
# read the first for, nor pydantic look through every installed package for the second, starts a fifth sooner.
os.environ |= {"SSL_CERT_FILE": "", "SSL_CERT_DIR": "", "PYDANTIC_DISABLE_PLUGINS": "__all__"}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: that takes a third of the time, and what is collected stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


LONGEST = (
    "test_scale_containers.py", "test_every_point.py", "test_many.py", "test_copy_crashes.py", "test_both_stores.py",
    "test_services_on_postgresql.py", "test_systemd_elsewhere.py", "test_demo_elsewhere.py", "test_model.py",
)  # fmt: skip
"""The files whose tests take longest, each test for itself, the very longest first."""
APART = 60
"""How many other tests lie between two of the longest, at least."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the longest tests early and apart from each other, so that the others run beside them."""
    long = sorted((item for item in items if item.path.name in LONGEST), key=lambda item: LONGEST.index(item.path.name))
    rest = [item for item in items if item.path.name not in LONGEST]
    items[:] = []
    due = 0
    for index, item in enumerate(rest):
        begins = index == 0 or item.path != rest[index - 1].path  # what a module shares is not made twice for this
        if long and begins and index >= due:
            items.append(long.pop(0))
            due = index + APART
        items.append(item)
    items += long


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
