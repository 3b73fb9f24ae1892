"""A journal: facts that the soak keeps outside the program, each on disk before the next thing happens."""

import json
import os
import time
from pathlib import Path
from typing import Any

RECORD = 512
"""Bytes of every line. All are equal and divide a page, so that a SIGKILL in the middle of a write tears none."""


class Journal:
    """Appends one JSON object a line; several processes may share a file."""

    def __init__(self, path: Path) -> None:
        """Take the file, which is made when the first fact comes."""
        self.path = path

    def note(self, **fields: object) -> None:
        """Append a fact with the real time (µs since the epoch) as `at`; it is synced when this returns."""
        line = json.dumps({"at": real_time(), **fields}).encode()
        if len(line) >= RECORD:
            raise ValueError(f"a fact takes {len(line)} bytes: {fields}")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.ljust(RECORD - 1) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def facts(self) -> list[dict[str, Any]]:
        """Return everything, in the order in which it was noted."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]


def real_time() -> int:
    """Return the machine's own clock, which no test clock moves, µs since the epoch."""
    return time.time_ns() // 1_000
