"""An operator's query reads, whatever it says, and ends in time."""

from pathlib import Path
from typing import Any

import pytest

from support.contents import contents
from support.desk import Desk
from support.raw import open_raw
from wakegate_schema.store import QueryRefused, Store, StoreLocation
from wakegate_schema.store.inquiry import query

EVERYWHERE = [
    "DELETE FROM wake",
    "UPDATE probe SET writes = 7",
    "INSERT INTO probe (id, writes) VALUES (1, 2)",
    "DROP TABLE wake",
    "CREATE TABLE guests (a INTEGER)",
    "SELECT 1; DELETE FROM wake",
    "COMMIT",
    "ROLLBACK; DELETE FROM wake",
    "SELECT nothing FROM nowhere",
    "SELEC 1",
    "",
]
SQLITE = [
    "SELECT name FROM pragma_table_info('probe')",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA user_version = 7",
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'other.db'",
    "SELECT load_extension('x')",
    "WITH gone AS (SELECT 1) DELETE FROM wake",
    "BEGIN IMMEDIATE",
]
POSTGRESQL = [
    "WITH gone AS (DELETE FROM wake RETURNING *) SELECT * FROM gone",
    "SELECT write_something()",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SET transaction_read_only = off",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "DO $$ BEGIN DELETE FROM probe; END $$",
    "CALL write_something()",
    "COPY probe FROM PROGRAM 'echo 1'",
    "COPY (SELECT 1) TO PROGRAM 'touch {folder}/touched'",
    "COPY (SELECT 1) TO '{folder}/touched'",
    "SELECT * INTO guests FROM probe",
    "SELECT * FROM probe FOR UPDATE",
    "SELECT nextval('execution_number_seq')",
    "EXPLAIN ANALYZE DELETE FROM probe",
    "LISTEN x",
    "PREPARE TRANSACTION 'x'",
    "1 AS a; DELETE FROM probe; SELECT 1",
]
WRITING = "CREATE FUNCTION write_something() RETURNS integer LANGUAGE sql AS 'UPDATE probe SET writes = 9 RETURNING 1'"


def asked(database: str, text: str, seconds: float = 10) -> list[tuple[Any, ...]]:
    """What a query finds."""
    with query(StoreLocation(database), text, seconds=seconds) as answer:
        return list(answer.rows)


async def test_a_query_finds_what_is_there(desk: Desk, database: str) -> None:
    saved = await desk.save()
    with query(
        StoreLocation(database), "SELECT execution_id, arguments, 1 AS one FROM execution -- 100 %s;", seconds=10
    ) as answer:
        assert answer.columns == ("execution_id", "arguments", "one")
        assert list(answer.rows) == [(saved.execution_id, b'{"amount": 4900}', 1)]
    assert asked(database, "VALUES (1), (2);") == [(1,), (2,)]
    assert asked(database, "WITH one AS (SELECT 1 AS a) SELECT a FROM one WHERE a > 1") == []


async def test_whatever_does_more_than_read_is_refused(desk: Desk, database: str, tmp_path: Path) -> None:
    await desk.waiting(wake="mine")
    raw = open_raw(database)
    if database.startswith("postgresql:"):
        raw.execute(WRITING)
    before = contents(database)
    for text in (*EVERYWHERE, *(SQLITE if database.startswith("sqlite:") else POSTGRESQL)):
        with pytest.raises(QueryRefused):
            asked(database, text.replace("{folder}", str(tmp_path)))
    raw.close()
    assert contents(database) == before
    assert not (tmp_path / "touched").exists()
    assert not Path("other.db").exists()


ENDLESS = {
    "sqlite": "WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT COUNT(*) FROM n",
    "postgresql": "SELECT COUNT(*) FROM generate_series(1, 1000000000000)",
}
MANY = {
    "sqlite": "WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT a FROM n",
    "postgresql": "SELECT a FROM generate_series(1, 1000000000000) AS n (a)",
}


@pytest.mark.parametrize("texts", [ENDLESS, MANY], ids=["endless", "many rows"])
async def test_a_query_ends_in_time(store: Store, database: str, texts: dict[str, str]) -> None:
    await store.probe()
    with (
        pytest.raises(QueryRefused, match=r"took over 0\.3 s"),
        query(StoreLocation(database), texts[database.partition(":")[0]], seconds=0.3) as answer,
    ):
        for _ in answer.rows:
            pass
