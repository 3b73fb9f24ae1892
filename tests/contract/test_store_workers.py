"""Workers: who lives, what each has, which calls each is given, and what nobody has."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from support.desk import Desk, new_id
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.records import Execution, MissingTool, RegisteredWorker, RequestIdentity
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import Store
from wakegate_schema.store.dialects import POSTGRESQL, SQLITE
from wakegate_schema.store.queries import load_store

FAR = 30 * DAY


def a_worker(worker_id: str = "a", pool: str = "default", /, **tools: str) -> RegisteredWorker:
    """A worker with these tools, by version."""
    now = clock.now()
    return RegisteredWorker(worker_id, "host-1", pool, "0.2.0", 5, 60, now, now, tools)


async def register(store: Store, worker_id: str, **tools: str) -> None:
    """Register a worker with these tools."""
    await store.show_worker(a_worker(worker_id, **tools), clock.now())


async def leased(store: Store, owner: str, limit: int = 100) -> set[str]:
    """The ids of what an owner is given."""
    now = clock.now()
    return {found.execution_id for found in await store.lease_due(owner, limit, now, now + MINUTE)}


async def sent(desk: Desk, **changes: Any) -> Execution:
    """A call that is being submitted, due now; nothing else is leased meanwhile."""
    saved, now = await desk.save(**changes), clock.now()
    for found in await desk.store.lease_due("sender", 100, now, now + MINUTE):
        if found.execution_id == saved.execution_id:
            await desk.store.begin_submission(found.lease, "1", now)
        await desk.store.release(found.lease, now, None, now)
    return await desk.store.execution(saved.execution_id)


async def waiting(desk: Desk, **changes: Any) -> Execution:
    """A call whose request waits at its provider, due now."""
    found, now = await sent(desk, **changes), clock.now()
    return await desk.store.attach(found.execution_id, RequestIdentity(new_id(), now, now + 30 * MINUTE), now)


async def test_a_worker_is_given_what_its_tools_can_run(desk: Desk, store: Store) -> None:
    mine = await desk.save(tool="issue_refund", tool_version="1")
    undeclared = await desk.save(tool="issue_refund", tool_version=None)
    harness = await desk.save(tool="anything", runs="harness")
    other = await desk.save(tool="issue_refund", tool_version="2")
    foreign = await desk.save(tool="send_parcel")
    await register(store, "a", issue_refund="1")
    await register(store, "b", issue_refund="2", send_parcel="1")
    assert await leased(store, "a") == {mine.execution_id, undeclared.execution_id, harness.execution_id}
    assert await leased(store, "b") == {other.execution_id, foreign.execution_id}


async def test_a_worker_without_tools_is_given_what_a_harness_runs(desk: Desk, store: Store) -> None:
    harness = await desk.save(runs="harness")
    await desk.save()
    await register(store, "a")
    assert await leased(store, "a") == {harness.execution_id}


async def test_an_owner_that_has_not_said_what_it_has_is_given_everything(desk: Desk, store: Store) -> None:
    saved = {(await desk.save(tool=name)).execution_id for name in ("issue_refund", "send_parcel")}
    assert await leased(store, "the release before") == saved


async def test_a_call_in_any_undecided_state_is_for_its_tool(desk: Desk, store: Store) -> None:
    found = await waiting(desk, tool="issue_refund")
    other = await sent(desk, tool="issue_refund")
    await register(store, "a", send_parcel="1")
    await register(store, "b", issue_refund="1")
    assert await leased(store, "a") == set()
    assert await leased(store, "b") == {found.execution_id, other.execution_id}


async def test_the_soonest_due_comes_first_whatever_its_tool(desk: Desk, store: Store) -> None:
    now = clock.now()
    saved = [await desk.save(tool=("one", "two")[n % 2], at=now - (9 - n) * MINUTE) for n in range(6)]
    await register(store, "a", one="1", two="1")
    assert await leased(store, "a", 3) == {found.execution_id for found in saved[:3]}
    assert await leased(store, "a", 3) == {found.execution_id for found in saved[3:]}


async def test_what_nobody_has_the_tool_for_is_no_work_that_lags(desk: Desk, store: Store) -> None:
    now = clock.now()
    await desk.save(tool="send_parcel", at=now - HOUR)
    assert (await store.census()).due["execution"] == now - HOUR, "nobody at all works"
    await register(store, "a", issue_refund="1")
    assert "execution" not in (await store.census()).due
    await desk.save(tool="issue_refund", at=now - MINUTE)
    assert (await store.census()).due["execution"] == now - MINUTE


async def test_an_owner_is_told_when_something_of_its_own_is_due(desk: Desk, store: Store) -> None:
    await register(store, "a", issue_refund="1")
    await desk.save(tool="send_parcel")
    await desk.save(tool="issue_refund", tool_version="2")
    assert await store.next_due_at("a") is None
    assert (await store.next_due_at()) is not None
    now = clock.now()
    saved = await desk.save(tool="issue_refund", at=now)
    assert await store.next_due_at("a") == now
    (held,) = await store.lease_due("a", 10, now, now + MINUTE)
    assert held.execution_id == saved.execution_id
    assert await store.next_due_at("a") == now + MINUTE
    await store.release(held.lease, now + SECOND, None, now)
    assert await store.next_due_at("a") == now + SECOND


async def test_a_call_passed_on_goes_to_another_worker_with_its_tool_first(desk: Desk, store: Store) -> None:
    await desk.save()
    for name in ("a", "b"):
        await register(store, name, issue_refund="1")
    now = clock.now()
    (held,) = await store.lease_due("a", 1, now, now + MINUTE)
    await store.release(held.lease, now, "no_thread", now, pass_on=True)
    assert await store.lease_due("a", 1, now, now + FAR) == []
    assert await store.next_due_at("a") == now + 2 * SECOND
    assert await store.next_due_at("b") == now
    assert len(await store.lease_due("b", 1, now, now + FAR)) == 1


async def test_a_worker_is_on_record_as_it_registered(store: Store) -> None:
    now = clock.now()
    worker = a_worker("a", "billing", issue_refund="1", send_parcel="7")
    await store.show_worker(worker, now)
    await store.show_worker(worker, now + SECOND)
    assert await store.workers() == [replace(worker, seen_at=now + SECOND)]
    assert await store.longest_lease_seconds() == 60


async def test_the_pools_that_live_are_those_with_a_worker_seen_lately(store: Store) -> None:
    now = clock.now()
    assert await store.living_pools(now) == frozenset()
    await store.show_worker(a_worker("a", "billing"), now)
    await store.show_worker(a_worker("b", "parcels"), now + 20 * SECOND)
    assert await store.living_pools(now + 29 * SECOND) == {"billing", "parcels"}
    assert await store.living_pools(now + 31 * SECOND) == {"parcels"}


async def test_a_worker_that_is_silent_for_long_is_forgotten(store: Store) -> None:
    now = clock.now()
    await store.show_worker(a_worker("a", issue_refund="1"), now)
    await store.show_worker(a_worker("b"), now + 9 * MINUTE)
    assert len(await store.workers()) == 2
    await store.show_worker(a_worker("b"), now + 11 * MINUTE)
    assert [worker.worker_id for worker in await store.workers()] == ["b"]


async def test_a_worker_that_was_forgotten_too_soon_registers_again(store: Store) -> None:
    now = clock.now()
    silent = a_worker("a", issue_refund="1")
    await store.show_worker(silent, now)
    await store.show_worker(a_worker("b"), now + HOUR)
    await store.show_worker(silent, now + HOUR)
    assert {worker.worker_id: worker.tools for worker in await store.workers()} == {"a": {"issue_refund": "1"}, "b": {}}


async def test_a_sign_of_life_from_a_clock_far_ahead_does_not_last(store: Store) -> None:
    now = clock.now()
    await store.show_worker(a_worker("a"), now + DAY)
    await store.show_worker(a_worker("b"), now)
    assert [worker.worker_id for worker in await store.workers()] == ["b"]


async def test_a_worker_that_stops_is_given_nothing_for_its_tools(desk: Desk, store: Store) -> None:
    await desk.save()
    await register(store, "a", issue_refund="1")
    await store.drop_worker_tools("a")
    assert await leased(store, "a") == set()
    assert [worker.tools for worker in await store.workers()] == [{}]
    await store.remove_worker("a")
    await store.remove_worker("a")
    assert await store.workers() == []


async def test_tools_that_nobody_has_are_told_of_with_their_calls(desk: Desk, store: Store) -> None:
    await register(store, "a", issue_refund="1")
    for version in ("1", None):
        await desk.save(tool="issue_refund", tool_version=version)
    for version in ("2", "2", "3"):
        await desk.save(tool="issue_refund", tool_version=version)
    for version in (None, "1", None):
        await desk.save(tool="send_parcel", tool_version=version)
    await desk.save(tool="harness_only", runs="harness")
    found = await store.missing_tools(clock.now())
    assert sorted(found, key=lambda each: (each.tool, each.version or "")) == [
        MissingTool("issue_refund", "2", 2),
        MissingTool("issue_refund", "3", 1),
        MissingTool("send_parcel", None, 2),
        MissingTool("send_parcel", "1", 1),
    ]


async def test_of_very_many_missing_tools_each_is_told_of_in_its_turn(desk: Desk, store: Store) -> None:
    names = {f"tool_{number:03}" for number in range(150)}
    await asyncio.gather(*(desk.save(tool=name) for name in names))
    now, told = clock.now(), set()
    for second in range(3):
        found = {one.tool for one in await store.missing_tools(now + second * SECOND)}
        assert len(found) == 100
        told |= found
    assert told == names


async def test_what_only_a_silent_worker_has_is_missing(desk: Desk, store: Store) -> None:
    await register(store, "a", issue_refund="1")
    await desk.save()
    assert await store.missing_tools(clock.now()) == []
    assert await store.missing_tools(clock.now() + MINUTE) == [MissingTool("issue_refund", None, 1)]


async def test_a_decided_call_misses_no_tool(desk: Desk, store: Store) -> None:
    await desk.started()
    assert await store.missing_tools(clock.now()) == []


async def test_anybody_asks_what_became_of_a_request_whose_tool_nobody_has(desk: Desk, store: Store) -> None:
    now = clock.now()
    asked = {(await waiting(desk, tool="send_parcel")).execution_id}
    asked.add((await sent(desk, tool="send_parcel", tool_version="1")).execution_id)
    await desk.save(tool="send_parcel")
    await desk.save(tool="send_parcel", tool_version="1")
    await waiting(desk, tool="issue_refund")
    await register(store, "a", issue_refund="1")
    missing = await store.missing_tools(now)
    now = clock.now()
    found = await store.lease_orphans("a", missing, 10, now, now + MINUTE)
    assert {each.execution_id for each in found} == asked
    assert await store.lease_orphans("a", missing, 10, now, now + MINUTE) == []


async def test_orphans_are_taken_up_to_a_limit(desk: Desk, store: Store) -> None:
    for name in ("one", "two", "three"):
        await waiting(desk, tool=name)
        await waiting(desk, tool=name)
    now = clock.now()
    missing = await store.missing_tools(now)
    assert len(await store.lease_orphans("a", missing, 5, now, now + MINUTE)) == 5
    assert len(await store.lease_orphans("a", missing, 5, now, now + MINUTE)) == 1


async def test_a_call_that_was_never_submitted_waits_eight_days_for_its_tool(desk: Desk, store: Store) -> None:
    now = clock.now()
    saved = await desk.save(at=now)
    missing = await store.missing_tools(now)
    assert await store.lease_orphans("a", missing, 10, now + 8 * DAY - 1, now + FAR) == []
    (found,) = await store.lease_orphans("a", missing, 10, now + 8 * DAY, now + FAR)
    assert found.execution_id == saved.execution_id


MANY = 3000
"""Calls due for tools of others, in the costly store; the cheap one has few."""
FEW = 30

INSERT = """
INSERT INTO execution (execution_id, provider, instance_id, idempotency_key, tool, arguments, timeout, digest,
    tool_version, runs, wake, state, actor, due_at, created_at, changed_at, epoch)
