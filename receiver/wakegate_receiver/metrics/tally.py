"""The tally: what each of several receiver processes counts, kept where the one that is asked can read it."""

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

KEPT_EVERY_S: Final = 1.0
"""How often a process keeps its page."""
FRESH_S: Final = 5.0
"""How old a page may be, in seconds: then its process is gone, or hangs."""

_HEAD: Final = struct.Struct("<dI")
"""When the page was kept, and how many bytes it has."""


class Tally:
    """The pages of all processes, in files without names that they all inherited. Written and read under a lock."""

    def __init__(self, files: Sequence[int], number: int, now: Callable[[], float] = time.monotonic) -> None:
        """Take the descriptors, which process this one is, from 1 on, and a clock that all of them share (s)."""
        self._files = files
        self._number = number
        self._now = now

    @property
    def number(self) -> int:
        """Which process this one is."""
        return self._number

    def keep(self, page: bytes) -> None:
        """Keep this process's page in place of its last one. Raises OSError."""
        file = self._files[self._number - 1]
        with _locked(file, fcntl.LOCK_EX):
            os.pwrite(file, _HEAD.pack(self._now(), len(page)) + page, 0)

    def others(self) -> dict[int, bytes]:
        """Return the pages of the other processes that live, by their numbers. Raises OSError."""
        found = {}
        for number, file in enumerate(self._files, 1):
            if number != self._number and (page := self._read(file)) is not None:
                found[number] = page
        return found

    def _read(self, file: int) -> bytes | None:
        with _locked(file, fcntl.LOCK_SH):
            head = os.pread(file, _HEAD.size, 0)
            if len(head) < _HEAD.size:
                return None
            kept_at, size = _HEAD.unpack(head)
            page = os.pread(file, size, _HEAD.size)
        # A full disk may have kept a part of it.
        return page if len(page) == size and self._now() - kept_at < FRESH_S else None


@contextmanager
def _locked(file: int, kind: int) -> Iterator[None]:
    fcntl.lockf(file, kind)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)
