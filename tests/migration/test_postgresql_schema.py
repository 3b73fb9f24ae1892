"""PostgreSQL's schema is what its migrations make, in whatever schema, and holds what SQLite's holds."""

import re
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from support.raw import Raw, make_schema, open_raw
from support.raw_records import fill
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.queries import load_store


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Raw]:
    """An empty database."""
    with closing(open_raw(postgres_url)) as raw:
        yield raw


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Raw]:
    """A database file with everything that the migrations make."""
    with closing(open_raw(f"sqlite:///{tmp_path}/wakegate.db")) as raw:
        make_schema(raw)
        yield raw


def objects(raw: Raw) -> dict[str, str]:
    """Everything the current schema defines: kind and name → what it is."""
    return dict(raw.rows(load_store(POSTGRESQL)["examine_schema"]))


def enter(raw: Raw, schema: str) -> None:
    """Make a schema and work in it from now on."""
    raw.execute(f"CREATE SCHEMA {schema}")
    raw.execute(f"SET search_path = {schema}")


def test_the_migrations_add_up_to_the_schema_whatever_it_is_called(postgres: Raw) -> None:
    make_schema(postgres)
    made = objects(postgres)
    enter(postgres, '"one More"')
    postgres.script(files("wakegate_schema").joinpath("sql/postgresql/schema.sql").read_text(encoding="utf-8"))
    assert objects(postgres) == made


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("trigger execution_saved", "ALTER TABLE execution DISABLE TRIGGER execution_saved"),
        (
            "trigger extra",
            "CREATE TRIGGER extra BEFORE DELETE ON wake FOR EACH ROW EXECUTE FUNCTION refuse_change('x')",
        ),
        ("function epoch_rises", "ALTER FUNCTION epoch_rises SET search_path = public"),
        ("function refuse_change", "ALTER FUNCTION refuse_change SECURITY DEFINER"),
        ("table notification", "ALTER TABLE notification SET UNLOGGED"),
        ("table epoch", "ALTER TABLE epoch ENABLE ROW LEVEL SECURITY"),
        ("rule none", "CREATE RULE none AS ON INSERT TO anomaly DO INSTEAD NOTHING"),
        ("column probe.writes", "ALTER TABLE probe ALTER writes DROP NOT NULL"),
        ("column wake.target", 'ALTER TABLE wake ALTER target TYPE TEXT COLLATE "POSIX"'),
        ("constraint execution_tool", "ALTER TABLE execution DROP CONSTRAINT execution_tool"),
        ("index wake_group", "DROP INDEX wake_group"),
    ],
)
def test_what_was_changed_about_a_schema_is_seen(postgres: Raw, name: str, change: str) -> None:
    make_schema(postgres)
    before = objects(postgres)
    postgres.execute(change)
    after = objects(postgres)
    assert name in {name for name, _ in before.items() ^ after.items()}


def test_a_guard_reads_its_own_schema_whoever_fires_it(postgres: Raw) -> None:
    enter(postgres, "store")
    make_schema(postgres)
    fill(postgres)
    postgres.execute("SET search_path = public")
    postgres.execute("UPDATE store.execution SET state = 'submitting' WHERE execution_id = 'saved'")
    assert postgres.rows("SELECT MAX(number) FROM store.transition WHERE execution_id = 'saved'") == [(2,)]


def test_a_temporary_table_does_not_answer_for_a_guards_own(postgres: Raw) -> None:
    make_schema(postgres)
    fill(postgres)
    postgres.execute("CREATE TEMPORARY TABLE arrow AS SELECT 'saved' AS from_state, 'lapsed' AS to_state")
    refusal = postgres.refusal("UPDATE execution SET state = 'lapsed', due_at = NULL WHERE execution_id = 'saved'")
    assert refusal.rule == "execution_follows_arrows"


def test_both_databases_have_the_same_tables_and_columns(sqlite: Raw, postgres: Raw) -> None:
    make_schema(postgres)
    types = {"bigint": "INTEGER", "text": "TEXT", "bytea": "BLOB"}
    there = postgres.rows(
        "SELECT table_name, column_name, data_type, is_nullable = 'NO', COALESCE(column_default, '')"
        " FROM information_schema.columns WHERE table_schema = 'public' AND column_name <> 'rowid'"
        " ORDER BY table_name, ordinal_position"
    )
    here = sqlite.rows(
        "SELECT tables.name, columns.name, columns.type, columns.\"notnull\" OR columns.pk, COALESCE(dflt_value, '')"
        " FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns"
        " WHERE tables.type = 'table' AND tables.name <> 'sqlite_sequence' ORDER BY tables.name, columns.cid"
    )
    assert [
        (table, column, types[kind], kept, re.sub(r"::\w+$", "", default).strip("'"))
        for table, column, kind, kept, default in there
    ] == [(table, column, kind, bool(kept), default.strip("'")) for table, column, kind, kept, default in here]


def test_both_databases_have_the_same_indexes_and_triggers(sqlite: Raw, postgres: Raw) -> None:
    make_schema(postgres)
    there = objects(postgres)
    found = {
        (kind, name) for kind, name in (each.split(" ", 1) for each in there)
        if kind in ("index", "trigger") and not name.endswith(("_pkey", "_key", "_is_not_emptied"))
    }  # fmt: skip
    assert found == set(
        sqlite.rows("SELECT type, name FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql <> ''")
    )


def test_text_is_ordered_by_its_bytes(sqlite: Raw, postgres: Raw) -> None:
    make_schema(postgres)
    for raw in (sqlite, postgres):
        for host in ("ä", "b", "A", "a", "B", "_", "-", "é", "z", "a-b", "aB"):
            raw.execute(f"INSERT INTO clock_mark (host, highest_at) VALUES ('{host}', 1)")
    ordered = "SELECT host FROM clock_mark ORDER BY host"
    assert sqlite.rows(ordered) == postgres.rows(ordered)


def test_every_store_numbers_under_a_key_of_its_own(postgres: Raw) -> None:
    keys = []
    for name in ("one", "two"):
        enter(postgres, name)
        make_schema(postgres)
        keys += postgres.rows("SELECT key, octet_length(key) FROM numbering")
    assert keys[0] != keys[1]
    assert {length for _, length in keys} == {32}
