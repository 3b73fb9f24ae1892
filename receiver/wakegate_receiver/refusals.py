"""Refusals: every one counted, told of within a bound, and the last thousand kept outside the store's commits."""

import asyncio
import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from wakegate_receiver.answers import ANSWERS
from wakegate_receiver.refusals_file import KEPT, lock_refusals, read_file, write_refusals

FLUSH_INTERVAL_S: Final = 1.0
LINE_INTERVAL_S: Final = 1.0

_log = structlog.get_logger()


@dataclass(slots=True)
class Case:
    """What is known of one request while it is looked at; never a header's value."""

    remote: str | None
    """The peer's address."""
    size: int | None = None
    """Bytes of the body that were read, or that it was declared to have."""
    body: bytes | None = field(default=None, repr=False)
    """Only hashed, never kept."""
    proved: bool = False
    """Whether its signature was seen to be good."""
    registration_id: str | None = None
    instance_id: str | None = None
    detail: str | None = None
    """A finer machine word, for the log line only."""
    error: BaseException | None = field(default=None, repr=False)
    """What was unforeseen, for the log line only."""


class Refusals:
    """The receiver's memory of what it refused. One event loop uses it."""

    def __init__(self, path: Path, now: Callable[[], int]) -> None:
        """Take where the ring is kept, by the first receiver in this very file, and the wall clock (µs)."""
        self.counts: Counter[str] = Counter()
        """How often each reason was given since the start."""
        self._path = self._file = path
        self._now = now
        self._ring: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._changed = False
        self._failing = False
        self._lock: int | None = None
        self._told_of_others = False
        self._lines = Lines()

    async def load(self) -> None:
        """Read what an earlier process kept, and keep it on."""
        with suppress(OSError):
            await self._own()

    async def close(self) -> None:
        """Write what has changed, and leave the file to others."""
        await self.flush()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def note(self, reason: str, case: Case) -> None:
        """Count, keep and tell of one refusal.

        Args:
            reason: one of `ANSWERS`.
            case: the request.
        """
        self.counts[reason] += 1
        entry = {
            "at": self._now(),
            "status": ANSWERS[reason].status,
            "reason": reason,
            "bytes": case.size,
            "body_sha256": hashlib.sha256(case.body).hexdigest() if case.body is not None else None,
            "remote": case.remote,
            "registration_id": case.registration_id,
            "instance_id": case.instance_id,
        }
        self._ring.append(entry)
        self._changed = True
        told = entry | {"detail": case.detail, "exc_info": case.error}
        self._lines.write(reason, told, asyncio.get_running_loop().time())

    def entries(self) -> list[dict[str, Any]]:
        """Return what is kept, the oldest first, as `read_refusals` does."""
        return list(self._ring)

    async def keep(self) -> None:
        """Write the ring to its file whenever it has changed, at most once a second, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_S)
            self._lines.settle(asyncio.get_running_loop().time())
            await self.flush()

    async def flush(self) -> None:
        """Write the ring to its file if it has changed. A file that cannot be written is told of, no more."""
        if not self._changed:
            return
        self._changed = False
        try:
            if not await self._own():
                self._changed = True
                return
            await asyncio.to_thread(write_refusals, self._file, list(self._ring))
        except OSError as error:
            self._changed = True
            if not self._failing:
                _log.error("refusals cannot be kept", action="keep_refusals", path=self._file, problem=error.strerror)
            self._failing = True
        else:
            self._failing = False

    async def _own(self) -> bool:
        """Have a file for this receiver alone, with what was kept in it. False while others have all there can be."""
        if self._lock is not None:
            return True
        locked = await asyncio.to_thread(lock_refusals, self._path)
        if locked is None:
            if not self._told_of_others:
                _log.warning(
                    "too many receivers keep refusals in this file and beside it; this one's are only logged. Give it"
                    " a file elsewhere by WAKEGATE_REFUSALS_FILE",
                    action="keep_refusals",
                    path=self._path,
                )
            self._told_of_others = True
            return False
        self._file, self._lock = locked
        with suppress(OSError):
            kept = await asyncio.to_thread(read_file, self._file)
            self._ring = deque([*kept, *self._ring], maxlen=KEPT)
        return True


class Lines:
    """At most one log line a second for each reason; the next one says how many were left out."""

    def __init__(self, listener: str | None = None) -> None:
        """Take the listener's name, where it is not the public one."""
        self._listener = {} if listener is None else {"listener": listener}
        self._written_at: dict[str, float] = {}
        self._suppressed: Counter[str] = Counter()

    def write(self, reason: str, fields: dict[str, Any], now: float) -> None:
        if now - self._written_at.get(reason, float("-inf")) < LINE_INTERVAL_S:
            self._suppressed[reason] += 1
            return
        self._written_at[reason] = now
        told = {name: value for name, value in fields.items() if value is not None and name not in _UNTOLD}
        left_out = self._suppressed.pop(reason, 0)
        suppressed = {"suppressed": left_out} if left_out else {}
        _log.warning("refused", action="refuse", **{**told, "reason": reason}, **self._listener, **suppressed)

    def settle(self, now: float) -> None:
        """Tell of what was left out and is over."""
        for reason in [found for found in self._suppressed if now - self._written_at[found] >= LINE_INTERVAL_S]:
            self.write(reason, {}, now)


_UNTOLD: Final = frozenset({"at"})
