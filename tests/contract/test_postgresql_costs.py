"""Costs on PostgreSQL grow with what is due, not with all that was ever kept: every query, on a store that has much."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.numeric import Int8

from support.servers import PostgresServer
from support.tables import each_row
from wakegate_schema.store import migrate_store
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.queries import load_store

QUERIES = load_store(POSTGRESQL)
WHOLE = re.compile(r"examine_|copy_|anomalies$|clock_resets$")
"""Queries that a person asks for, and that count or list everything."""
MANY = 24_000
"""Calls that are over, with their changes, notifications, wakes and lines of the log."""
FEW = 4
"""Calls in each state that is not."""
NOW = 1_800_000_000_000_000
MOST_BLOCKS = 900
"""What a query may read, in blocks of 8 KiB; each large table has more, and those that pass read their FEW."""

FILL = f"""
SET session_replication_role = replica;
INSERT INTO instance (provider, instance_id, name, state, delivery, sealed_credential, created_at)
VALUES ('p', 'i', 'i', 'active', 'webhook', 's', 1);
INSERT INTO registration (registration_id, provider, name, state, sealed_secret, instance_id, created_at,
    expected_until, verified_at)
VALUES ('r', 'p', 'i', 'verified', 's', 'i', 1, 9, 2);
CREATE TEMPORARY TABLE life AS
SELECT n, CASE WHEN n <= {MANY} THEN (ARRAY['succeeded', 'denied', 'abandoned'])[1 + n % 3]
    ELSE (ARRAY['saved', 'submitting', 'waiting', 'permitted', 'started', 'in_doubt'])[1 + n % 6] END AS state
FROM generate_series(1, {MANY} + 6 * {FEW}) AS n;
INSERT INTO execution (execution_id, provider, instance_id, idempotency_key, tool, tool_version, arguments, timeout,
    digest, runs, wake, "group", state, actor, due_at, lease_until, request_id, request_created_at, deadline_at,
    decided_at, expires_at, started_at, attempt_number, finished_at, erased_at, created_at, changed_at)
SELECT md5(n::text), 'p', 'i', 'key-' || n, 'issue_refund', '1', CASE WHEN n > 100 THEN repeat('x', 200)::bytea END,
    '30m', '01234567890123456789012345678901', 'worker', 'mine', 'turn-' || n / 5, state, 'worker',
    CASE WHEN state IN ('saved', 'submitting', 'waiting') THEN {NOW} - n END,
    CASE WHEN state = 'started' THEN {NOW} - n END, 'request-' || n, 1, 2, 1,
    CASE WHEN state NOT IN ('saved', 'submitting', 'waiting') THEN {NOW} - n END,
    CASE WHEN state IN ('started', 'succeeded', 'in_doubt') THEN 3 END, 0,
    CASE WHEN n <= {MANY} THEN {NOW} - 100 + n END, CASE WHEN n <= 100 THEN {NOW} END, n, n
FROM life;
INSERT INTO transition (execution_id, number, from_state, to_state, actor, at)
SELECT md5(n::text), step, 'saved', CASE step WHEN 3 THEN state ELSE 'waiting' END, 'worker', n
FROM life, generate_series(1, 3) AS step;
INSERT INTO call_group (provider, instance_id, "group", wake, created_at, sealed_at)
SELECT 'p', 'i', 'turn-' || n, 'mine', 1, CASE WHEN n < {MANY} / 5 THEN 2 END FROM generate_series(0, {MANY} / 5) AS n;
INSERT INTO notification (provider, instance_id, event_id, request_id, registration_id, state, created_at, received_at,
    handled_at, keep_until, body)
SELECT 'p', 'i', 'event-' || n, 'request-' || n, 'r', CASE WHEN n > {MANY} THEN 'received' ELSE 'handled' END, 1, 1,
    CASE WHEN n <= {MANY} THEN 2 END, {NOW} + n, repeat('x', 300)::bytea FROM life;
INSERT INTO wake (wake_id, execution_id, number, target, state, due_at, created_at, delivered_at, to_state)
SELECT md5(n::text) || '_3', md5(n::text), 3, 'mine', CASE WHEN n > {MANY} THEN 'owed' ELSE 'delivered' END,
    CASE WHEN n > {MANY} THEN {NOW} - n END, 1, CASE WHEN n <= {MANY} THEN 2 END, state FROM life;
