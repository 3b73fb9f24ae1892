"""SQLite's locks are the process's: nothing that opens the store beside SQLite may close it under them (POSIX)."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.desk import Desk
from wakegate_schema.store import open_store

pytestmark = pytest.mark.file

LEAVES = """
import asyncio, sys
from support.desk import Desk
from wakegate_schema.store import open_store

async def main():
    async with await open_store(sys.argv[1], mode="service") as store:
        await Desk(store, name="theirs").open()

asyncio.run(main())
"""


async def test_who_leaves_is_not_taken_for_the_last_after_others_have_opened_the_store_again(
    database: str, tmp_path: Path
) -> None:
    async with await open_store(database, mode="service") as store:
        await Desk(store, name="ours").open()
        assert len(await store.instances()) == 1
        for mode in ("service", "use", "read"):
            await (await open_store(database, mode=mode)).close()
        wal = (tmp_path / "wakegate.db-wal").stat().st_ino
        subprocess.run(
            [sys.executable, "-c", LEAVES, database], env={"PYTHONPATH": str(Path(__file__).parents[1])}, check=True
        )
        assert (tmp_path / "wakegate.db-wal").stat().st_ino == wal
        assert [instance.name for instance in await store.instances()] == ["ours", "theirs"]
