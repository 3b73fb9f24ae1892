"""Metrics as Prometheus reads them: over real sockets, counted against what really happened."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.desk import Desk
from support.ports import free_port
from support.receivers import Registered, Running, receiver_in
from wakegate_receiver.metrics import metrics_page
from wakegate_schema import clock
from wakegate_schema.records import Outcome

Page = dict[str, float]


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
async def receiver(home: Path) -> AsyncIterator[Running]:
    async with receiver_in(home) as running:
        yield running


async def desk_of(running: Running, known: Registered) -> Desk:
    """The instance of a registration, in use, and its calls."""
    desk = Desk(running.store, known.provider, known.instance_id, known.registration_id, "desk")
    await running.store.add_instance(desk.instance(), known.registration_id)
    return desk


async def page(socket: Path | str) -> Page:
    """Every sample of the page: its name with its labels → its value."""
    connector = aiohttp.UnixConnector(str(socket)) if isinstance(socket, Path) else aiohttp.TCPConnector()
    host = "localhost" if isinstance(socket, Path) else socket
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"http://{host}/metrics") as answer,
    ):
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        text = await answer.text()
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def control(running: Running) -> Path:
    address = running.settings.control_address
    assert isinstance(address, Path)
    return address


async def test_acknowledgements_duplicates_and_refusals_are_what_happened(receiver: Running) -> None:
    known = await receiver.register()
    delivery = known.sender.notification()
    for _ in range(3):
        assert (await receiver.post(delivery)).status == 204
    assert (await receiver.post(delivery.with_headers(webhook_timestamp="1"))).status == 401
    found = await page(control(receiver))
    assert found["wakegate_acknowledgements_total kind=saved"] == 1
    assert found["wakegate_acknowledgements_total kind=duplicate"] == 2
    assert found["wakegate_acknowledgements_total kind=discarded"] == 0
    assert found["wakegate_commit_seconds_count"] == 3
    assert sum(value for name, value in found.items() if name.startswith("wakegate_refusals_total")) == 1
    assert found["wakegate_notifications_unhandled"] == 1
    assert abs(found["wakegate_webhook_skew_seconds"]) < 60
    assert found["wakegate_store_up"] == 1


async def test_a_verification_counts_once_it_was_answered(receiver: Running) -> None:
    known = await receiver.expect()
    delivery = known.sender.verification(known.registration_id)
    assert (await receiver.post(delivery)).status == 200
    assert (await page(control(receiver)))["wakegate_verifications_total"] == 1


async def test_what_the_store_holds_is_counted(receiver: Running) -> None:
    known = await receiver.register()
    desk = await desk_of(receiver, known)
    await desk.save()
    abandoned = await desk.save(wake="nobody")
    before = await page(control(receiver))
    assert before["wakegate_executions state=saved"] == 2
    assert before["wakegate_executions state=in_doubt"] == 0
    assert before["wakegate_instance_active instance=desk"] == 1
    for state in ("permitted", "in_doubt", "lapsed", "abandoned"):  # `increase()` sees only what has begun at 0
        assert before[f"wakegate_resolutions_total state={state}"] == 0
    await receiver.store.abandon(abandoned.execution_id, "changed", "harness", clock.now())
    found = before
    async with asyncio.timeout(20):
        while found["wakegate_executions state=saved"] == 2:
            await asyncio.sleep(0.3)
            found = await page(control(receiver))
    assert found["wakegate_resolutions_total state=abandoned"] == 1
    assert found["wakegate_wakes state=owed"] == 1
    assert found["wakegate_sweep_lag_seconds work=execution"] > 0, "no worker runs"


async def test_a_start_is_told_with_its_times(receiver: Running) -> None:
    known = await receiver.register()
    desk = await desk_of(receiver, known)
    await page(control(receiver))  # counts from here on
    started = await desk.started()
    await receiver.store.finish(started.lease, Outcome("succeeded", "returned"), clock.now())
    async with asyncio.timeout(20):
        while (found := await page(control(receiver)))["wakegate_resolutions_total state=succeeded"] == 0:
            await asyncio.sleep(0.3)
    assert found["wakegate_decision_to_start_seconds_count"] == 1
    assert found["wakegate_start_slack_seconds_count"] == 1
    assert 0 < found["wakegate_start_slack_seconds_sum"] < 3600


async def test_a_store_that_is_away_leaves_the_page_standing(receiver: Running, home: Path) -> None:
    await page(control(receiver))
    database = receiver.settings.database_path
    database.rename(home / "elsewhere.db")
    try:
        async with asyncio.timeout(20):
            while (found := await page(control(receiver)))["wakegate_store_up"] == 1:
                await asyncio.sleep(0.3)
        assert "wakegate_epoch" not in found
        assert "wakegate_acknowledgements_total kind=saved" in found
    finally:
        (home / "elsewhere.db").rename(database)


async def test_those_who_ask_at_once_are_given_one_page(receiver: Running) -> None:
    """Writing it takes the loop's time, which webhooks need."""
    _, pages = metrics_page(receiver.store, {'"\n\\x': 1}, lambda: 1, clock.now)
    first = await asyncio.gather(*(pages.text() for _ in range(100)))
    again = await asyncio.gather(*(pages.text() for _ in range(100)))
    assert [len({id(page) for page in those}) for those in (first, again)] == [1, 1]
    assert first[0] is not again[0], "whoever asks later is told what is so by then"


async def test_names_of_instances_cannot_forge_a_line(receiver: Running) -> None:
    name = 'a"} 1\nwakegate_epoch 7\n\\'
    known = await receiver.register()
    desk = Desk(receiver.store, known.provider, known.instance_id, known.registration_id, name)
    await receiver.store.add_instance(desk.instance(), known.registration_id)
    found = await page(control(receiver))
    assert found["wakegate_epoch"] == 1
    assert found[f"wakegate_instance_active instance={name}"] == 1


async def test_the_metrics_address_serves_health_and_metrics_alone(home: Path) -> None:
    port = free_port()
    async with receiver_in(home, metrics_listen=f"127.0.0.1:{port}"), aiohttp.ClientSession() as session:
        assert (await page(f"127.0.0.1:{port}"))["wakegate_store_up"] == 1
        statuses = {}
        for path in ("/healthz", "/readyz", "/v1/executions", "/v1/harness", "/aap/events"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                statuses[path] = answer.status
    assert statuses == {"/healthz": 200, "/readyz": 200, "/v1/executions": 404, "/v1/harness": 404, "/aap/events": 404}
