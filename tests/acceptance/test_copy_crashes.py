"""`wakegate db copy`, killed by SIGKILL at every step, leaves one store that can be opened at most, and ends later."""

import asyncio
from pathlib import Path

import pytest

from support.contents import contents, furnish
from support.killed_commands import killed_at
from support.servers import PostgresServer
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import StoreFilling, StoreMissing, StoreMoved, StoreOutdated, migrate_store, open_store


def opened(url: str) -> str:
    """How a store answers who wants to work on it: the reason of its epoch, or of the refusal."""

    async def work() -> str:
        try:
            async with await open_store(url, mode="use") as store:
                await store.probe()
                return (await store.epoch()).reason
        except (StoreMoved, StoreFilling, StoreMissing, StoreOutdated) as error:
            return error.reason

    return asyncio.run(work())


class Move:
    """Copies of one furnished store, each to a target of its own."""

    def __init__(self, folder: Path, server: PostgresServer, way: str) -> None:
        self._folder = folder
        self._server = server
        self._from, _, self._to = way.partition(" to ")
        self._number = 0
        self.template = self._make(self._from, "template")
        asyncio.run(migrate_store(self.template))
        furnish(self.template)
        self.log = folder / "commands.log"

    def begin(self) -> tuple[str, str]:
        """Return a source with everything in it, and an empty target."""
        self._number += 1
        source = self._make(self._from, f"source_{self._number}", "template")
        return source, self._make(self._to, f"target_{self._number}")

    def run(self, source: str, target: str, *options: str, step: int = 0) -> int:
        """Run the command; it dies at this step."""
        settings = {"WAKEGATE_DATABASE": source, "HOME": str(self._folder)}
        return killed_at(step, ("db", "copy", source, target, *options), settings, self.log)

    def _make(self, database: str, name: str, template: str | None = None) -> str:
        if database == "postgresql":
            return self._server.url(self._server.create_database(name, template=template))
        url = f"sqlite:///{self._folder}/{name}.db"
        if template is not None:
            sqlite_path(url).write_bytes((self._folder / f"{template}.db").read_bytes())
        return url


@pytest.mark.parametrize(("way", "pace"), [("sqlite to postgresql", 1), ("postgresql to sqlite", 2)])
def test_a_copy_killed_at_any_step_is_ended_by_the_next_or_given_up(
    tmp_path: Path, postgres_server: PostgresServer, way: str, pace: int
) -> None:
    move = Move(tmp_path, postgres_server, way)
    step, ended, seen = 0, -9, set()
    while ended == -9:
        step += pace
        source, target = move.begin()
        before = contents(source)
        ended = move.run(source, target, step=step)
        now = opened(source), opened(target)
        seen.add(now)
        assert now in STANDS, f"step {step}"
        if ended == -9 and step % 3 and now[1] == "store_filling":
            assert move.run(source, target, "--reopen") == 0, move.log.read_text()[-2000:]
            assert (opened(source), opened(target)) == ("restored", "created")
            assert contents(source)["execution"] == before["execution"]
        assert move.run(source, target) == 0, move.log.read_text()[-2000:]
        assert (opened(source), opened(target)) == ("store_moved", "copied")
        after = contents(target)
        assert [len(rows) for rows in after.values()] == [
            len(rows) + (table == "epoch") for table, rows in before.items()
        ]
        assert after["transition"] == before["transition"]
    assert ended == 0
    assert step > 12
    assert seen >= {("restored", "store_filling"), ("store_moved", "store_filling"), ("store_moved", "copied")}


STANDS = {
    ("restored", "store_missing"),
    ("restored", "store_outdated"),
    ("restored", "created"),
    ("restored", "store_filling"),
    ("store_moved", "store_filling"),
    ("store_moved", "copied"),
}
"""How source and target may stand: never is the content open in both, nor an empty store once the other is closed."""
