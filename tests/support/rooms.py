"""Where the files of many small stores lie: in memory if there is room, and nothing waits for a disk.

What is in them is written, locked and read by real processes all the same, and what a process that is killed had
written is there afterwards. What a disk keeps when the power fails is shown elsewhere.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 512 << 20
"""Bytes that must be free there: a container has 64 MiB unless it is given more."""


def room(*, programs: bool = False) -> str | None:
    """The folder to make temporary ones in; None for the usual.

    Args:
        programs: whether some of the files are to be run, which a container may forbid there.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    return None if programs and os.statvfs(MEMORY).f_flag & os.ST_NOEXEC else str(MEMORY)


@contextmanager
def on_disk() -> Iterator[Path]:
    """A folder where stores lie otherwise: the doctor remarks on one that lies in memory."""
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as name:
        yield Path(name)
