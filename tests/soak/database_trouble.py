"""Trouble with the database's servers: PostgreSQL, and the pooler in front of it."""

import asyncio
from collections.abc import Callable

from soak.decks import Deck
from soak.journal import Journal
from soak.plan import Plan
from soak.servers import DATABASE, Servers

_BACK_S = 60.0
"""How long it may take until clients are let in again, in seconds."""
_BACKENDS = "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


class DatabaseTrouble:
    """What is done to them, one thing at a time."""

    def __init__(self, servers: Servers, journal: Journal, plan: Plan) -> None:
        """Take the servers, the journal in which everything is noted, and the plan."""
        self._servers = servers
        self._journal = journal
        self._lease_s = plan.lease_s
        self._random = plan.random("outages")

    def decks(self) -> list[Deck]:
        """Return what may come over them."""
        postgres = self._servers.postgres
        return [
            {"PostgreSQL killed": lambda: self._away("postgresql_killed", postgres.kill)},
            {"connections cut": self._cut, "connections cut again and again": self._cut_repeatedly},
            {
                "PostgreSQL restarted": lambda: self._away("postgresql_stopped", postgres.stop),
                "PostgreSQL paused": self._pause_postgres,
                "pooler restarted": self._restart_pooler,
                "pooler paused": self._pause_pooler,
            },
        ]

    async def _away(self, event: str, end: Callable[[], None]) -> None:
        """Let PostgreSQL be away for a while, and recover."""
        self._journal.note(event="database_gone", why=event)
        await asyncio.to_thread(end)
        self._journal.note(event=event)
        await asyncio.sleep(self._random.choice((0.0, 0.3, self._random.random() * 4)))
        await asyncio.to_thread(self._servers.postgres.start)
        await self._back()

    async def _pause_postgres(self) -> None:
        self._journal.note(event="database_gone", why="paused")
        self._servers.postgres.pause()
        self._journal.note(event="postgresql_paused")
        await asyncio.sleep(self._pause_s())
        self._servers.postgres.resume()
        await self._back()

    async def _cut(self) -> None:
        """End some of the connections, on both sides of the pooler."""
        self._journal.note(event="database_gone", why="cut")
        cut = await asyncio.to_thread(self._terminate)
        self._journal.note(event="postgresql_cut", connections=cut)
        self._journal.note(event="database_back")

    async def _cut_repeatedly(self) -> None:
        for _ in range(8):
            await self._cut()
            await asyncio.sleep(self._random.random() * 0.4)

    def _terminate(self) -> int:
        postgres = self._servers.postgres
        chosen = [pid for pid in postgres.ask(_BACKENDS, DATABASE) if self._random.random() < 0.5]
        postgres.ask("SELECT count(pg_terminate_backend(pid)) FROM unnest(%s::int[]) AS pid", chosen)
        return len(chosen)

    async def _restart_pooler(self) -> None:
        self._journal.note(event="database_gone", why="pooler")
        await asyncio.to_thread(self._servers.pooler.stop)
        self._journal.note(event="pooler_stopped")
        await asyncio.sleep(self._random.random() * 3)
        await asyncio.to_thread(self._servers.pooler.start)
        await self._back()

    async def _pause_pooler(self) -> None:
        self._journal.note(event="database_gone", why="pooler")
        self._servers.pooler.pause()
        self._journal.note(event="pooler_paused")
        await asyncio.sleep(self._pause_s())
        self._servers.pooler.resume()
        await self._back()

    async def _back(self) -> None:
        """Note that the database is back once the pooler lets in: for a second after a failure it does not."""
        async with asyncio.timeout(_BACK_S):
            while not await asyncio.to_thread(self._servers.lets_in):
                await asyncio.sleep(0.1)
        self._journal.note(event="database_back")

    def _pause_s(self) -> float:
        """Return how long a pause lasts: a moment, longer than a lease, or longer than a turn is waited for."""
        return self._random.choice((0.3, 1.0, self._lease_s + 1.5, self._random.uniform(6, 9)))
