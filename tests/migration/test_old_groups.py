"""Calls that had a group before there were groups: nobody goes untold, and nobody is told in vain."""

from dataclasses import asdict

import pytest

from support.desk import PROVIDER, Desk
from wakegate_schema import clock
from wakegate_schema.records import Wake
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import Store, StoreLocation, migrations, open_store
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.examination import examine
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite.connection import create
from wakegate_schema.store.sqlite.engine import SqliteEngine

GROUP = "turn-7"
INSTANCE = (
    "INSERT INTO instance (provider, instance_id, name, state, delivery, sealed_credential, created_at)"
    " VALUES ('{provider}', 'desk', 'refund-desk', 'active', 'webhook', x'00', 1)"
)
END = (
    "UPDATE execution SET state = 'abandoned', reason = 'over', finished_at = 2, changed_at = 2, due_at = NULL"
    " WHERE execution_id = '{id}'"
)


def made_before(database: str, monkeypatch: pytest.MonkeyPatch, calls: dict[str, str], ended: tuple[str, ...]) -> None:
    """Make a store of the version before, with calls of one group by their ids and targets, some of them ended."""
    create(sqlite_path(database))
    queries = load_store(SQLITE)
    engine = SqliteEngine(sqlite_path(database), queries)
    available = migrations.available()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "available", lambda _: {number: available[number] for number in (1, 2)})
        migrations.migrate(engine, 1)
    desk = Desk(None, instance_id="desk")  # type: ignore[arg-type]  # only to make a suspension
    with engine.transaction() as tx:
        tx.run(INSTANCE.format(provider=PROVIDER))
        for execution_id, wake in calls.items():
            call = desk.suspension(execution_id=execution_id, wake=wake, group=GROUP)
            tx.change("execution_save", asdict(call) | {"digest": call.digest})
        for execution_id in ended:
            tx.run(END.format(id=execution_id))
    engine.close()


async def end(store: Store, *execution_ids: str) -> None:
    """Resolve calls, one after the other."""
    for execution_id in execution_ids:
        await store.abandon(execution_id, "over", "harness", clock.now())


async def wakes(store: Store) -> list[Wake]:
    """Every wake there is, oldest first."""
    return [wake for _, wake in reversed(await store.latest_wakes())]


async def test_what_is_left_of_a_group_is_told_of_when_it_ends_and_what_was_told_is_told_again_with_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_before(database, monkeypatch, {"a": "mine", "b": "mine", "c": "mine"}, ended=("a",))
    async with await open_store(database, mode="service") as store:
        await end(store, "b", "c")
        first, last = await wakes(store)
        assert (first.execution_id, first.group_number) == ("a", None)
        assert last.execution_id == "c"
        told = await store.group_executions(last.group_number or 0)
        assert [execution.execution_id for _, execution, _ in told] == ["a", "b", "c"]
    assert examine(StoreLocation(database), step=lambda _: None).faults == []


async def test_of_a_group_with_several_targets_each_is_told(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"a": "mine", "b": "theirs", "c": "mine", "d": "none"}
    made_before(database, monkeypatch, calls, ended=())
    async with await open_store(database, mode="service") as store:
        await end(store, "a", "b", "c", "d")
        found = await wakes(store)
        assert [(wake.execution_id, wake.target, wake.group_number is None) for wake in found] == [
            ("b", "theirs", True),
            ("c", "mine", False),
        ]
        told = await store.group_executions(found[1].group_number or 0)
        assert [execution.execution_id for _, execution, _ in told] == ["a", "c"]
    assert examine(StoreLocation(database), step=lambda _: None).faults == []


async def test_a_group_that_was_over_is_told_of_no_more(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made_before(database, monkeypatch, {"a": "mine", "b": "mine"}, ended=("a", "b"))
    async with await open_store(database, mode="service") as store:
        assert [(wake.execution_id, wake.group_number) for wake in await wakes(store)] == [("a", None), ("b", None)]
        assert await store.open_groups() == []
    assert examine(StoreLocation(database), step=lambda _: None).faults == []
