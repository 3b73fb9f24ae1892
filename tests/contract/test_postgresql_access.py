"""Who may come to a store in PostgreSQL, and how: roles, passwords, TLS, hosts; and settings that ours win over."""

import asyncio
import ssl
import traceback
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from support.certificates import certificate
from support.desk import Desk, new_id
from support.outages import administrating, database_name
from support.postgres_line import line
from support.servers import PostgresServer
from support.servers.process import until
from wakegate_schema import clock
from wakegate_schema.records import Outcome
from wakegate_schema.store import StoreError, StoreMissing, StoreUnavailable, migrate_store, open_store
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.errors import StoreDenied, StoreMisplaced
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.backup import back_up_postgresql
from wakegate_schema.store.postgresql.engine import TURN, PostgresEngine
from wakegate_schema.store.postgresql.snapshot import postgresql_snapshot
from wakegate_schema.store.queries import load_store

PAGE = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text(encoding="utf-8")
PASSWORD = "correct horse battery staple".replace(" ", "-")

HOSTILE = {
    "synchronous_commit": "off",
    "statement_timeout": "150ms",
    "lock_timeout": "10ms",
    "idle_in_transaction_session_timeout": "10ms",
    "default_transaction_isolation": "serializable",
    "client_min_messages": "error",
    "array_nulls": "off",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
}
"""What a database or a role may have set, and must not get its way with."""


def set_on_database(database: str, settings: dict[str, str]) -> None:
    """Set a database's own defaults."""
    with administrating(database) as connection:
        for name, value in settings.items():
            statement = sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                sql.Identifier(database_name(database)), sql.Identifier(name), sql.Literal(value)
            )
            connection.execute(statement)


async def test_what_a_database_has_set_does_not_change_what_a_commit_means(database: str) -> None:
    set_on_database(database, HOSTILE)
    async with await open_store(database, mode="use") as store:
        desk = await Desk(store).open()
        assert (await store.record(desk.arrival(new_id()))).kind == "saved"
        with psycopg.connect(
            database, options="-c idle_in_transaction_session_timeout=0 -c statement_timeout=0"
        ) as other:
            other.execute(f"SELECT pg_advisory_xact_lock({TURN})".encode())
            recording = asyncio.ensure_future(store.record(desk.arrival(new_id())))
            done, _ = await asyncio.wait([recording], timeout=0.4)  # longer than any of the timeouts that were set
            assert not done
        assert (await recording).kind == "saved"
        found = await store.notifications()
        assert [notification.reason for _, notification in found] == [None, None]
        done_call = await desk.started()
        await store.finish(done_call.lease, Outcome("succeeded", "returned", b'{"a": "\\u0000"}'), clock.now())
        assert (await store.execution(done_call.execution_id)).result == b'{"a": "\\u0000"}'
    with closing(PostgresEngine(StoreLocation(database), load_store(POSTGRESQL))) as engine, engine.transaction():
        assert engine._connection is not None
        shown = {
            name: engine._connection.execute(f"SHOW {name}".encode()).fetchone()
            for name in ("synchronous_commit", "statement_timeout", "transaction_isolation", "transaction_read_only")
        }
    assert [(row or {}).get(name) for name, row in shown.items()] == ["on", "0", "read committed", "off"]


@pytest.mark.parametrize("messages", ["notice", "error"])
async def test_a_wait_for_a_standby_that_somebody_ends_is_no_promise(
    database: str, postgres_server: PostgresServer, messages: str
) -> None:
    set_on_database(database, {"client_min_messages": messages})
    async with await open_store(database, mode="use") as store:
        desk = await Desk(store).open()
        arrival = desk.arrival(new_id())
        try:
            postgres_server.set_synchronous("nobody")  # there is no such standby
            recording = asyncio.ensure_future(store.record(arrival))
            waits = "SELECT COUNT(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            await asyncio.to_thread(until, lambda: postgres_server.ask(waits) == 1, "nobody waits for a standby")
            with pytest.raises(StoreUnavailable) as refused:
                await recording
        finally:
            postgres_server.set_synchronous("")
        assert refused.value.reason == "commit_unconfirmed"
        assert "standby" in str(refused.value) or "replication" in str(refused.value)
        assert (await store.record(arrival)).kind == "duplicate", "it was there, though nobody could promise it"