SELECT {prefix} || n, '{provider}', '{instance}', {prefix} || n, 'of_others', {empty}, '30m', {digest}, '1', 'worker',
    'none', 'saved', 'harness', n, n, n, 1 FROM {numbers}
"""


def fill(database: str, desk: Desk, first: int, last: int) -> None:
    """Save many calls for a tool of others, due long ago."""
    is_sqlite = database.startswith("sqlite")
    numbers = (
        f"(WITH RECURSIVE c (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c WHERE n < {last}) SELECT n FROM c)"
        if is_sqlite
        else f"generate_series({first}, {last}) AS c (n)"
    )
    with closing(open_raw(database)) as raw:
        raw.execute(
            INSERT.format(
                prefix="'x'", provider=desk.provider, instance=desk.instance_id, numbers=numbers,
                empty="x'7b7d'" if is_sqlite else "'{}'::bytea",
                digest="zeroblob(32)" if is_sqlite else "sha256('')",
            )
        )  # fmt: skip


def cost(database: str, name: str) -> int:
    """What a query of worker `a` takes: instructions of SQLite's machine, or pages that PostgreSQL looks into."""
    now = clock.now()
    params = {"owner": "a", "at": now, "until": now + MINUTE, "limit": 16, "head_start": 2 * SECOND}
    params |= {"since": now - 30 * SECOND}
    if database.startswith("sqlite"):
        return _sqlite_cost(database, load_store(SQLITE)[name], params)
    return _postgresql_cost(database, load_store(POSTGRESQL)[name], params)


