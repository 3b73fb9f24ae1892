"""`wakegate db …` on a store in PostgreSQL, and between the two databases."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from support.console import Console, looked_up, prepared
from support.desk import Desk
from support.raw import open_raw
from support.servers import PostgresServer


@pytest.fixture
def there(console: Console, empty_store_url: str) -> Console:
    """The console, its store in PostgreSQL."""
    console.set("WAKEGATE_DATABASE", empty_store_url)
    console.database = empty_store_url
    return console


async def _lived(desk: Desk) -> tuple[str, str]:
    """A call that waits, and one that was abandoned."""
    waiting, over = await desk.waiting(), await desk.save()
    await desk.store.abandon(over.execution_id, "x", "harness", over.created_at + 1)
    return waiting.execution_id, over.execution_id


def another(server: PostgresServer, name: str, console: Console) -> str:
    """The URL of an empty database, named after the test's folder."""
    return server.url(server.create_database(f"{name}_{abs(hash(str(console.directory)))}"))


def test_only_migrating_makes_a_store_in_postgresql(console: Console, postgres_url: str) -> None:
    console.set("WAKEGATE_DATABASE", postgres_url)
    for arguments in (("execution", "list"), ("db", "prune"), ("db", "check"), ("db", "backup", "b.db"), ("worker",)):
        ran = console(*arguments)
        assert (ran.code, ran.out) == (2, ""), arguments
        assert "run `wakegate db migrate`" in ran.err
    for said in (f"made {postgres_url}\n", f"{postgres_url} is up to date\n"):
        ran = console("db", "migrate")
        assert (ran.code, ran.out, ran.err) == (0, said, "")
    assert console("execution", "list").out == "No executions.\n"


def test_a_service_refuses_a_schema_that_is_behind_until_it_is_migrated(there: Console) -> None:
    with closing(open_raw(there.database)) as raw:
        raw.execute("DELETE FROM migration WHERE number = 6")
        raw.execute("DROP TABLE worker_resumer, adoption, adoption_mark, consuming_provider")
        raw.execute("DROP TRIGGER execution_owes_a_report ON execution")
        raw.execute("DROP TRIGGER execution_consumption_is_fixed ON execution")
        raw.execute("DROP FUNCTION execution_owes_a_report")
        for column in ("consumed_at", "report_due_at", "report_tries"):
            raw.execute(f"ALTER TABLE execution DROP COLUMN {column}")
    ran = there("worker")
    assert (ran.code, "lacks migration 6; run `wakegate db migrate`" in ran.err) == (2, True)
    assert there("db", "migrate").out == f"{there.database} is brought up to date: consumption_and_adoption\n"
    ran = there("db", "check")
    assert ran.code == 0, ran.out


def test_a_store_in_postgresql_is_checked(there: Console) -> None:
    prepared(there, _lived)
    view = there("db", "check", "--json").json
    assert (view["sound"], view["faults"], view["executions"], view["wal_bytes"]) == (True, [], 2, 0)
    assert (view["database"], view["moved_to"]) == (there.database, None)
    assert view["bytes"] > 0
    with closing(open_raw(there.database)) as raw:
        raw.execute("DROP TRIGGER execution_is_kept ON execution")
    ran = there("db", "check")
    assert ran.code == 1
    assert "execution_is_kept" in ran.out
    assert "is not sound; stop the services, keep the database" in ran.err


def test_a_backup_goes_into_an_empty_database_and_starts_nothing(
    there: Console, postgres_server: PostgresServer
) -> None:
    waiting, _ = prepared(there, _lived)
    assert there("db", "backup", "backup.db").out.startswith(
        f"backed up {there.database} to {there.directory}/backup.db"
    )
    ran = there("db", "restore", "backup.db")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing was changed. Make a new, empty database" in ran.err
    there.database = another(postgres_server, "restored", there)
    there.set("WAKEGATE_DATABASE", there.database)
    ran = there("db", "restore", "backup.db", "--epoch-above", "4")
    assert (ran.code, ran.err) == (0, "")
    assert f", as {there.database}; this is epoch 5" in ran.out
    assert "1 call had not started and may have run since" in ran.out
    assert [found.execution_id for _, found in looked_up(there, lambda store: store.held_executions())] == [waiting]


def test_a_promotion_without_the_last_commits_holds_back_what_had_not_started(there: Console) -> None:
    waiting, _ = prepared(there, _lived)
    ran = there("db", "promoted", "--by", "mika")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == f"this is epoch 2 of {there.database}"
    assert "1 call had not started and may have run since" in ran.out
    epoch = looked_up(there, lambda store: store.epoch())
    assert (epoch.reason, epoch.actor) == ("promoted", "operator:mika")
    (row,) = [row for row in there("execution", "list", "--json").json if row["execution_id"] == waiting]
    assert row["problem"] == "older_epoch"


