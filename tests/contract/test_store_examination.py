"""A sound store is found sound, and what is wrong with another is named."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.desk import Desk
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.records import Outcome
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import Store, StoreLocation, open_store
from wakegate_schema.store.examination import Examination, examine


def examined(database: str) -> Examination:
    """Look through a store."""
    return examine(StoreLocation(database), step=lambda _: None)


async def lived(desk: Desk) -> str:
    """Calls in many states, over two epochs; return the id of one that has run."""
    await desk.in_doubt()
    done = await desk.started()
    await desk.store.finish(done.lease, Outcome("succeeded", "returned", b"1"), clock.now())
    held = [await desk.save(), await desk.submitting(), await desk.waiting(wake="mine"), await desk.permitted()]
    await desk.started(runs="harness")
    await desk.store.raise_epoch("restored", "operator:mika", clock.now())
    for each in held[1:]:
        await desk.store.release_held(each.execution_id, actor="operator:mika", note=None, at=clock.now())
    await desk.store.abandon(held[2].execution_id, "x", "harness", clock.now())
    for number in range(2):  # a group that is told of, and one that is not sealed
        call = await desk.save(group=f"turn-{number}", wake="mine")
        await desk.store.abandon(call.execution_id, "x", "harness", clock.now())
    await desk.store.seal_group(desk.provider, desk.instance_id, "turn-0", clock.now())
    return done.execution_id


async def test_a_store_that_has_lived_is_sound(desk: Desk, database: str) -> None:
    await lived(desk)
    await desk.store.probe()
    found = examined(database)
    assert found.faults == []
    assert found.content is not None
    assert (found.content.executions, found.content.in_doubt, found.content.held) == (9, 1, 1)
    assert (found.content.epoch.number, found.content.backup_made_at) == (2, None)
    assert found.size > 0
    assert (found.wal_size > 0) == database.startswith("sqlite:")


STEP = "INSERT INTO transition VALUES ('{id}', %d, 'succeeded', '%s', %s, 'me', 0)"
"""Another change of a call whose last one was its sixth."""
FOLLOWS = {
    "sqlite": "DROP TRIGGER execution_follows_arrows",
    "postgresql": "DROP TRIGGER execution_follows_arrows ON execution",
}
CHANGED = {"sqlite": "DROP TRIGGER execution_changed", "postgresql": "DROP TRIGGER execution_changed ON execution"}


@pytest.mark.parametrize(
    ("tampering", "kind", "detail"),
    [
        (["DROP INDEX transition_started_once"], "schema", "is missing"),
        (["CREATE TABLE guests (a INTEGER)"], "schema", "is none of wakegate's"),
        (
            [CHANGED, "UPDATE execution SET state = 'failed' WHERE state = 'succeeded'"],
            "invariant",
            "is not where its history ends",
        ),
        ([STEP % (7, "succeeded", "'returned'")], "invariant", "does not follow"),
        ([STEP % (9, "succeeded", "'released'")], "invariant", "does not follow"),
        ([STEP % (7, "failed", "'released'")], "invariant", "does not follow"),
        (
            ["DROP INDEX transition_started_once", STEP % (7, "started", "'released'")],
            "invariant",
            "has started 2 times",
        ),
        (["DELETE FROM wake"], "invariant", "nobody was told of abandoned"),
        (["DELETE FROM wake WHERE group_number IS NOT NULL"], "invariant", "nobody was told of the group"),
        (["UPDATE execution SET epoch = 9 WHERE execution_id = '{id}'"], "invariant", "is of epoch 9"),
    ],
)
async def test_what_was_tampered_with_is_named(
    desk: Desk, database: str, tampering: list[str | dict[str, str]], kind: str, detail: str
) -> None:
    execution_id = await lived(desk)
    with closing(open_raw(database)) as raw:
        for statement in (FOLLOWS, *tampering):
            said = statement if isinstance(statement, str) else statement[raw.dialect.name]
            raw.execute(said.format(id=execution_id))
    faults = examined(database).faults
    assert any((fault.kind, detail in fault.detail) == (kind, True) for fault in faults), faults


@pytest.mark.parametrize(
    ("tampering", "kind", "subject", "detail"),
    [
        ("DROP TRIGGER execution_is_kept ON execution", "schema", "trigger execution_is_kept", "is missing"),
        ("ALTER TABLE epoch DISABLE TRIGGER epoch_rises", "schema", "trigger epoch_rises", "is not as"),
        ("ALTER FUNCTION refuse_change RENAME TO allow", "schema", "function refuse_change", "is missing"),
        (
            "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
            "schema",
            "function refuse_change",
            "is not as the migrations make it",
        ),
        (
            "ALTER TABLE wake DROP CONSTRAINT wake_execution_id_fkey",
            "schema",
            "constraint wake_execution_id",
            "is miss",
        ),
        ("SELECT setval('execution_number_seq', 2)", "invariant", "execution", "the next number would be 3, which is"),
    ],
)
async def test_what_was_tampered_with_in_postgresql_is_named(
    empty_store_url: str, tampering: str, kind: str, subject: str, detail: str
) -> None:
    async with await open_store(empty_store_url, mode="use") as there:
        await lived(await Desk(there).open())
    with closing(open_raw(empty_store_url)) as raw:
        raw.execute(tampering)
        schemas = "SELECT COUNT(*) FROM pg_namespace"
        before = raw.rows(schemas)
        faults = examined(empty_store_url).faults
        assert any(
            (fault.kind, fault.subject.startswith(subject), detail in fault.detail) == (kind, True, True)
            for fault in faults
        ), faults
        assert raw.rows(schemas) == before


@pytest.mark.file
@pytest.mark.parametrize(
    ("tampering", "kind", "detail"),
    [
        (["DROP TRIGGER execution_is_kept"], "schema", "is missing"),
        (
            [
                "DROP TRIGGER execution_is_kept",
                "CREATE TRIGGER execution_is_kept BEFORE DELETE ON execution BEGIN SELECT 1; END",
            ],
            "schema",
            "is not as the migrations make it",
        ),
        (["DELETE FROM instance"], "foreign_key", "names something that is not in instance"),
    ],
)
async def test_what_was_tampered_with_in_a_file_is_named(
    desk: Desk, database: str, tampering: list[str], kind: str, detail: str
) -> None:
    await lived(desk)
    with closing(sqlite3.connect(sqlite_path(database))) as raw, raw:
        for statement in tampering:
            raw.execute(statement)
    faults = examined(database).faults
    assert any((fault.kind, detail in fault.detail) == (kind, True) for fault in faults), faults


@pytest.mark.file
async def test_a_damaged_page_is_found(desk: Desk, store: Store, database: str) -> None:
    await lived(desk)
    await store.close()
    path: Path = sqlite_path(database)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'wake_due'").fetchone()[0]
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    found = examined(database)
    assert {fault.kind for fault in found.faults} == {"integrity"}
    assert found.content is None
