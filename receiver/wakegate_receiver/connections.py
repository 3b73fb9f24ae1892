"""Connections: a bound on how many there are, and a rule for whose turn ends when one more comes.

Each is in one stage, and each stage is in the order of time, so that its longest-waiting connection is the first. What
a good signature was seen on is never closed to make room.
"""

import asyncio
from collections.abc import Callable, Iterator
from enum import IntEnum, auto
from typing import Final, Protocol

PATIENCE_S: Final = 1.0
"""How old an unfinished request must be before it makes room sooner than an idle connection does."""
LOOK_S: Final = 0.25
"""How often it is looked for connections that say nothing, in seconds."""


class Closable(Protocol):
    """Something that holds one of the places."""

    @property
    def remote(self) -> str | None:
        """The peer's address."""

    def cut(self) -> None:
        """Close it at once, whatever was not read, answered or sent. Repeats are no-ops."""

    def hang_up(self) -> None:
        """Close it once everything answered is sent. Repeats are no-ops."""


class Stage(IntEnum):
    """What a connection is doing."""

    ARRIVING = auto()
    """Its handshake, or a request's first bytes, or nothing yet."""
    READING = auto()
    """Its request's headers are whole, the body is not."""
    PROVING = auto()
    """Its request is whole; nobody has seen yet that the signature is good."""
    HELD = auto()
    """Its request is refused, and the answer kept back for a moment."""
    BUSY = auto()
    """Its request is genuine and being answered."""
    IDLE = auto()
    """Answered, and kept open."""


class Connections:
    """Who is connected, and what each is doing. Times are the loop's, in seconds, and come in as arguments."""

    def __init__(self, limit: int, note: Callable[[str, Closable], None]) -> None:
        """Take the most connections there may be, and whom to tell why one was cut (`evicted`, `silent`)."""
        self.limit = limit
        self._note = note
        self._stage: dict[Closable, Stage] = {}
        self._in: list[dict[Closable, float]] = [{} for _ in range(max(Stage) + 1)]
        """For each stage, since when its connections count as waiting. (A list: an enum's own hash is slow.)"""
        self._gone: set[Closable] = set()
        """Those being answered whose connection has ended."""
        self._quiet = asyncio.Event()

    def __len__(self) -> int:
        return len(self._stage)

    def __iter__(self) -> Iterator[Closable]:
        return iter(self._stage)

    @property
    def busy(self) -> int:
        """How many whole requests are being answered."""
        return len(self._in[Stage.PROVING]) + len(self._in[Stage.BUSY])

    async def quiet(self) -> None:
        """Return once no whole request is being answered."""
        self._quiet.clear()
        if self.busy:
            await self._quiet.wait()

    def make_room(self, now: float) -> bool:
        """Close the connection that has the least claim, if all places are taken. False when all are busy."""
        return len(self) < self.limit or self.evict(now)

    def evict(self, now: float) -> bool:
        """Close the connection that has the least claim. False when all are busy."""
        found = next(self._by_claim(now), None)
        if found is None:
            return False
        self._cut(found, "evicted")
        return True

    def opened(self, connection: Closable, now: float) -> None:
        """A connection begins; its first request must be whole within the request's time from here."""
        self._put(connection, Stage.ARRIVING, now)

    def handed_over(self, arrival: Closable, connection: Closable, now: float) -> None:
        """A connection takes the place of what accepted it."""
        self._forget(arrival)
        self.opened(connection, now)

    def bytes_came(self, connection: Closable, now: float) -> None:
        """An idle connection's next request begins; for others nothing changes."""
        if self._stage.get(connection) is Stage.IDLE:
            self._put(connection, Stage.ARRIVING, now)

    def headers_came(self, connection: Closable, now: float, *, whole: bool = False) -> float:
        """A request's headers are whole, perhaps its body too. Returns when the request began.

        Its connection may have ended already: then it is answered like any other, and forgotten afterwards.
        """
        stage = self._stage.get(connection)
        if stage is None:
            self._gone.add(connection)
        began = self._in[stage][connection] if stage is Stage.ARRIVING else now
        self._put(connection, Stage.PROVING if whole else Stage.READING, began)
        return began

    def body_came(self, connection: Closable) -> None:
        """A request is whole."""
        self._move(connection, Stage.PROVING)

    def proved(self, connection: Closable) -> None:
        """A whole request is genuine: from here on it is answered whatever happens to its connection."""
        self._move(connection, Stage.BUSY)

    def held(self, connection: Closable, now: float) -> bool:
        """A refusal is to be kept back. False when nobody is there to wait for it."""
        if connection not in self._stage or connection in self._gone:
            return False
        self._put(connection, Stage.HELD, now)
        self._tell_quiet()
        return True

    def answered(self, connection: Closable, now: float) -> None:
        """A request has its answer."""
        if connection in self._gone:
            self._forget(connection)
        elif connection in self._stage:
            self._put(connection, Stage.IDLE, now)
            self._tell_quiet()

    def closed(self, connection: Closable) -> None:
        """A connection has ended."""
        if self._stage.get(connection) in (Stage.PROVING, Stage.BUSY):
            self._gone.add(connection)
        else:
            self._forget(connection)

    def cut_silent(self, before: float) -> None:
        """Cut what began before this time and has not sent a request's headers; bodies are timed as they are read."""
        arriving = self._in[Stage.ARRIVING]
        while arriving:
            connection, began = next(iter(arriving.items()))
            if began > before:
                return
            self._cut(connection, "silent")

    def cut_waiting(self) -> None:
        """Close everything that has no whole request waiting for its answer, without a word."""
        for stage in (Stage.ARRIVING, Stage.READING, Stage.HELD, Stage.IDLE):
            for connection in list(self._in[stage]):
                self._close(connection)

    def _by_claim(self, now: float) -> Iterator[Closable]:
        """Yield who may be closed, the least claim first: the slow, the refused, the idle, the unproved, the new."""
        waiting = (self._in[Stage.ARRIVING], self._in[Stage.READING])
        unfinished = sorted((next(iter(found.items())) for found in waiting if found), key=lambda found: found[1])
        yield from (connection for connection, began in unfinished if began < now - PATIENCE_S)
        for stage in (Stage.HELD, Stage.IDLE, Stage.PROVING):
            yield from self._in[stage]
        yield from (connection for connection, _ in unfinished)

    def _cut(self, connection: Closable, reason: str) -> None:
        self._note(reason, connection)
        self._close(connection)

    def _close(self, connection: Closable) -> None:
        idle = self._stage.get(connection) is Stage.IDLE
        self._forget(connection)
        if idle:
            connection.hang_up()
        else:
            connection.cut()

    def _put(self, connection: Closable, stage: Stage, since: float) -> None:
        old = self._stage.get(connection)
        if old is not None:
            del self._in[old][connection]
        self._stage[connection] = stage
        self._in[stage][connection] = since

    def _move(self, connection: Closable, stage: Stage) -> None:
        """Put it in another stage, if its place is still its own, and keep its time."""
        old = self._stage.get(connection)
        if old is not None:
            self._put(connection, stage, self._in[old][connection])

    def _forget(self, connection: Closable) -> None:
        self._gone.discard(connection)
        stage = self._stage.pop(connection, None)
        if stage is not None:
            del self._in[stage][connection]
        self._tell_quiet()

    def _tell_quiet(self) -> None:
        if not self.busy:
            self._quiet.set()


async def watch_silent(connections: Connections, limit_s: float) -> None:
    """Cut, until cancelled, what has not sent a request's headers within so many seconds."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(LOOK_S)
        connections.cut_silent(loop.time() - limit_s)