def test_a_clock_that_is_behind_begins_no_epoch(there: Console) -> None:
    async def ahead(desk: Desk) -> None:
        await desk.store.mark_clock("host", 9_000_000_000_000_000)

    prepared(there, ahead)
    ran = there("db", "promoted")
    assert (ran.code, "has not reached; correct the clock" in ran.err) == (1, True)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_query_lists_what_it_finds(console: Console, request: pytest.FixtureRequest, database: str) -> None:
    if database == "postgresql":
        request.getfixturevalue("there")
    prepared(console, _lived)
    text = "SELECT state, state, digest, arguments FROM execution ORDER BY number"
    rows = console("db", "query", text, "--json").json
    assert [row["state"] for row in rows] == [row["state_2"] for row in rows] == ["waiting", "abandoned"]
    assert rows[0]["arguments"] == '{"amount": 4900}'
    assert console("db", "query", text, "--json", "--limit", "1").json == rows[:1]
    assert console("db", "query", "SELECT state FROM execution WHERE 1 = 0").out == "No rows.\n"
    assert console("db", "query", "SELECT MAX(number) AS last FROM execution").out.split() == ["LAST", "2"]
    ran = console("db", "query", "DELETE FROM execution")
    assert (ran.code, ran.out) == (1, "")
    assert console("db", "query").code == 2


def test_a_store_is_moved_and_the_old_one_shut(console: Console, postgres_url: str) -> None:
    waiting, _ = prepared(console, _lived)
    view = console("db", "copy", "sqlite:///wakegate.db", postgres_url, "--json").json
    assert (view["from"], view["to"], view["copied"]) == (console.database, postgres_url, True)
    assert (view["epoch"], view["held"], view["rows"]["execution"]) == (2, 1, 2)
    assert set(view["rows"]) == set(view["sha256"])
    for arguments in (("worker",), ("db", "prune"), ("execution", "release", waiting, "--note", "x")):
        ran = console(*arguments)
        assert (ran.code, f"was copied to {postgres_url} and closed" in ran.err) == (2, True), arguments
    assert console("execution", "list", "--json").json
    assert console("db", "check", "--json").json["moved_to"] == postgres_url
    again = console("db", "copy", console.database, postgres_url)
    assert (again.code, "was copied to" in again.out) == (0, True)
    ran = console("db", "copy", console.database, postgres_url, "--reopen")
    assert (ran.code, "has ended, or was never begun there" in ran.err) == (1, True)
    console.set("WAKEGATE_DATABASE", postgres_url)
    assert console("execution", "release", waiting, "--note", "found out").code == 0


def test_a_copy_that_cannot_end_says_how_to_go_on(console: Console, empty_store_url: str) -> None:
    prepared(console, _lived)
    with closing(open_raw(empty_store_url)) as raw:
        raw.execute("ALTER TABLE execution ADD CONSTRAINT no_refunds CHECK (tool <> 'issue_refund')")
    ran = console("db", "copy", console.database, empty_store_url)
    assert ran.code == 1
    assert "is closed, and" in ran.err
    assert "--reopen" in ran.err
    assert "no_refunds" in ran.err
    ran = console("db", "copy", console.database, empty_store_url, "--reopen")
    assert (ran.code, ran.out) == (0, f"{console.database} is open again; {empty_store_url} is empty\n")
    assert console("db", "prune").code == 0


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("wakegate.db", "postgresql://mika@db/store"),
        ("sqlite:///wakegate.db", "postgresql://mika:hunter2-hunter2@db/store"),
        ("sqlite:///wakegate.db", "postgresql://mika@db/store?password=hunter2-hunter2"),
        ("sqlite:///wakegate.db", "mysql://mika@db/store"),
    ],
)
def test_what_is_no_url_of_a_store_is_a_usage_error(console: Console, source: str, target: str) -> None:
    ran = console("db", "copy", source, target)
    assert (ran.code, ran.out) == (2, "")
    assert "hunter2" not in ran.err


def test_nothing_is_closed_for_a_target_that_does_not_answer(console: Console, tmp_path: Path) -> None:
    prepared(console, _lived)
    ran = console("db", "copy", console.database, f"postgresql://mika@/store?host={tmp_path}")
    assert (ran.code, "is closed" in ran.err) == (1, False)
    assert console("db", "prune").code == 0
    assert json.loads(console("db", "check", "--json").out)["moved_to"] is None
