"""The relay: what systemd hears of a service whose work is done by several processes."""

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from wakegate_schema.service_manager import ServiceManager

_MESSAGE: Final = 8192
_MICRO: Final = 1_000_000


class Relay:
    """Listens to each process in the manager's place, and tells the manager what is true of all of them.

    Ready when all are. Alive while all say so: a process that hangs, or whose store takes no writes, is enough for the
    watchdog to end the service, as it is for a service of one process.
    """

    def __init__(self, manager: ServiceManager, folder: Path, names: Sequence[str], doing: str) -> None:
        """Take the manager, a folder for sockets, the processes' names, and what the service does, in one line."""
        self._manager = manager
        self._doing = doing
        self._hearing = {name: _bound(folder / name) for name in names}
        self._folder = folder
        self._ready: set[str] = set()
        self._alive: set[str] = set()
        self._told_ready = False

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables by which a process speaks to this."""
        found = {"NOTIFY_SOCKET": str(self._folder / name)}
        if self._manager.watchdog_s is not None:  # twice as often: two that speak in turns are one that speaks late
            found["WATCHDOG_USEC"] = str(round(self._manager.watchdog_s * _MICRO / 2))
        return found

    def start(self) -> None:
        """Begin to listen, in the present event loop."""
        for name, hearing in self._hearing.items():
            asyncio.get_running_loop().add_reader(hearing, self._hear, name, hearing)

    def close(self) -> None:
        """Listen no more."""
        for hearing in self._hearing.values():
            asyncio.get_running_loop().remove_reader(hearing)
            hearing.close()

    def _hear(self, name: str, hearing: socket.socket) -> None:
        try:
            message = hearing.recv(_MESSAGE).decode("utf-8", "replace")
        except BlockingIOError:
            return
        told = dict(line.partition("=")[::2] for line in message.splitlines())
        if told.get("READY") == "1":
            self._is_ready(name)
        elif "STATUS" in told and "STOPPING" not in told:
            self._manager.status(f"{name}: {told['STATUS']}")
        if told.get("WATCHDOG") == "1":
            self._is_alive(name)

    def _is_ready(self, name: str) -> None:
        self._ready.add(name)
        if len(self._ready) < len(self._hearing):
            return
        if self._told_ready:
            self._manager.status(self._doing)
        else:
            self._manager.ready(self._doing)
        self._told_ready = True

    def _is_alive(self, name: str) -> None:
        self._alive.add(name)
        if len(self._alive) == len(self._hearing):
            self._alive.clear()
            self._manager.alive()


@contextmanager
def relaying(manager: ServiceManager, names: Sequence[str], doing: str) -> Iterator[Relay | None]:
    """Give a relay for the length of the block, inside an event loop; None where no manager listens."""
    if not manager.listens:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="wakegate-") as folder:
        relay = Relay(manager, Path(folder), names, doing)
        relay.start()
        try:
            yield relay
        finally:
            relay.close()


def _bound(path: Path) -> socket.socket:
    hearing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    hearing.setblocking(False)
    hearing.bind(os.fspath(path))
    return hearing
