"""Lock files: one process at a time has something; the kernel lets go of it for the dead."""

import fcntl
import os
from pathlib import Path


def take(path: Path, mode: int) -> int | None:
    """Take a lock file for this process alone. It is made where there is none, and stays.

    Args:
        path: the file; its directory must exist.
        mode: the permission bits of a new one, less the umask.

    Returns:
        The descriptor that holds it until it is closed, or None while another has it.

    Raises:
        OSError: it cannot be opened or made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
