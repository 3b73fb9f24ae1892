"""Where the files of many small stores lie: in memory if there is room, and nothing waits for a disk.

What is in them is written, locked and read by real processes all the same, and what a process that is killed had
written is there afterwards. What a disk keeps when the power fails is shown elsewhere.
"""

import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 512 << 20
"""Bytes that must be free there: a container has 64 MiB unless it is given more."""


def room() -> str | None:
    """The folder to make temporary ones in; None for the usual."""
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM else None
