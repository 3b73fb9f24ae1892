"""`wakegate demo` on a PostgreSQL and a Redis that it is given: the same loop, and nothing of others' touched."""

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console import Console, command, environment, run
from support.desk import Desk
from support.ports import free_port
from support.servers import PgBouncer, PostgresServer, RedisServer
from support.servers.process import until
from wakegate_schema.store import migrate_store, open_store
from wakegate_schema.store.location import StoreLocation

ENDS = "All 9 calls ended as they must; 5 refunds were made, each once, and none beside them.\n"
PASSWORD = "planted-password-88c1"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a name short enough for a socket below it."""
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as name:
        yield Path(name)


def schemas(server: PostgresServer, url: str) -> list[str]:
    """The schemas of demos in a database."""
    database = url.partition("?")[0].rpartition("/")[2]
    statement = "SELECT array_agg(nspname::text) FROM pg_namespace WHERE nspname LIKE 'wakegate%%'"
    return server.ask(statement, database=database) or []


@pytest.fixture
def guarded() -> Iterator[tuple[PostgresServer, RedisServer]]:
    """Servers that ask for a password."""
    with (
        PostgresServer(listen="127.0.0.1", password=PASSWORD) as postgres,
        RedisServer(listen="127.0.0.1", password=PASSWORD) as redis,
    ):
        yield postgres, redis


def test_the_loop_runs_beside_a_store_in_use_and_leaves_nothing(
    console: Console, folder: Path, guarded: tuple[PostgresServer, RedisServer]
) -> None:
    """Both servers ask for a password, which comes from files and is in nothing that is said."""
    server, redis = guarded
    right, wrong = console.secret_file("right", PASSWORD), console.secret_file("wrong", "planted-wrong-word")
    location = StoreLocation(server.tcp_url(), right)

    async def fill() -> str:
        await migrate_store(location)
        async with await open_store(location, mode="service") as store:
            return (await (await Desk(store).open()).save()).execution_id

    async def look() -> list[str]:
        async with await open_store(location, mode="read") as store:
            return [execution.execution_id for _, execution in await store.latest_executions()]

    saved = asyncio.run(fill())
    refused = console("demo", "--database", location.url, "--database-password-file", str(wrong))
    given = ["--database", location.url, "--database-password-file", str(right)]
    given += ["--queue", redis.tcp_url(), "--queue-password-file", str(right)]
    ran = run(folder, "demo", *given, settings={"TMPDIR": str(folder)})
    assert refused.code == 2
    assert (ran.code, ran.err) == (0, ""), ran.out
    assert ran.out.endswith(ENDS)
    assert asyncio.run(look()) == [saved]
    assert schemas(server, location.url) == []
    assert list(folder.iterdir()) == []
    assert not [each for each in (PASSWORD, "planted-wrong-word") if each in ran.out + refused.out + refused.err]
    with redis.client() as client:
        assert client.smembers("rq:queues") == set()
        assert all(client.ttl(each) > 0 for each in client.scan_iter()), "what RQ leaves ends by itself"


def test_the_database_may_be_elsewhere_alone(folder: Path, postgres_url: str) -> None:
    stage = folder / "kept"
    ran = run(folder, "demo", "--database", postgres_url, "--keep", str(stage))
    assert ran.code == 0, ran.err + ran.out
    kept = environment(folder)
    del kept["WAKEGATE_DATABASE"]
    listed = subprocess.run(
        command("--config", str(stage / "wakegate.toml"), "execution", "list", "--json"),
        cwd=folder, env=kept, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert listed.stdout.count('"execution_id"') == 9
    assert "DROP SCHEMA wakegate_demo_" in ran.out


def begun(folder: Path, words: str, *arguments: str) -> subprocess.Popen[str]:
    """A demo that is kept, and has come to where it says this."""
    demo = subprocess.Popen(
        command("demo", *arguments, "--keep", str(folder / "kept")),
        cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert demo.stdout is not None
    next(line for line in demo.stdout if words in line)
    return demo


def interrupted(demo: subprocess.Popen[str]) -> str:
    """Interrupt it; return what else it said."""
    demo.send_signal(signal.SIGTERM)
    out, err = demo.communicate(timeout=30)
    assert (demo.returncode, err) == (130, "")
    return out


def test_the_queue_may_be_elsewhere_alone(folder: Path, redis_server: RedisServer, queue_url: str) -> None:
    """Its worker listens there, the store is a file; how calls go through a Redis is seen with both elsewhere."""
    demo = begun(folder, "harness saves", "--queue", queue_url)
    assert (folder / "kept" / "wakegate.db").exists()
    with redis_server.client(int(queue_url.partition("db=")[2])) as client:
        until(lambda: any(client.scan_iter("rq:workers:wakegate-wakegate_demo_*")), "no worker listens")
        assert "DROP SCHEMA" not in interrupted(demo)
        assert client.smembers("rq:queues") == set()


def test_an_interrupted_demo_removes_what_it_made(
    folder: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    demo = begun(folder, "starting provider", "--database", postgres_url)
    assert len(schemas(postgres_server, postgres_url)) == 1
    interrupted(demo)
    assert schemas(postgres_server, postgres_url) == []


def test_a_pooler_that_would_lead_to_another_store_is_refused(
    console: Console, postgres_server: PostgresServer, empty_store_url: str
) -> None:
    name = empty_store_url.partition("?")[0].rpartition("/")[2]
    with PgBouncer(postgres_server) as pooler:
        ran = console("demo", "--database", pooler.url(name))
    assert ran.code == 1
    assert "Name the server itself" in ran.err
    assert schemas(postgres_server, empty_store_url) == []


def test_a_redis_that_does_not_answer_is_told_before_anything_is_shown(console: Console) -> None:
    ran = console("demo", "--queue", f"redis://127.0.0.1:{free_port()}")
    assert (ran.code, ran.out) == (1, "")
    assert "redis_unreachable" in ran.err
    assert "see that Redis runs" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--database", "sqlite:///here.db"], "must be postgresql://"),
        (["--database", "postgresql://w:secret-word@h/w"], "must not hold a password"),
        (["--database", "postgresql://w@h/w?options=-csearch_path%3Dx"], "must have no ?options"),
        (["--queue", "amqp://h"], "must be embedded"),
        (["--queue", "redis://:secret-word@h"], "must not hold a password"),
    ],
)
def test_an_address_that_cannot_be_is_a_usage_error(console: Console, arguments: list[str], words: str) -> None:
    ran = console("demo", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "secret-word" not in ran.err
