"""The doctor and real PostgreSQL and Redis servers, set up well and wrongly."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.clinic import Diagnosis, diagnosed
from support.console import Console
from support.servers import PgBouncer, PostgresServer, RedisServer
from wakegate_schema import clock
from wakegate_schema.queue.job import Hints
from wakegate_schema.store import migrate_store, open_store
from wakegate_worker.hints.rq_worker import PoolWorker

PLANTED = "planted-password-51aa"


@pytest.fixture
def at(console: Console) -> Console:
    """The command; its store is where a test says by `use`."""
    return console


def use(console: Console, url: str, password: str | None = None) -> None:
    """Name a store in PostgreSQL."""
    console.set("WAKEGATE_DATABASE", url)
    if password is not None:
        console.set("WAKEGATE_DATABASE_PASSWORD_FILE", str(console.secret_file("pg", password)))


def offline(console: Console) -> Diagnosis:
    """What the doctor says of the store alone."""
    return diagnosed(console, "--offline")


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """A server whose settings tests change, with a store in it."""
    with PostgresServer(durable=True, settings={"max_connections": "20"}) as server:
        asyncio.run(migrate_store(server.url(server.create_database("wakegate"))))
        server.ask("CREATE ROLE clerk LOGIN", database="wakegate")
        server.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk", database="wakegate")
        yield server


def clerk(server: PostgresServer) -> str:
    """The URL for a role with the rights that services need."""
    return server.url("wakegate").replace("postgres@", "clerk@")


def test_a_server_set_up_well_is_well(at: Console, own: PostgresServer) -> None:
    use(at, clerk(own))
    found = offline(at)
    said = {name: each.verdict for name in found.found if name.startswith("postgresql.") for each in found.found[name]}
    assert said.pop("postgresql.standbys") == "note", "its disk is the only copy"
    assert set(said.values()) == {"ok"}
    assert len(said) == 10
    assert {"store.schema", "store.epoch", "store.doubts", "clock.host"} <= found.found.keys(), "the store is read"
    assert not {"store.file", "store.wal", "users.folder", "users.files"} & found.found.keys(), "there is no file"
    assert list(at.directory.iterdir()) == []


def test_settings_that_lose_what_was_confirmed(at: Console, own: PostgresServer) -> None:
    use(at, clerk(own))
    own.configure(fsync="off", full_page_writes="off", autovacuum="off")
    with PostgresServer.connect(own, "wakegate"):
        try:
            found = offline(at)
        finally:
            own.configure(fsync="on", full_page_writes="on", autovacuum="on")
    assert "acknowledged notifications are gone" in found.of("postgresql.durability", "problem")
    assert "ALTER SYSTEM SET fsync = on" in found.of("postgresql.durability", "problem")
    assert "slows down without end" in found.of("postgresql.upkeep", "warning")


def test_a_server_with_few_connections_left(at: Console, own: PostgresServer) -> None:
    use(at, clerk(own))
    open_ones = [own.connect("wakegate") for _ in range(15)]
    try:
        said = offline(at).of("postgresql.connections", "warning")
    finally:
        for each in open_ones:
            each.close()
    assert "of the server's 17 connections" in said


def test_a_role_that_lacks_rights_and_one_with_too_many(at: Console, own: PostgresServer) -> None:
    own.ask("CREATE ROLE reader LOGIN", database="wakegate")
    own.ask("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", database="wakegate")
    use(at, own.url("wakegate").replace("postgres@", "reader@"))
    said = offline(at).of("postgresql.role", "problem")
    assert "reader lacks DELETE on" in said
    assert "GRANT SELECT, INSERT, UPDATE, DELETE" in said
    use(at, own.url("wakegate"))
    assert "superuser" in offline(at).of("postgresql.role", "note")


def test_the_rights_that_are_asked_for_are_enough_to_work(own: PostgresServer) -> None:
    async def work() -> None:
        async with await open_store(clerk(own), mode="service") as store:
            await store.probe()
            await store.sweep(clock.now())
            await store.prune(clock.now(), 0)

    asyncio.run(work())


def test_standbys_that_lose_commits_confirm_them_or_hold_them_up(at: Console, own: PostgresServer) -> None:
    use(at, own.url("wakegate"))
    with own.standby("one") as standby:
        said = offline(at).of("postgresql.standbys", "warning")
        assert "none synchronous" in said
        assert "wakegate db promoted" in said
        own.set_synchronous("one")
        try:
            own.wait_until_synchronous("one")
            assert "(one)" in offline(at).of("postgresql.standbys", "ok")
            use(at, clerk(own))
            assert "pg_read_all_stats" in offline(at).of("postgresql.standbys", "note")
            use(at, standby.url("wakegate"))
            found = offline(at)
            assert "nothing can be acknowledged" in found.of("postgresql.primary", "problem")
            assert "postgresql.commit" not in found.found, "a standby takes none"
            assert found.one("store.epoch").verdict == "ok", "it can be read all the same"
            standby.stop()
            use(at, own.url("wakegate"))
            found = offline(at)
        finally:
            own.set_synchronous("")
    assert "none is there: nothing is acknowledged" in found.of("postgresql.standbys", "problem")
    assert "was not confirmed" in found.of("postgresql.commit", "problem")


def test_a_pooler_is_noticed_and_harmless(at: Console, own: PostgresServer) -> None:
    with PgBouncer(own) as pooler:
        use(at, pooler.url("wakegate"))
        found = offline(at)
    assert "a pooler stands before" in found.of("postgresql.pooler", "ok")
    assert found.one("store.schema").verdict == "ok"


def test_another_clock_than_the_servers(at: Console, own: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    use(at, clerk(own))
    file = at.directory / "clock"
    monkeypatch.setattr(clock, "_set_apart_by", str(file))
    file.write_text("-30000000")
    assert "behind the server's" in offline(at).of("postgresql.clocks", "warning")
    file.write_text("+90000000")
    assert "ahead of the server's" in offline(at).of("postgresql.clocks", "problem")


def test_databases_without_a_store_with_an_old_one_and_with_one_that_was_moved(
    at: Console, own: PostgresServer
) -> None:
    use(at, own.url(own.create_database("empty")))
    assert "wakegate db migrate" in offline(at).of("store.schema", "problem")
    name = own.create_database("other", template="wakegate")
    use(at, own.url(name))
    own.ask("INSERT INTO migration VALUES (99, 'later', 1, 4)", database=name)
    found = offline(at)
    assert "made by a newer wakegate" in found.of("store.schema", "note")
    assert found.one("store.epoch").verdict == "ok", "what is in it can still be read"
    own.ask("UPDATE migration SET oldest = 99 WHERE number = 99", database=name)
    found = offline(at)
    assert found.of("store.schema", "problem").endswith("upgrade this one")
    assert "store.epoch" not in found.found


def test_a_store_that_was_copied_and_closed(at: Console) -> None:
    asyncio.run(migrate_store(at.database))
    with closing(sqlite3.connect(at.directory / "wakegate.db")) as raw:
        columns = [row[1] for row in raw.execute("PRAGMA table_info(moved)")]
        values = {"id": 1, "at": 1, "to": "postgresql://w@db/w", "epoch": 2}
        marks = ", ".join("?" for _ in columns)
        raw.execute(f"INSERT INTO moved VALUES ({marks})", [values[each] for each in columns])
        raw.commit()
    assert "copied to postgresql://w@db/w" in offline(at).of("store.moved", "problem")


def test_a_server_that_is_not_there_or_lets_nobody_in(at: Console, tmp_path: Path) -> None:
    use(at, f"postgresql://w@/w?host={tmp_path}")
    found = offline(at)
    assert found.one("postgresql.reach").verdict == "problem"
    assert not any(name.startswith("postgresql.") for name in found.found if name != "postgresql.reach")
    with PostgresServer(listen="127.0.0.1", password=PLANTED) as server:
        use(at, server.tcp_url(), "wrong-password-77")
        found = offline(at)
        assert "pg_hba.conf" in found.of("postgresql.reach", "problem")
        use(at, server.tcp_url(), PLANTED)
        right = offline(at)
    assert right.one("postgresql.reach").verdict == "ok"
    assert "wrong-password-77" not in found.ran.out + found.ran.err
    assert PLANTED not in right.ran.out + right.ran.err
    (at.directory / "pg").chmod(0o644)
    assert "can be used by others" in offline(at).of("keys.secrets", "problem")


def test_a_redis_with_a_policy_users_and_a_password(at: Console) -> None:
    settings = {"maxmemory": "8mb", "maxmemory-policy": "allkeys-lru"}
    users = [f"clerk on >{PLANTED} ~* +@all -info"]
    with RedisServer(listen="127.0.0.1", password=PLANTED, settings=settings, users=users) as server:
        at.set("WAKEGATE_QUEUE", server.tcp_url())
        found = diagnosed(at)
        assert "redis_refused" in found.of("queue.reach", "problem")
        assert "nothing is lost" in found.of("queue.reach", "problem")
        at.set("WAKEGATE_QUEUE_PASSWORD_FILE", str(at.secret_file("redis", PLANTED)))
        found = diagnosed(at)
        assert "throw hints away before anybody takes them; nothing is lost" in found.of("queue.memory", "ok")
        assert "asks for a password" in found.of("queue.login", "ok")
        assert "keeps nothing over a restart" in found.of("queue.persistence", "ok")
        server.configure(maxmemory="1", maxmemory_policy="noeviction")
        assert "it refuses hints" in diagnosed(at).of("queue.memory", "warning")
        at.set("WAKEGATE_QUEUE", server.tcp_url().replace("redis://", "redis://clerk@"))
        unasked = diagnosed(at)
        assert "the command INFO" in unasked.of("queue.reach", "note")
        assert "queue.memory" not in unasked.found
        with server.client() as client:
            client.config_set("maxmemory", "0")
            client.replicaof("127.0.0.1", "1")
        at.set("WAKEGATE_QUEUE", server.tcp_url())
        assert "replica" in diagnosed(at).of("queue.reach", "problem")
    assert PLANTED not in found.ran.out + found.ran.err
    assert "redis_unreachable" in diagnosed(at).of("queue.reach", "problem")


def test_who_waits_for_hints_and_what_lies_there(at: Console, redis_server: RedisServer, queue_url: str) -> None:
    at.set("WAKEGATE_QUEUE", queue_url)
    assert "0 workers listen" in diagnosed(at).of("queue.listeners", "note")
    database = int(queue_url.partition("db=")[2])
    with redis_server.client(database) as client:
        PoolWorker(client, "default", "one").announce()
        Hints(client, "heavy").send()
        found = diagnosed(at)
    assert "pool default: 1 worker listens, 0 hints lie" in found.of("queue.listeners", "ok")
    assert "pool heavy: 0 workers listen, 1 hint lies" in found.of("queue.listeners", "warning")


def test_the_embedded_queue_is_fine(at: Console) -> None:
    found = diagnosed(at)
    assert "embedded" in found.of("queue.reach", "ok")
    assert not any(name.startswith(("queue.", "postgresql.")) for name in found.found if name != "queue.reach")
