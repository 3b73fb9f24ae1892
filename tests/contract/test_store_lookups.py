"""Looking things up: the latest first, by a part of an id, or by a key."""

from support.desk import Desk, new_id
from wakegate_schema.states import State
from wakegate_schema.store import Store


async def test_pages_go_back_from_the_latest(store: Store) -> None:
    desk = await Desk(store).open()
    saved = [(await desk.save()).execution_id for _ in range(5)]
    seen: list[str] = []
    before = None
    while page := await store.latest_executions(before, 2):
        assert len(page) <= 2
        seen += [record.execution_id for _, record in page]
        before = page[-1][0]
    assert seen == saved[::-1]


async def test_the_latest_in_one_state(store: Store) -> None:
    desk = await Desk(store).open()
    saved, doubtful = await desk.save(), await desk.in_doubt()
    abandoned = await desk.save()
    await store.abandon(abandoned.execution_id, "x", "harness", abandoned.created_at)
    for state, record in ((State.SAVED, saved), (State.IN_DOUBT, doubtful), (State.ABANDONED, abandoned)):
        found = await store.latest_executions(state=state)
        assert [each.execution_id for _, each in found] == [record.execution_id]


async def test_executions_are_found_by_key_and_by_the_beginning_of_their_id(store: Store) -> None:
    desk = await Desk(store).open()
    first = await desk.save(execution_id="aaaa" + new_id()[4:], idempotency_key="run-7")
    second = await desk.save(execution_id="aaaf" + new_id()[4:], idempotency_key="aaaa")
    await desk.save(execution_id="aab0" + new_id()[4:])

    async def called(key: str, prefix: str | None) -> set[str]:
        return {record.execution_id for record in await store.executions_called(key, prefix)}

    assert await called("run-7", None) == {first.execution_id}
    assert await called("aaaf", "aaaf") == {second.execution_id}
    assert await called("aaaa", "aaaa") == {first.execution_id, second.execution_id}
    assert await called(first.execution_id, first.execution_id) == {first.execution_id}
    assert await called("aaa", "aaac") == set()


async def test_notifications_are_found_by_the_beginning_of_their_id(store: Store) -> None:
    desk = await Desk(store).open()
    first, second = (desk.arrival(new_id(), event_id=start + new_id()[4:]) for start in ("bbbb", "bbbc"))
    await store.record(first)
    await store.record(second)
    assert [each.event_id for each in await store.notifications_called("bbbb")] == [first.event_id]
    assert await store.notifications_called("bbbd") == []
    assert [each.event_id for _, each in await store.latest_notifications()] == [second.event_id, first.event_id]
