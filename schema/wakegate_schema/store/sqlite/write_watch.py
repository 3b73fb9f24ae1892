"""The write watch: the kernel's word that a file was written to, by whatever process on this machine (inotify(7)).

It tells of no commit; it only says when looking for one is worth while.
"""

import asyncio
import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_IN_MODIFY: Final = 0x2
_ROOM: Final = 4096
"""Bytes for the words that wait; equal ones are one."""


class WriteWatch:
    """Watches one file. It must be readable, and is never opened: closing it again would drop SQLite's locks."""

    def __init__(self, path: Path) -> None:
        """Begin to watch the file at `path`. Raises OSError where that cannot be had."""
        if sys.platform != "linux":
            raise OSError("this system has no inotify")
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "no inotify instance")
        if libc.inotify_add_watch(self._descriptor, os.fsencode(path), ctypes.c_uint32(_IN_MODIFY)) < 0:
            problem = ctypes.get_errno()
            os.close(self._descriptor)
            raise OSError(problem, "no inotify watch")
        self._heard = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def written(self) -> bool:
        """Return whether the file was written to since this was asked last."""
        heard = False
        with suppress(BlockingIOError):
            while os.read(self._descriptor, _ROOM):
                heard = True
        return heard

    async def wait(self, seconds: float) -> None:
        """Return once the file was written to since `written` was asked last, or after so many seconds."""
        self._heard.clear()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._hear)
        try:
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except TimeoutError:
            pass
        finally:
            self._hear()

    def close(self) -> None:
        """Watch no more; who waits returns."""
        self._hear()
        os.close(self._descriptor)

    def _hear(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            self._loop = None
        self._heard.set()
