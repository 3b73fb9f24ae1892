"""A full disk, with real processes on a real small one: nothing acknowledged, nothing run, and room heals (A41)."""

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from aiohttp import web

from support.aap_peer import Peer
from support.deliveries import Delivery
from support.disks import small_disk, with_mounts
from support.services import Answers, Site, lines_of, pulse, site_in, stop, until_true
from wakegate_schema.states import State
from wakegate_schema.store import StoreUnavailable


def large(site: Site, kilobytes: int = 40) -> Delivery:
    """A notification with much white space after its object, which is kept."""
    plain = site.sender.notification()
    return site.sender.raw(plain.body + b" " * 1024 * kilobytes, plain.headers["webhook-id"])


def is_whole(site: Site) -> bool:
    with closing(sqlite3.connect(site.settings.database_path)) as raw:
        return bool(raw.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@pytest.mark.parametrize(
    ("kilobytes", "freed", "what"),
    [(1_500, 300, "the WAL, before its first checkpoint"), (14_000, 5_000, "the database, at a checkpoint")],
)
@with_mounts
async def test_deliveries_that_fill_the_disk_are_on_record_or_503_and_room_heals(
    tmp_path: Path, peer: Peer, kilobytes: int, freed: int, what: str
) -> None:
    with small_disk(tmp_path / "disk", kilobytes) as disk:
        disk.fill(leave=1024 * (kilobytes - freed))
        async with site_in(disk.path, tmp_path, peer) as site, site.receiving():
            answers = Answers()
            async with pulse(site) as waits:
                while len(answers.refused) < 40:
                    await asyncio.gather(*(answers.post(site, large(site)) for _ in range(16)))
                disk.fill()
                await until_true(lambda: is_full(site))
            assert max(waits) < 1
            assert answers.acknowledged
            assert answers.broken == 0
            assert answers.are_fair, answers.refused
            disk.empty()
            for _ in range(3):
                delivery = large(site)
                assert (await site.post(delivery)).status == 204
                answers.acknowledged.add(delivery.headers["webhook-id"])
            assert await site.unready() is None
            assert await site.recorded() >= answers.acknowledged
            assert is_whole(site)


@with_mounts
async def test_a_receiver_killed_on_a_full_disk_keeps_what_it_acknowledged(tmp_path: Path, peer: Peer) -> None:
    with small_disk(tmp_path / "disk", 1_000) as disk:
        async with site_in(disk.path, tmp_path, peer) as site:
            answers = Answers()
            async with site.receiving() as receiver:
                while not answers.refused:
                    await asyncio.gather(*(answers.post(site, large(site)) for _ in range(8)))
                receiver.send_signal(signal.SIGKILL)
                await receiver.wait()
            disk.fill()
            async with site.receiving():
                refused = len(answers.refused)
                while len(answers.refused) == refused:
                    await answers.post(site, large(site))
                await until_true(lambda: is_full(site))
            assert await site.recorded() >= answers.acknowledged


@with_mounts
async def test_what_cannot_be_written_as_started_does_not_run(tmp_path: Path, peer: Peer) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def hold_the_answer(request: web.Request) -> web.StreamResponse | None:
        if request.method == "GET" and peer.only()["status"] == "approved":
            asked.set()
            await answer.wait()
        return None

    peer.interference = hold_the_answer
    with small_disk(tmp_path / "disk", 1_500) as disk:
        async with site_in(disk.path, tmp_path, peer) as site, site.receiving(), site.working() as worker:
            saved = await site.worker.save()
            waiting = await site.worker.until(saved.execution_id, State.WAITING)
            peer.approve(peer.only())
            assert (await site.post(site.sender.notification(waiting.request_id))).status == 204
            await asyncio.wait_for(asked.wait(), 60)
            disk.fill()
            await no_room(site)
            answer.set()
            await until_true(lambda: '"disk_full"' in site.worker.logs)
            await asyncio.sleep(1)
            assert (await site.store.execution(saved.execution_id)).state is State.WAITING
            assert site.worker.effects == []
            assert worker.returncode is None
            disk.empty()
            done = await site.worker.settled(saved.execution_id)
            assert done.state is State.SUCCEEDED
            assert site.worker.effects == [saved.execution_id]


@with_mounts
async def test_an_outcome_that_finds_no_room_is_kept_until_there_is(tmp_path: Path, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    with small_disk(tmp_path / "disk", 1_500) as disk:
        async with site_in(disk.path, tmp_path, peer) as site:
            saved = await site.worker.save(tool="take_a_second")
            async with site.working():
                await until_true(lambda: site.worker.effects == [saved.execution_id])
                disk.fill()
                await until_true(lambda: '"the outcome waits for the store"' in site.worker.logs)
                assert (await site.store.execution(saved.execution_id)).state is State.STARTED
                disk.empty()
                assert (await site.worker.until(saved.execution_id, State.SUCCEEDED)).reason == "returned"
            assert site.worker.effects == [saved.execution_id]


@with_mounts
async def test_a_stop_on_a_full_disk_ends_in_time_and_what_ran_is_in_doubt(tmp_path: Path, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    with small_disk(tmp_path / "disk", 1_500) as disk:
        async with (
            site_in(disk.path, tmp_path, peer) as site,
            site.receiving(WAKEGATE_SHUTDOWN_TIMEOUT="3") as receiver,
            site.working() as worker,
        ):
            saved = await site.worker.save(tool="take_a_second")
            await until_true(lambda: site.worker.effects == [saved.execution_id])
            disk.fill()
            await until_true(lambda: '"the outcome waits for the store"' in site.worker.logs)
            assert await stop(receiver, 6) == 0
            worker.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.6)
            worker.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(worker.wait(), 60) == 0
            assert lines_of(site.worker.logs, "stop")
            disk.empty()
            async with site.working():
                await site.worker.until(saved.execution_id, State.IN_DOUBT)
        assert site.worker.effects == [saved.execution_id]


@with_mounts
async def test_a_full_folder_for_temporary_files_concerns_nobody(tmp_path: Path, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    with small_disk(tmp_path / "tmp", 64) as disk:
        disk.fill()
        full = {"TMPDIR": str(disk.path), "SQLITE_TMPDIR": str(disk.path)}
        async with site_in(tmp_path, tmp_path, peer) as site, site.receiving(**full), site.working(**full):
            saved = [await site.worker.save() for _ in range(20)]
            answers = Answers()
            await asyncio.gather(*(answers.post(site, large(site)) for _ in range(30)))
            assert len(answers.acknowledged) == 30
            for execution in saved:
                assert (await site.worker.settled(execution.execution_id)).state is State.SUCCEEDED


async def is_full(site: Site) -> bool:
    """Whether the receiver says that it is not ready because the disk is full."""
    return await site.unready() == "disk_full"


async def no_room(site: Site) -> None:
    """Wait until the store refuses."""
    async with asyncio.timeout(10):
        while True:
            try:
                await site.store.probe()
            except StoreUnavailable:
                return
