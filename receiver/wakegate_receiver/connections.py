"""Connections: a bound on how many there are, and a rule for whose turn ends when one more comes.

A connection is `arriving` (its handshake, or a request's first bytes, or nothing yet), `reading` (its headers are
whole, its body is not), `busy` (its request is whole and being answered) or `idle` (answered, kept open). Each of
these is in the order of time, so the longest-waiting is always the first. Busy ones are never closed to make room.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Protocol

PATIENCE_S: Final = 1.0
"""How old an unfinished request must be before it makes room sooner than an idle connection does."""


class Closable(Protocol):
    """Something that holds one of the places."""

    @property
    def remote(self) -> str | None:
        """The peer's address."""

    def cut(self) -> None:
        """Close it at once, whatever was not read or sent. Repeats are no-ops."""

    def hang_up(self) -> None:
        """Close it once everything answered is sent. Repeats are no-ops."""


class Connections:
    """Who is connected, and what each is doing. Times are the loop's, in seconds, and come in as arguments."""

    def __init__(self, limit: int, note: Callable[[str, Closable], None]) -> None:
        """Take the most connections there may be, and whom to tell why one was cut (`evicted`, `silent`)."""
        self.limit = limit
        self._note = note
        self._arriving: dict[Closable, float] = {}
        self._reading: dict[Closable, float] = {}
        self._idle: dict[Closable, float] = {}
        self._busy: set[Closable] = set()
        self._gone: set[Closable] = set()
        """Busy ones whose peer has left."""
        self._quiet = asyncio.Event()
        self._quiet.set()

    def __len__(self) -> int:
        return len(self._arriving) + len(self._reading) + len(self._idle) + len(self._busy)

    @property
    def busy(self) -> int:
        """How many requests are being answered."""
        return len(self._busy)

    async def quiet(self) -> None:
        """Return once no request is being answered."""
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
        self._arriving[connection] = now

    def handed_over(self, arrival: Closable, connection: Closable, now: float) -> None:
        """A connection takes the place of what accepted it."""
        self._arriving.pop(arrival, None)
        self.opened(connection, now)

    def bytes_came(self, connection: Closable, now: float) -> None:
        """An idle connection's next request begins; for others nothing changes."""
        if self._idle.pop(connection, None) is not None:
            self._arriving[connection] = now

    def headers_came(self, connection: Closable, now: float) -> float:
        """A request's headers are whole. Returns when the request began."""
        self._idle.pop(connection, None)
        began = self._arriving.pop(connection, now)
        self._reading[connection] = began
        return began

    def body_came(self, connection: Closable) -> None:
        """A request is whole: from here on it is answered whatever happens to its connection."""
        if self._reading.pop(connection, None) is not None:
            self._busy.add(connection)
            self._quiet.clear()

    def answered(self, connection: Closable, now: float) -> None:
        """A request has its answer."""
        was_reading = self._reading.pop(connection, None) is not None
        was_busy = connection in self._busy
        self._busy.discard(connection)
        if not self._busy:
            self._quiet.set()
        if connection in self._gone:
            self._gone.discard(connection)
        elif was_reading or was_busy:
            self._idle[connection] = now

    def closed(self, connection: Closable) -> None:
        """A connection has ended."""
        for state in (self._arriving, self._reading, self._idle):
            state.pop(connection, None)
        if connection in self._busy:
            self._gone.add(connection)

    def cut_silent(self, before: float) -> None:
        """Cut what began before this time and has not sent a request's headers; bodies are timed as they are read."""
        while self._arriving:
            connection, began = next(iter(self._arriving.items()))
            if began > before:
                return
            self._cut(connection, "silent")

    def cut_waiting(self) -> None:
        """Close everything that is not busy, without a word."""
        for connection in [*self._arriving, *self._reading, *self._idle]:
            self._close(connection)

    def _by_claim(self, now: float) -> Iterator[Closable]:
        """Yield who may be closed, the least claim first: what is slow, what is idle, what has only just come."""
        unfinished = sorted(
            (next(iter(state.items())) for state in (self._arriving, self._reading) if state),
            key=lambda found: found[1],
        )
        yield from (connection for connection, began in unfinished if began < now - PATIENCE_S)
        yield from self._idle
        yield from (connection for connection, _ in unfinished)

    def _cut(self, connection: Closable, reason: str) -> None:
        self._note(reason, connection)
        self._close(connection)

    def _close(self, connection: Closable) -> None:
        idle = connection in self._idle
        self.closed(connection)
        if idle:
            connection.hang_up()
        else:
            connection.cut()
