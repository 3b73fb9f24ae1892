"""Small disks that a test fills and frees, and folders that become read-only: real mounts.

Root mounts them. Anybody else runs the test once more in a user namespace of its own; where that is not to be had
either, the test fails.
"""

import asyncio
import errno
import functools
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ParamSpec

_P = ParamSpec("_P")
_TRIED = "WAKEGATE_TEST_IN_NAMESPACE"


def with_mounts(test: Callable[_P, Awaitable[None]]) -> Callable[_P, Awaitable[None]]:
    """Run a test where it may mount; its fixtures must not."""

    @functools.wraps(test)
    async def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        if _TRIED in os.environ or _may_mount():
            await test(*args, **kwargs)
            return
        name = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        inner = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
        process = await asyncio.create_subprocess_exec(
            "unshare", "--user", "--map-root-user", "--mount", *inner,
            env=os.environ | {_TRIED: "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
        assert process.returncode == 0, f"neither root nor a user namespace may mount here:\n{output.decode()}"

    return run


@dataclass(frozen=True, slots=True)
class Disk:
    """A small filesystem."""

    path: Path

    @property
    def free(self) -> int:
        """Bytes that are left."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, *, leave: int = 0) -> None:
        """Take all of its room but so many bytes."""
        with self._ballast.open("ab") as file:
            try:
                while self.free > leave:
                    file.write(bytes(min(4096, self.free - leave)))
                    file.flush()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def empty(self) -> None:
        """Give the room back."""
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"


@contextmanager
def small_disk(path: Path, kilobytes: int) -> Iterator[Disk]:
    """Mount a small disk at a new folder for the length of the block."""
    path.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={kilobytes}k,mode=0770", "tmpfs", str(path))
    try:
        yield Disk(path)
    finally:
        _unmount(path)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Make what is opened in a folder from now on read-only, for the length of the block, also for root."""
    _mount("--bind", str(path), str(path))
    try:
        _mount("-o", "remount,bind,ro", str(path))
        yield
    finally:
        _unmount(path)


def _may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    with TemporaryDirectory() as folder:
        try:
            _mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", folder)
        except subprocess.CalledProcessError:
            return False
        _unmount(Path(folder))
    return True


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _unmount(path: Path) -> None:
    # Lazily: a process that was killed just now may not have let go of it yet.
    subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True)
