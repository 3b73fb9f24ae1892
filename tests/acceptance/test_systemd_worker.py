"""The worker as its unit runs it: its credentials, its user, confined; and the programs that tools and wakes start."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.desk import Desk
from support.units import PATIENCE_S, WORKER, Manager, managed
from wakegate_console import layout
from wakegate_schema import clock
from wakegate_schema.keys import load_key
from wakegate_schema.sealing import seal_credential
from wakegate_schema.store import open_store

TOOLS = '''
import subprocess
from wakegate_worker import Attempt, tool

said = subprocess.run(["sh", "-c", "echo hello | cat"], capture_output=True, text=True).stdout
print("a program says", said, flush=True)

@tool(version="1", timeout=1000)
async def take_long(attempt: Attempt) -> None:
    """Not called here."""
'''
WOKEN = """#!/bin/sh
cat > /var/lib/wakegate/woken-by-$(id -u).json
"""


@pytest.fixture(scope="module")
def manager() -> Iterator[Manager]:
    with managed() as manager:
        for name, text, mode in (("long_tools.py", TOOLS, 0o644), ("woken", WOKEN, 0o755)):
            path = manager.machine.outside(layout.TOOLS / name)
            path.write_text(text)
            path.chmod(mode)
        with manager.machine.outside(layout.SETTINGS).open("a") as settings:
            settings.write(f'\n[wake.note]\nkind = "command"\nargv = ["{layout.TOOLS}/woken"]\n')
        yield manager


async def save_and_abandon(manager: Manager) -> None:
    """Have a call that is over, and a wake that is owed for it by a program."""
    async with await open_store(manager.settings.database, mode="service") as store:
        desk = Desk(store)
        sealed = seal_credential(
            load_key(manager.settings.worker_key_path),
            provider=desk.provider,
            instance_id=desk.instance_id,
            token="token-of-the-desk",
        )
        await store.add_instance(replace(desk.instance(), sealed_credential=sealed), None)
        saved = await desk.save(wake="note")
        await store.abandon(saved.execution_id, "conversation closed", "test", clock.now())


async def test_it_says_when_it_works_how_it_is_and_how_long_its_stop_may_take(manager: Manager) -> None:
    await save_and_abandon(manager)
    worker, store = manager.machine.user(layout.WORKER_USER), manager.machine.outside(layout.STORE)
    async with manager.running(WORKER, watchdog_s=2.0, WAKEGATE_TOOLS="long_tools") as service:
        ready = await service.until("READY=1")
        assert manager.status == "STATUS=working; tools: take_long"
        fed = await service.until("WATCHDOG=1")
        assert ready <= fed
        await service.until("WATCHDOG=1", since=fed + 0.1)
        assert "a program says hello" in manager.log, "tools start programs"
        woken = store.with_name(f"woken-by-{worker.uid}.json")
        async with asyncio.timeout(PATIENCE_S):
            while not woken.exists() or not woken.read_text().endswith("}"):
                await asyncio.sleep(0.05)
        assert json.loads(woken.read_text())["data"]["state"] == "abandoned", "so do wakes"
        aside = store.rename(store.with_name("aside"))
        await service.until("STATUS=watchdog not fed: the store cannot be used (store_unavailable)")
        aside.rename(store)
        await service.until("WATCHDOG=1", since=time.monotonic())
        assert await service.stop() == 0
    assert store.stat().st_uid == manager.machine.user(layout.RECEIVER_USER).uid, "it is shared, and the receiver's"
    assert manager.when("STOPPING=1")
    assert manager.when("EXTEND_TIMEOUT_USEC=1044000000"), "1000 s for the tool, and what the stop takes besides"