def _sqlite_cost(database: str, query: str, params: dict[str, Any]) -> int:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    with closing(sqlite3.connect(sqlite_path(database), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.set_progress_handler(step, 1)
        connection.execute(query, params).fetchall()
        connection.set_progress_handler(None, 0)
        connection.execute("ROLLBACK")
    return steps


def _postgresql_cost(database: str, query: str, params: dict[str, Any]) -> int:
    import psycopg  # here, because it takes its time, and half of the tests have no server

    with psycopg.connect(database) as connection, connection.transaction(force_rollback=True):
        (found,) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode(), params).fetchall()
    top = found[0][0]["Plan"]

    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


@pytest.mark.costs
@pytest.mark.parametrize("analyzed", [False, True])
async def test_what_is_due_for_others_costs_a_worker_nothing(
    desk: Desk, store: Store, database: str, analyzed: bool
) -> None:
    await register(store, "a", issue_refund="1", print_label="1")
    await register(store, "b", of_others="1")
    for _ in range(4):
        await desk.save(tool_version="1")
    names = ("lease_due", "next_due_at", "missing_tools")
    costs = []
    for first, last in ((1, FEW), (FEW + 1, MANY)):
        fill(database, desk, first, last)
        if analyzed:
            with closing(open_raw(database)) as raw:
                raw.execute("ANALYZE")
        costs.append({name: cost(database, name) for name in names})
    few, many = costs
    assert {name: many[name] for name in names if many[name] > 1.5 * few[name] + 20} == {}, few