INSERT INTO resolution (epoch, provider, instance_id, execution_id, transition_number, to_state, at)
SELECT 1, 'p', 'i', md5(n::text), 3, state, {NOW} FROM life;
INSERT INTO anomaly (kind, provider, instance_id, subject_id, detail, first_at, last_at)
SELECT 'late_word', 'p', 'i', md5(n::text), repeat('x', 300), 1, {NOW} + n FROM life;
ANALYZE;
"""

VALUES: dict[str, Any] = {
    "at": NOW, "until": NOW + 10**6, "before": NOW, "beyond": NOW, "due_at": NOW, "after": 100, "limit": 10,
    "provider": "p", "instance_id": "i", "execution_id": "", "request_id": "request-7", "event_id": "event-7",
    "idempotency_key": "key-7", "key": "key-7", "group": "turn-7", "state": "waiting", "target": "mine", "but": "[]",
    "registration_id": "r", "prefix": "c4ca", "wake": "mine", "tool": "issue_refund", "epoch": 1, "number": 7,
    "before_at": NOW * 2, "before_number": NOW, "highest_at": NOW, "runs": "worker", "known": 9,
    "owner": "w", "worker_id": "w", "failed": 1, "ended": 1, "well": 1, "tools": '{"issue_refund": "1"}',
}  # fmt: skip
"""What a query's parameters are given: times by which everything is due, and names that are there."""


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator["psycopg.Connection[Any]"]:
    """A connection to a store that has much, to look at plans with; nothing that is run in it stays."""
    name = postgres_server.create_database("full_store")
    asyncio.run(migrate_store(postgres_server.url(name)))
    with postgres_server.connect(name) as connection:
        connection.execute(FILL.encode())
        connection.execute("SET session_replication_role = origin")
        yield connection
    postgres_server.drop_database(name)


def arguments(query: str) -> dict[str, Any] | list[Any]:
    """Values for a query's parameters; text is of the type that stands where it is put."""
    arrays = re.findall(r"%b(?:::(\w+)\[\])?", query)
    if arrays:
        samples: dict[str, Any] = {"text": ["p", "i"], "bigint": [1, 2], "bytea": [b"x", b"y"], "": NOW}
        return [samples[kind] for kind in arrays]
    named = set(re.findall(r"%\((\w+)\)s", query))
    chosen = {name: VALUES.get(name, "1") for name in named}
    return {name: Int8(value) if isinstance(value, int) else value for name, value in chosen.items()}


def read(full: "psycopg.Connection[Any]", query: str) -> tuple[int, list[str]]:
    """Run a query and take it back; return how many blocks it read, and what tables from end to end."""
    with full.transaction(force_rollback=True):
        explain = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {query}"
        found = full.execute(explain.encode(), arguments(query)).fetchone()
    plan = found[0][0]["Plan"] if found else {}
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], list(scanned(plan))


LARGE = {"execution", "notification", "transition", "wake", "anomaly", "resolution", "call_group"}


def scanned(plan: dict[str, Any]) -> Iterator[str]:
    """The large tables that a plan reads from end to end; to look whether they hold anything is another thing."""
    rows = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in LARGE and rows > MANY / 10:
        yield plan["Relation Name"]
    for each in plan.get("Plans", ()):
        yield from scanned(each)


BLOCKS = {name for name in QUERIES if re.match(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)", QUERIES[name])}


@each_row("name", sorted(name for name in BLOCKS if not WHOLE.match(name)))
def test_no_query_reads_all_that_was_ever_kept(full: "psycopg.Connection[Any]", name: str) -> None:
    try:
        blocks, whole = read(full, QUERIES[name])
    except psycopg.IntegrityError:
        return  # refused by an invariant; what it looked for was there
    assert whole == []
    assert blocks < MOST_BLOCKS


def test_the_tables_are_large(full: "psycopg.Connection[Any]") -> None:
    for table in ("execution", "notification", "transition"):
        pages = full.execute("SELECT relpages FROM pg_class WHERE oid = to_regclass(%s)", [table]).fetchone()
        assert pages is not None
        assert pages[0] > MOST_BLOCKS
