"""A crowd of clients that do everything wrong at once: no 5xx, nothing left over, genuine deliveries get through."""

import asyncio
import random
import time
from pathlib import Path

from support.receivers import Client, Registered, Running, receiver_in, request_bytes, until


async def misbehave(running: Running, desk: Registered, seed: int) -> int | None:
    """Do one of many wrong things; return the status, if there was an answer."""
    chance = random.Random(seed)
    data = request_bytes(desk.sender.notification())
    part = data[: chance.randrange(len(data))]
    noise = bytes(chance.randrange(256) for _ in range(chance.randrange(300))) + b"\r\n\r\n"
    sent, leaves, lingers = chance.choice(
        [
            (part, True, 0.0),
            (data, True, 0.0),
            (part, False, chance.random()),
            (noise, False, 0.0),
            (data + noise, False, 0.0),
            (data * 5, False, 0.0),
            (data.replace(b"content-length", b"transfer-encoding: chunked\r\nx", 1), False, 0.0),
            (data, False, 0.0),
        ]
    )
    try:
        async with Client(running.address) as client:
            await client.send(sent)
            await asyncio.sleep(lingers)
            if leaves:
                client.reset()
                return None
            return (await client.reply(timeout=3)).status
    except (OSError, EOFError, TimeoutError):
        return None


async def test_a_crowd_that_does_everything_wrong_gets_no_5xx_and_leaves_nothing(tmp_path: Path) -> None:
    async with receiver_in(tmp_path, max_connections=30, request_timeout=1.0) as running:
        desk = await running.register()
        for round_number in range(4):
            seeds = range(round_number * 60, round_number * 60 + 60)
            crowd = asyncio.gather(*(misbehave(running, desk, seed) for seed in seeds))
            await asyncio.sleep(0.05)
            began = time.monotonic()
            assert (await running.post(desk.sender.notification())).status == 204
            assert time.monotonic() - began < 1
            assert {status for status in await crowd if status is not None} <= {204, 400, 401, 408}
        await until(lambda: len(running.receiver.connections) == 0)
        assert running.receiver.refusals.counts["unforeseen"] == 0
        assert len(running.receiver.refusals.counts) > 3
