"""The watchdog is fed from the loop, after a real write, and not otherwise."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from wakegate_schema.service_manager import ServiceManager
from wakegate_schema.store import StoreUnavailable
from wakegate_schema.watchdog import watched


class Heard(ServiceManager):
    """A manager in this process, which keeps what it is told and when."""

    def __init__(self, watchdog_s: float | None) -> None:
        super().__init__("/nowhere", watchdog_s)
        self.lines: list[str] = []
        self.fed: list[float] = []

    def _send(self, *fields: str) -> None:
        self.lines.extend(fields)
        if "WATCHDOG=1" in fields:
            self.fed.append(time.monotonic())


async def fine() -> None:
    """A store that takes a write."""


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_it_is_ready_first_and_fed_from_then_on() -> None:
    manager = Heard(0.4)
    async with watched(manager, fine, "working"):
        await until(lambda: len(manager.fed) >= 3)
    assert manager.lines[:3] == ["READY=1", "STATUS=working", "WATCHDOG=1"]
    assert set(manager.lines[3:]) == {"WATCHDOG=1"}
    told = len(manager.lines)
    await asyncio.sleep(0.5)
    assert len(manager.lines) == told, "it ends with the block"


async def test_a_loop_that_is_blocked_does_not_feed_it() -> None:
    manager = Heard(0.4)
    async with watched(manager, fine, "working"):
        await until(lambda: len(manager.fed) >= 1)
        fed = len(manager.fed)
        time.sleep(1.5)  # what must never be done in a loop
        assert len(manager.fed) == fed
        await until(lambda: len(manager.fed) > fed)


async def hangs() -> None:
    await asyncio.sleep(3600)


async def refuses() -> None:
    raise StoreUnavailable(reason="disk_full")


async def breaks() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("trouble", "reason"), [(hangs, "store_timeout"), (refuses, "disk_full"), (breaks, "ZeroDivisionError")]
)
async def test_a_store_in_trouble_keeps_it_unready_and_then_unfed(
    trouble: Callable[[], Awaitable[None]], reason: str
) -> None:
    manager = Heard(0.4)
    state = {"probe": trouble}

    async def probe() -> None:
        await state["probe"]()

    async with watched(manager, probe, "working"):
        await until(lambda: bool(manager.lines))
        await asyncio.sleep(0.5)
        assert manager.lines == [f"STATUS=not ready: the store cannot be used ({reason})"], "said once"
        state["probe"] = fine
        await until(lambda: bool(manager.fed))
        state["probe"] = trouble
        await until(lambda: manager.lines[-1].startswith("STATUS=watchdog not fed"))
        fed = len(manager.fed)
        await asyncio.sleep(0.8)
        assert len(manager.fed) == fed
        state["probe"] = fine
        await until(lambda: len(manager.fed) > fed)
        assert "STATUS=working" in manager.lines[-4:]


async def test_without_a_watchdog_the_manager_hears_only_that_it_is_ready() -> None:
    manager = Heard(None)
    async with watched(manager, fine, "working"):
        await until(lambda: bool(manager.lines))
        await asyncio.sleep(0.1)
    assert manager.lines == ["READY=1", "STATUS=working"]


async def test_without_a_manager_nothing_is_written() -> None:
    async with watched(ServiceManager(), breaks, "working"):
        await asyncio.sleep(0)
