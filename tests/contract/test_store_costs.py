"""Costs on SQLite grow with what is due, not with all that was ever kept; PostgreSQL: `test_postgresql_costs.py`."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import open_store
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.queries import load_store, rows

pytestmark = pytest.mark.file

QUERIES = load_store(SQLITE)
WHOLE = {"anomalies", "store_used"} | {name for name in QUERIES if name.startswith(("examine_", "copy_"))}
"""Queries that a person asks for, and that count or list everything, or look whether there is anything."""
SCAN = re.compile(
    r"SCAN (execution|notification|transition|wake|anomaly|found)\b(?! USING INDEX notification_unhandled)"
)
"""Reading one of the tables that grow from end to end; `found` is the name of one in a join.

An index that holds only what is unfinished may be counted.
"""


@pytest.fixture
async def raw(database: str) -> AsyncIterator[sqlite3.Connection]:
    """A connection of nobody's to an empty store."""
    await (await open_store(database, mode="service")).close()
    with closing(sqlite3.connect(sqlite_path(database))) as connection:
        yield connection


def plan(raw: sqlite3.Connection, name: str) -> list[str]:
    """How SQLite would run a query; without statistics that does not depend on what the tables hold."""
    query = rows(QUERIES[name], 3)
    named = re.findall(r":([a-z_]+)", query)
    found = raw.execute(f"EXPLAIN QUERY PLAN {query}", dict.fromkeys(named, 1) if named else [1] * query.count("?"))
    return [row[3] for row in found]


async def test_every_query_finds_its_rows_by_an_index(raw: sqlite3.Connection) -> None:
    plans = {name: plan(raw, name) for name in QUERIES.keys() - WHOLE}
    assert {name: steps for name, steps in plans.items() if any(SCAN.match(step) for step in steps)} == {}


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("instance_make_due", "execution_due"),
        ("instance_cancels_due", "execution_cancel_due"),
        ("instance_abandon", "execution_unresolved"),
        ("instance_forget_cancels", "execution_cancel_due"),
        ("executions_of_instance", "execution_instance"),
        ("executions_of_instance_in_state", "execution_instance_state"),
        ("executions_of_group", "execution_group"),
        ("executions_of_group_in_state", "execution_group"),
        ("resolutions_of_instance", "resolution_instance"),
        ("resolutions_end_of_instance", "resolution_instance"),
    ],
)
async def test_what_concerns_an_instance_does_not_read_all_it_ever_had(
    raw: sqlite3.Connection, name: str, index: str
) -> None:
    step, *_ = plan(raw, name)
    assert f"INDEX {index} " in step


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("unmatched_next", "notification USING INTEGER PRIMARY KEY (rowid>?)"),
        ("unmatched_wait", "notification USING INTEGER PRIMARY KEY (rowid>?)"),
        ("lease_adoptions", "INDEX adoption_due (due_at>? AND due_at<?)"),
        ("adoption_thread_taken", "INDEX adoption_one_run_a_thread (framework=? AND thread=?)"),
        ("prune_adoptions", "INDEX adoption_ended (ended_at>? AND ended_at<?)"),
    ],
)
async def test_adoptions_read_neither_what_was_looked_through_nor_what_has_ended(
    raw: sqlite3.Connection, name: str, by: str
) -> None:
    steps = plan(raw, name)
    assert any(by in step for step in steps), steps
    assert not any(re.match(r"SCAN (adoption|notification)\b", step) for step in steps)
