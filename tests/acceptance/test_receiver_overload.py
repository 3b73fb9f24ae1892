"""A receiver with more to do than it can: bounded, flat in memory, prompt for what is genuine, and stopped in time."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import ssl
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from support import flood
from support.aap_peer import Peer
from support.certificates import certificate
from support.deliveries import Delivery, Sender
from support.receivers import Client, request_bytes, stalled
from support.services import Answers, Site, pulse, site_in, stop, tell
from wakegate_schema.signing import SigningSecret

pytestmark = pytest.mark.alone

CLIENTS = int(os.environ.get("WAKEGATE_TEST_CLIENTS", "2000"))
"""How many slow clients there are; 10000 in the long run."""
LOAD_S = float(os.environ.get("WAKEGATE_TEST_LOAD_S", "1.5"))
MEGABYTE = 1024 * 1024
GROWTH = 60 * MEGABYTE
"""How much larger a receiver may become under load; a leak of a kilobyte a request would be more."""


@asynccontextmanager
async def crowd(site: Site, kind: str, count: int, delivery: Delivery) -> AsyncIterator[None]:
    """Have a crowd at the receiver's door for the length of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, flood.__file__, kind, *map(str, site.address), str(count),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request_bytes(delivery))
        process.stdin.close()
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"all there\n"
        yield
        assert process.returncode is None, "the crowd was there all the time"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def forged(site: Site) -> Delivery:
    return Sender(SigningSecret.generate().reveal(), site.registered.instance_id).notification()


def memory(process: asyncio.subprocess.Process) -> int:
    """What a process has in memory, in bytes."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError(process.pid)


async def genuine(site: Site, answers: Answers, seconds: float = LOAD_S) -> None:
    """Post a genuine delivery again and again, each on a connection of its own."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await answers.post(site, site.sender.notification())
        await asyncio.sleep(0.05)


def report(what: str, answers: Answers, before: int, after: int) -> None:
    waits = sorted(answers.seconds)
    tell(
        f"{what}: {len(waits)} genuine deliveries, median {statistics.median(waits) * 1000:.0f} ms,"
        f" p95 {waits[len(waits) * 95 // 100] * 1000:.0f} ms, longest {waits[-1] * 1000:.0f} ms;"
        f" memory {before / MEGABYTE:.0f} → {after / MEGABYTE:.0f} MB"
    )


