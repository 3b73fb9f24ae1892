"""The small disk: a tmpfs that holds the store, is filled to the last byte and freed again."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

BALLAST = "ballast"
TRIES = 8
"""How often the write-ahead log is emptied until nothing is written to it before the disk is full."""
OWN_MOUNTS = "SOAK_OWN_MOUNTS"
"""Set in the process that has mounts of its own."""

_WAYS: Sequence[Sequence[str]] = (
    ("unshare", "--mount", "--propagation", "private"),
    ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"),
)


class NoSmallDisk(Exception):
    """A small disk cannot be mounted here."""


def enter_own_mounts() -> None:
    """Go on in a mount namespace of this process alone: whatever happens to it, nothing stays mounted.

    Raises:
        NoSmallDisk: it is not allowed here.
    """
    if os.environ.get(OWN_MOUNTS):
        return
    said = []
    for way in _WAYS:
        try:
            tried = subprocess.run(
                [*way, "mount", "-t", "tmpfs", "-o", "size=64k", "soak", "/mnt"], capture_output=True, check=False
            )
        except OSError as error:
            raise NoSmallDisk(f"unshare and mount (util-linux) are needed: {error}") from error
        if tried.returncode == 0:
            os.environ[OWN_MOUNTS] = "1"
            os.execvp(way[0], [*way, sys.executable, "-m", "soak", *sys.argv[1:]])
        said.append(tried.stderr.decode(errors="replace").strip())
    raise NoSmallDisk(
        "the soak fills a small disk of its own and may not mount one: run it as root, or where user namespaces are"
        f" allowed ({'; '.join(said)})"
    )


class SmallDisk:
    """A tmpfs of a fixed size."""

    def __init__(self, folder: Path, size: int) -> None:
        """Mount one of so many bytes on a folder, which is made."""
        self.folder = folder
        folder.mkdir()
        options = f"size={size},mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "soak", str(folder)], check=True, capture_output=True)

    def fill(self, database: Path, *, fresh_log: bool) -> int:
        """Leave not one byte, and return how many were free.

        Args:
            database: the store's file.
            fresh_log: empty its write-ahead log before, so that the next commit needs room for it.
        """
        if not fresh_log:
            return self._take_all()
        log = database.with_name(f"{database.name}-wal")
        for _ in range(TRIES):
            _empty_log(database)
            taken = self._take_all()
            if not log.exists() or log.stat().st_size == 0:
                return taken
            self.free()  # a commit came between
        return self._take_all()

    def _take_all(self) -> int:
        free = os.statvfs(self.folder)
        taken = free.f_bavail * free.f_frsize
        with suppress(OSError), (self.folder / BALLAST).open("ab", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, max(taken, 1))
        with suppress(OSError), (self.folder / BALLAST).open("ab", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass
        return taken

    def free(self) -> None:
        """Make room again."""
        (self.folder / BALLAST).unlink(missing_ok=True)

    def copy(self, to: Path) -> None:
        """Copy everything that is on it, sockets excepted."""
        to.mkdir()
        for file in self.folder.iterdir():
            if file.is_file():
                shutil.copy2(file, to / file.name)

    def unmount(self) -> None:
        """Take it away with all that is on it."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True, capture_output=True)


def _empty_log(database: Path) -> None:
    """Empty the write-ahead log, unless somebody is reading or writing all the while."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=1.0)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
