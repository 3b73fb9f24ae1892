"""SQLite's doorbell: it rings for every commit of others, whether or not the kernel tells of their writes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.desk import Desk
from wakegate_schema.store import Store, migrate_store, open_store
from wakegate_schema.store.sqlite import doorbell
from wakegate_schema.store.sqlite.write_watch import WriteWatch

LONG_S = 60.0


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[tuple[Store, Desk]]:
    """Who waits, and a desk at which somebody else commits."""
    url = f"sqlite:///{tmp_path}/w.db"
    await migrate_store(url)
    async with await open_store(url, mode="use") as waits, await open_store(url, mode="use") as writes:
        yield waits, await Desk(writes).open()


def watches() -> int:
    """How many files this process has the kernel tell of."""
    found = (entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    return sum("inotify" in str(each) for each in found)


async def rings(waits: Store, desk: Desk) -> bool:
    before = await waits.changed(-1, 0)
    await desk.save()
    return await waits.changed(before, LONG_S) != before


async def test_the_kernels_word_is_enough(waiting: tuple[Store, Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell, "TOLD_POLL_S", 2 * LONG_S)
    monkeypatch.setattr(doorbell, "POLL_S", 2 * LONG_S)
    for _ in range(5):
        assert await rings(*waiting)


async def test_where_the_kernel_tells_nothing_it_looks_often(
    waiting: tuple[Store, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nowhere(WriteWatch):
        def __init__(self, path: Path) -> None:
            raise OSError(24, f"{path}: no inotify instance")

    monkeypatch.setattr(doorbell, "WriteWatch", Nowhere)
    monkeypatch.setattr(doorbell, "TOLD_POLL_S", 2 * LONG_S)
    for _ in range(3):
        assert await rings(*waiting)


async def test_a_kernel_that_left_a_change_out_is_relied_on_no_more(
    waiting: tuple[Store, Desk], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silent = tmp_path / "silent"
    silent.touch()
    monkeypatch.setattr(doorbell, "wal_path", lambda _: silent)
    assert await rings(*waiting), "found by the look that does not rely on it"
    monkeypatch.setattr(doorbell, "TOLD_POLL_S", 2 * LONG_S)
    for _ in range(3):
        assert await rings(*waiting)


async def test_a_store_that_is_closed_has_the_kernel_tell_nothing_more(tmp_path: Path) -> None:
    url, before = f"sqlite:///{tmp_path}/w.db", watches()
    await migrate_store(url)
    async with await open_store(url, mode="use") as store:
        number = await store.changed(-1, 0)
        assert await store.changed(number, 0.05) == number
        assert watches() == before + 1
    assert watches() == before
