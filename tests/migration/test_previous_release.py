"""The release before works on this one's schema, alone and beside this one: services are replaced one by one.

`previous/wakegate_schema.zip` is that release's package; `previous/make.py` says how it is made.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.processes import clean_environment
from wakegate_schema import clock
from wakegate_schema.records import RegisteredWorker
from wakegate_schema.states import State
from wakegate_schema.store import migrate_store, migrations, open_store

HERE = Path(__file__).parent
PREVIOUS = HERE / "previous" / "wakegate_schema.zip"
CALLS = 10
ENDED = {"succeeded": 4, "denied": 2, "failed": 2, "abandoned": 2}
"""How they end: every fifth of each kind in `release.py`; what was in doubt, a person says has not happened."""


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of this release."""
    name: str = (
        f"sqlite:///{tmp_path}/wakegate.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )
    await migrate_store(name)
    return name


async def run(url: str, name: str, *, previous: bool) -> dict[str, Any]:
    """Run the program with one release's package; return what it says."""
    path = [str(HERE.parent)]
    environment = clean_environment() | {"PYTHONPATH": os.pathsep.join([str(PREVIOUS), *path] if previous else path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "release.py"), url, name, str(CALLS), env=environment, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    said: dict[str, Any] = json.loads(out)
    assert said["package"].startswith(str(PREVIOUS)) is previous
    return said


async def test_the_release_before_does_all_of_its_work_on_this_schema(url: str) -> None:
    said = await run(url, "old", previous=True)
    assert said["knows"] < migrations.latest()
    assert said["ended"] == ENDED


async def test_both_work_on_one_store_at_a_time_and_start_each_call_once(url: str) -> None:
    async with await open_store(url, mode="use") as store:
        now = clock.now()
        await store.show_worker(
            RegisteredWorker("new", "host-1", "default", "0.2.0", 5, 60, now, now, {"issue_refund": "1"}), now
        )
        said = await asyncio.gather(run(url, "old", previous=True), run(url, "new", previous=False))
        assert [one["ended"] for one in said] == [ENDED, ENDED]
        attempts = Counter(said[0]["attempts"]) + Counter(said[1]["attempts"])
        started = [found.execution_id for _, found in await store.executions() if found.started_at is not None]
        assert attempts == Counter(started)
        assert len(started) == 2 * (CALLS // 5 * 3)
        assert not [found for _, found in await store.executions() if found.state is State.STARTED]