# Roles


@pytest.fixture
def service(database: str) -> Iterator[str]:
    """The URL of the store for a role that has what docs/postgresql.md gives to a service, and no more."""
    name = f"service_{new_id()[:8]}"
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        for statement in PAGE.split("```sql\n-- what a service may do\n")[1].split("```")[0].split(";\n"):
            if statement.strip():
                owner.execute(statement.replace("wakegate_service", name).encode())
        yield database.replace("postgres@", f"{name}@")
        owner.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


async def test_a_role_with_the_documented_rights_can_do_all_that_services_do(service: str, tmp_path: Path) -> None:
    async with await open_store(service, mode="service") as store:
        desk = await Desk(store).open()
        await store.record(desk.arrival(new_id()))
        done = await desk.started()
        await store.finish(done.lease, Outcome("succeeded", "returned", b"1"), clock.now())
        await desk.in_doubt()
        call = await desk.save(group="turn", wake="mine")
        await store.abandon(call.execution_id, "over", "harness", clock.now())
        await store.seal_group(desk.provider, desk.instance_id, "turn", clock.now())
        await store.mark_clock("here", clock.now())
        await store.raise_epoch("restored", "operator:mika", clock.now())
        await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now())
        later = clock.now() + 400 * clock.DAY
        await store.sweep(later)
        await store.prune(later, later)
        await store.changed(-1, 0)
        await store.probe()
    back_up_postgresql(
        StoreLocation(service), tmp_path / "backup.db", at=clock.now(), progress=lambda _done, _all: None
    )


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER execution_is_kept ON execution",
        "ALTER TABLE execution DISABLE TRIGGER ALL",
        "TRUNCATE execution CASCADE",
        "DELETE FROM migration",
        "CREATE TABLE guests (a int)",
        "SET session_replication_role = replica",
    ],
)
async def test_a_role_with_the_documented_rights_cannot_undo_the_invariants(service: str, statement: str) -> None:
    with psycopg.connect(service) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


async def test_a_role_that_may_not_write_is_told_so(database: str) -> None:
    name = f"reader_{new_id()[:8]}"
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        reader = database.replace("postgres@", f"{name}@")
        with pytest.raises(StoreDenied, match=r"docs/postgresql\.md"):
            await open_store(reader, mode="use")
        owner.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(sql.Identifier(name)))
        async with await open_store(reader, mode="use") as store:
            with pytest.raises(StoreDenied):
                await store.probe()
        owner.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


@pytest.mark.parametrize("table", ["moved", "registration", "execution"])
async def test_rows_that_a_policy_hides_are_an_error_and_not_rows_that_are_not_there(
    database: str, service: str, table: str
) -> None:
    async with await open_store(service, mode="use") as store:
        desk = await Desk(store).open()
        with psycopg.connect(database, autocommit=True) as owner:
            owner.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(sql.Identifier(table)))
        with pytest.raises(StoreDenied, match="row-level security"):
            await store.record(desk.arrival(new_id()))
    with pytest.raises(StoreDenied, match=f"hides rows of the table {table} "):
        await open_store(service, mode="use")
    with pytest.raises(StoreDenied, match="row-level security"), postgresql_snapshot(StoreLocation(service)) as tx:
        tx.first("moved_to" if table == "moved" else f"copy_{table}")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_cannot_hold_every_text_is_refused(
    postgres_server: PostgresServer, encoding: str
) -> None:
    name = f"odd_{new_id()[:8]}"
    with postgres_server.connect() as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0").format(
                sql.Identifier(name), sql.Literal(encoding)
            )
        )
    try:
        for use in (migrate_store, partial(open_store, mode="use")):
            with pytest.raises(StoreMisplaced, match=f"is in {encoding}.*ENCODING 'UTF8'"):
                await use(postgres_server.url(name))
    finally:
        postgres_server.drop_database(name)