def is_prompt(answers: Answers) -> bool:
    """Whether no genuine delivery took a second, but for one in twenty on a machine that has other things to do."""
    waits = sorted(answers.seconds)
    return waits[len(waits) * 95 // 100] < 1


@pytest.mark.parametrize("kind", ["silent", "mute", "junk", "churn"])
async def test_a_crowd_neither_delays_what_is_genuine_nor_grows_the_receiver_nor_its_stop(
    tmp_path: Path, peer: Peer, kind: str
) -> None:
    count = CLIENTS if kind in ("silent", "mute") else 64
    settings = {"WAKEGATE_SHUTDOWN_TIMEOUT": "3"}
    tls = None
    if kind == "mute":  # not a byte of a TLS handshake
        chain, key = certificate(tmp_path)
        settings |= {"WAKEGATE_TLS_CERT_FILE": str(chain), "WAKEGATE_TLS_KEY_FILE": str(key)}
        tls = ssl.create_default_context(cafile=chain)
    async with site_in(tmp_path, tmp_path, peer) as site, site.receiving(**settings) as receiver:
        site.tls, answers = tls, Answers()
        await genuine(site, answers, 0.5)
        before = memory(receiver)
        answers.seconds.clear()
        async with crowd(site, kind, count, forged(site)):
            async with pulse(site):
                await genuine(site, answers)
            after = memory(receiver)
            began = time.monotonic()
            assert await stop(receiver) == 0
            took = time.monotonic() - began
        report(f"{count} {kind}", answers, before, after)
        assert (answers.refused, answers.broken) == ([], 0), "none was turned away"
        assert is_prompt(answers), answers.seconds
        assert after - before < GROWTH
        assert took < 3 + 1.5
        assert await site.recorded() >= answers.acknowledged


async def test_genuine_deliveries_over_every_bound_are_told_to_come_back(tmp_path: Path, peer: Peer) -> None:
    async with site_in(tmp_path, tmp_path, peer) as site, site.receiving(WAKEGATE_RATE_LIMIT="300") as receiver:
        answers = Answers()
        await answers.post(site, site.sender.notification())
        before = memory(receiver)
        with stalled(site.settings):
            waiting = [asyncio.create_task(answers.post(site, site.sender.notification())) for _ in range(800)]
            async with asyncio.timeout(30):  # what has no place is told at once, before the store answers again
                while not answers.refused:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            during = memory(receiver)
        await asyncio.gather(*waiting)
        assert answers.are_fair
        assert answers.broken == 0
        assert len(answers.acknowledged) >= 256, "what had a place is answered"
        assert during - before < GROWTH
        assert await site.recorded() == answers.acknowledged


# Stopped (A24, A54)


async def test_a_stop_during_load_answers_only_what_is_on_record(tmp_path: Path, peer: Peer) -> None:
    async with site_in(tmp_path, tmp_path, peer) as site:
        answers = Answers()
        for number in range(2):
            async with site.receiving(WAKEGATE_SHUTDOWN_TIMEOUT="3") as receiver:
                over = asyncio.Event()
                clients = [asyncio.create_task(in_stages(site, answers, stage, over)) for stage in range(50)]
                await asyncio.sleep(0.4 + 0.1 * number)
                began = time.monotonic()
                assert await stop(receiver) == 0
                assert time.monotonic() - began < 3 + 1.5
                over.set()
                await asyncio.gather(*clients)  # none is cut off between an answer and its count
        assert answers.acknowledged
        assert answers.are_fair
        assert await site.recorded() >= answers.acknowledged


async def in_stages(site: Site, answers: Answers, stage: int, over: asyncio.Event) -> None:
    """Post again and again with a pause somewhere within each request: nowhere, in the headers, in the body."""
    while not over.is_set():
        delivery = site.sender.notification()
        data = request_bytes(delivery)
        cut = (len(data), 10, data.index(b"\r\n\r\n"), data.index(b"\r\n\r\n") + 4, len(data) - 1)[stage % 5]
        with contextlib.suppress(OSError, EOFError):
            async with Client(site.address) as client:
                await client.send(data[:cut])
                await asyncio.sleep(0.002 * stage if cut < len(data) else 0)
                await client.send(data[cut:])
                reply = await client.reply()
                if reply.status == 204:
                    answers.acknowledged.add(delivery.headers["webhook-id"])
                else:
                    answers.refused.append(reply)
        await asyncio.sleep(0.005)


async def test_a_stop_with_a_locked_database_and_slow_bodies_ends_in_time(tmp_path: Path, peer: Peer) -> None:
    async with (
        site_in(tmp_path, tmp_path, peer) as site,
        site.receiving(WAKEGATE_SHUTDOWN_TIMEOUT="2") as receiver,
        contextlib.AsyncExitStack() as stack,
    ):
        answers = Answers()
        await answers.post(site, site.sender.notification())
        shell = stack.enter_context(closing(sqlite3.connect(site.settings.database_path, isolation_level=None)))
        shell.execute("BEGIN EXCLUSIVE")
        waiting = [asyncio.create_task(answers.post(site, site.sender.notification())) for _ in range(300)]
        for _ in range(100):
            client = await stack.enter_async_context(Client(site.address))
            await client.send(request_bytes(site.sender.notification())[:-10])
        await asyncio.sleep(0.5)
        began = time.monotonic()
        receiver.send_signal(signal.SIGTERM)
        await asyncio.wait_for(receiver.wait(), 15)
        took = time.monotonic() - began
        await asyncio.gather(*waiting)
        assert took < 2 + 1.5
        assert len(answers.acknowledged) == 1, "nothing could be written"
        assert answers.are_fair
        tell(f"stopped after {took:.2f} s; {Counter(reply.status for reply in answers.refused)}")


async def test_clients_that_leave_in_the_middle_of_a_commit_leave_one_row_each(tmp_path: Path, peer: Peer) -> None:
    async with site_in(tmp_path, tmp_path, peer) as site, site.receiving():
        deliveries = [site.sender.notification() for _ in range(240)]
        answers = Answers()
        await answers.post(site, site.sender.notification())
        for begin in range(0, 240, 40):
            with stalled(site.settings):
                async with contextlib.AsyncExitStack() as stack:
                    for number, delivery in enumerate(deliveries[begin : begin + 40]):
                        client = await stack.enter_async_context(Client(site.address))
                        await client.send(request_bytes(delivery))
                        if number % 2:
                            client.reset()
                    await asyncio.sleep(0.03)
        with closing(sqlite3.connect(site.settings.database_path, isolation_level=None, timeout=2)) as shell:
            shell.execute("BEGIN IMMEDIATE")  # nobody left a transaction open
            shell.execute("ROLLBACK")
        for begin in range(0, 240, 40):
            await asyncio.gather(*(answers.post(site, delivery) for delivery in deliveries[begin : begin + 40]))
        assert len(answers.acknowledged) == 241
        found = [entry.event_id for _, entry in await site.store.notifications(0, 1000)]
        assert sorted(found) == sorted(answers.acknowledged)
