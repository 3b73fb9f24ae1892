"""Workers and missing tools as the command shows them."""

from dataclasses import replace

from support.clinic import changed, diagnosed, planted, suspended
from support.console import Console, prepared
from support.desk import Desk, new_id
from wakegate_schema import clock
from wakegate_schema.records import RegisteredWorker
from wakegate_schema.store import Store


def a_worker(worker_id: str, pool: str, **tools: str) -> RegisteredWorker:
    """A worker that starts now."""
    now = clock.now()
    return RegisteredWorker(worker_id, f"host-{worker_id}", pool, "0.2.0", 5, 60, now, now, tools)


async def two(desk: Desk) -> None:
    """One that lives, and one that fell silent."""
    now = clock.now()
    gone = a_worker("b", "parcels", send_parcel="3")
    await desk.store.show_worker(replace(gone, started_at=now - clock.HOUR), now - clock.MINUTE)
    here = a_worker("a", "payments", issue_refund="1", decline="2")
    await desk.store.show_worker(replace(here, resumers=frozenset({"langgraph", "adk"})), now)


def test_workers_are_listed_by_pool_with_what_they_have(console: Console) -> None:
    prepared(console, two)
    rows = console("pool", "list", "--json").json
    assert [(row["pool"], row["host"], row["state"], row["tools"]) for row in rows] == [
        ("parcels", "host-b", "silent", {"send_parcel": "3"}),
        ("payments", "host-a", "living", {"decline": "2", "issue_refund": "1"}),
    ]
    assert [row["resumers"] for row in rows] == [[], ["adk", "langgraph"]]
    assert (rows[1]["version"], rows[1]["lease_seconds"]) == ("0.2.0", 60)
    head, first, second = console("pool", "list").out.splitlines()
    assert head.split()[:4] == ["POOL", "HOST", "STATE", "VERSION"]
    assert first.split()[:3] == ["parcels", "host-b", "silent"]
    assert second.endswith("decline@2, issue_refund@1  adk, langgraph")
    assert len(console("pool", "list", "--limit", "1", "--json").json) == 1


def test_without_a_worker_there_is_nothing_to_list(console: Console) -> None:
    async def nothing(_: Desk) -> None:
        return None

    prepared(console, nothing)
    assert console("pool", "list").out == "No workers.\n"


def test_a_call_whose_tool_nobody_has_says_so(console: Console) -> None:
    async def work(desk: Desk) -> list[str]:
        await two(desk)
        saved = [
            await desk.save(idempotency_key=new_id(), tool=tool, tool_version=version)
            for tool, version in (("issue_refund", None), ("issue_refund", "7"), ("send_parcel", None))
        ]
        harness = await desk.save(idempotency_key=new_id(), tool="send_parcel", runs="harness")
        return [found.execution_id for found in (*saved, harness)]

    ids = prepared(console, work)
    problems = {row["execution_id"]: row["problem"] for row in console("execution", "list", "--json").json}
    missing = "no_worker_has_the_tool"
    assert [problems[execution_id] for execution_id in ids] == [None, missing, missing, None]
    shown = console("execution", "show", ids[1]).out
    assert missing in shown
    assert "run one with the module in WAKEGATE_TOOLS: issue_refund" in shown


def test_the_doctor_names_what_no_living_worker_has(console: Console) -> None:
    found = planted(console)
    suspended(console, found, tool="send_parcel", tool_version="3")
    quiet = diagnosed(console, "--offline")
    assert "store.tools" not in quiet.found

    async def work(store: Store) -> None:
        await store.show_worker(a_worker("a", "payments", issue_refund="1"), clock.now())

    changed(console, work)
    said = diagnosed(console, "--offline").of("store.tools", "problem")
    assert "1 call waits for the tool send_parcel at version 3, which no living worker has" in said

    async def come(store: Store) -> None:
        await store.show_worker(a_worker("b", "parcels", send_parcel="3"), clock.now())

    changed(console, come)
    assert diagnosed(console, "--offline").of("store.tools", "ok")