async def test_texts_are_utf_8_whatever_the_url_says(database: str) -> None:
    for encoding in ("latin1", "SQL_ASCII"):
        async with await open_store(f"{database}&client_encoding={encoding}", mode="use") as store:
            desk = await Desk(store, name=encoding.lower()).open()
            assert (await desk.save(reasoning="ü 😀")).reasoning == "ü 😀"


async def test_a_role_that_has_all_its_connections_is_told_so(database: str) -> None:
    name = f"few_{new_id()[:8]}"
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN CONNECTION LIMIT 1").format(sql.Identifier(name)))
        url = database.replace("postgres@", f"{name}@")
        with psycopg.connect(url), pytest.raises(StoreUnavailable) as refused:
            await open_store(url, mode="use")
        assert refused.value.reason == "store_overloaded"
        owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


# Schemas


async def test_two_stores_in_schemas_of_one_database_do_not_know_each_other(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        for name in ("calls", "Other Calls"):
            owner.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    ours = f"{postgres_url}&options=-csearch_path%3Dcalls"
    theirs = f"{postgres_url}&options=-csearch_path%3D%22Other%5C%20Calls%22"
    with pytest.raises(StoreMissing, match="db migrate"):
        await open_store(ours, mode="service")
    for url in (ours, theirs):
        assert await migrate_store(url)
        assert await migrate_store(url) == []
    async with await open_store(ours, mode="use") as one, await open_store(theirs, mode="use") as two:
        desk = await Desk(one).open()
        done = await desk.started()
        with closing(PostgresEngine(StoreLocation(theirs), load_store(POSTGRESQL))) as engine, engine.transaction():
            await one.finish(done.lease, Outcome("succeeded", "returned", b"1"), clock.now())  # turns of their own
        assert await two.executions() == []


async def test_of_several_that_make_the_tables_at_once_one_does(postgres_url: str) -> None:
    made = await asyncio.gather(*(migrate_store(postgres_url) for _ in range(4)))
    assert sorted(map(bool, made)) == [False, False, False, True]
    await (await open_store(postgres_url, mode="use")).close()


async def test_a_role_with_a_schema_of_its_own_name_waits_for_the_same_turn(database: str, service: str) -> None:
    async with await open_store(service, mode="use") as store:
        desk = await Desk(store).open()
        with psycopg.connect(database, autocommit=True) as owner:
            role = psycopg.conninfo.conninfo_to_dict(service)["user"]
            owner.execute(sql.SQL("CREATE SCHEMA AUTHORIZATION {}").format(sql.Identifier(str(role))))
        # It is the first of the role's path from now on, and the tables are found in the second one.
        with closing(PostgresEngine(StoreLocation(database), load_store(POSTGRESQL))) as engine, engine.transaction():
            recording = asyncio.ensure_future(store.record(desk.arrival(new_id())))
            done, _ = await asyncio.wait([recording], timeout=0.4)
            assert not done, "it had a turn of its own"
        assert (await recording).kind == "saved"
    for use in (lambda: open_store(service, mode="use"), lambda: migrate_store(service)):
        with pytest.raises(StoreMisplaced, match="in the schema public, and another one stands before it"):
            await use()


async def test_a_search_path_that_leads_nowhere_is_one_clear_error(postgres_url: str) -> None:
    nowhere = f"{postgres_url}&options=-csearch_path%3Dnowhere"
    with pytest.raises(StoreMissing):
        await open_store(nowhere, mode="use")
    with pytest.raises(StoreUnavailable, match="no schema"):
        await migrate_store(nowhere)


# Passwords, TLS, several hosts


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that asks for a password."""
    with PostgresServer(listen="127.0.0.1", password=PASSWORD) as server:
        yield server


@pytest.mark.parametrize("how", ["file", "passfile", "wrong", "none"])
async def test_a_password_comes_from_a_file_and_is_in_no_error(
    guarded: PostgresServer, tmp_path: Path, how: str
) -> None:
    own, theirs, wrong = tmp_path / "password", tmp_path / "pgpass", tmp_path / "wrong"
    own.write_text(f"{PASSWORD}\n")
    wrong.write_text("not-the-right-password\n")
    theirs.write_text(f"*:*:*:*:{PASSWORD}\n")
    for each in (own, theirs, wrong):
        each.chmod(0o600)
    url = guarded.tcp_url()
    where = {
        "file": StoreLocation(url, own),
        "passfile": StoreLocation(f"{url}?passfile={theirs}"),
        "wrong": StoreLocation(url, wrong),
        "none": StoreLocation(url),
    }[how]
    assert PASSWORD not in repr(where)
    # There is no store: whoever is let in is told that.
    with pytest.raises(StoreMissing if how in ("file", "passfile") else StoreDenied) as refused:
        await open_store(where, mode="use")
    told = "".join(traceback.format_exception(refused.value))
    assert PASSWORD not in told
    assert "not-the-right-password" not in told


async def test_tls_is_verified_to_the_end(
    postgres_server: PostgresServer, empty_store_url: str, tmp_path: Path
) -> None:
    chain, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    others = tmp_path / "others"
    others.mkdir()
    stranger, _ = certificate(others)
    async with line(postgres_server, context) as relay:
        url = f"{relay.url(database_name(empty_store_url))}?sslmode=verify-full&sslrootcert="
        async with await open_store(f"{url}{chain}", mode="use") as store:
            await store.probe()
        for bad in (f"{url}{stranger}", f"{url}{chain}".replace("127.0.0.1", "localhost")):
            with pytest.raises(StoreUnavailable):
                await open_store(bad, mode="use")
    async with line(postgres_server) as plain:
        with pytest.raises(StoreUnavailable, match="SSL"):
            await open_store(
                f"{plain.url(database_name(empty_store_url))}?sslmode=verify-full&sslrootcert={chain}", mode="use"
            )


async def test_of_several_hosts_the_one_that_takes_writes_is_used() -> None:
    with PostgresServer() as primary:
        await migrate_store(primary.url())
        with primary.standby("two") as standby:
            both = f"postgresql://postgres@/postgres?host={standby.folder},{primary.folder}"
            async with await open_store(both, mode="use") as store:
                desk = await Desk(store).open()
                assert (await store.record(desk.arrival(new_id()))).kind == "saved"
                await asyncio.to_thread(primary.wait_until_caught_up, standby)
                for mode in ("use", "read"):
                    with pytest.raises(StoreUnavailable) as refused:
                        await open_store(standby.url(), mode=mode)
                    assert refused.value.reason == "store_read_only"
                await asyncio.to_thread(primary.kill)
                with pytest.raises(StoreUnavailable):
                    await store.probe()
                await asyncio.to_thread(standby.promote)
                assert (await store.record(desk.arrival(new_id()))).kind == "saved"
                assert len(await store.notifications()) == 2


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://nobody@127.0.0.1:9/x",
        "postgresql://nobody@/x?host=/nowhere",
        "postgresql://nobody@127.0.0.1:9/x?unheard_of=1",
        "postgresql://nobody@127.0.0.1:9/x?sslmode=perhaps",
        "postgresql://nobody@127.0.0.1:9/x?connect_timeout=soon",
        "postgresql://nobody@host.invalid/x",
    ],
)
async def test_a_server_that_is_not_there_is_one_clear_error(url: str) -> None:
    with pytest.raises(StoreError, match="the store at postgresql://nobody@") as refused:
        await open_store(url, mode="use")
    assert "\n" not in str(refused.value)
