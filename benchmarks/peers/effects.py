"""What was done, outside of everything that is measured: one line for each in a file, with the time of it."""

import functools
import os
import time
from collections import Counter
from pathlib import Path
from typing import Final

from benchmarks.figures import Failed

FILE: Final = "BENCHMARK_EFFECTS"
"""The environment variable that names the file."""


def effect(key: str) -> None:
    """Write one line: a key, and the monotonic clock, which all processes of a host share."""
    os.write(opened(), f"{key} {time.monotonic_ns()}\n".encode())


@functools.cache
def opened() -> int:
    """The file, open for appending."""
    return os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


class Effects:
    """The reader's side."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()
        self._read = 0

    def waiting(self) -> int:
        """How many effects there were since the last look, which this is not."""
        with self.file.open("rb") as lines:
            lines.seek(self._read)
            return lines.read().count(b"\n")

    def new(self) -> dict[str, int]:
        """The time (ns) of each effect since the last look, by key.

        Raises:
            Failed: something happened twice.
        """
        with self.file.open("rb") as lines:
            lines.seek(self._read)
            found = lines.read()
        found = found[: found.rfind(b"\n") + 1]
        self._read += len(found)
        pairs = [line.split() for line in found.decode().splitlines()]
        often = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if often:
            raise Failed(f"{len(often)} calls had more than one effect, such as {often[0]}")
        return {key: int(at) for key, at in pairs}
