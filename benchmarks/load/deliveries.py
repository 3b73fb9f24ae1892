"""Signed notifications as the bytes of whole requests: no two alike, so that no repeat flatters a figure."""

from pathlib import Path

from benchmarks.load import files
from support.deliveries import Sender
from support.receivers import request_bytes


def write(file: Path, sender: Sender, count: int) -> None:
    """Make so many and write them; they are good for the 300 s that a signature is."""
    files.write(file, (request_bytes(sender.notification(), files.PATH) for _ in range(count)))
