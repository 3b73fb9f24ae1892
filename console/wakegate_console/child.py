"""`python -m wakegate_console.child PARENT …`: run `wakegate …` and be told to stop when the parent dies.

A command that starts others ends them itself; this is for the case that it cannot, because it was killed.
"""

import ctypes
import os
import signal
import sys

from wakegate_console.cli import main

_PR_SET_PDEATHSIG = 1


def command(*arguments: str) -> list[str]:
    """Return the command line of a child of this process that runs `wakegate` with these arguments."""
    return [sys.executable, "-m", "wakegate_console.child", str(os.getpid()), *arguments]


def tie_to(parent: int) -> bool:
    """Have the kernel send SIGTERM to this process when its parent ends (Linux; elsewhere nothing happens).

    Returns:
        False when the parent has ended already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    return os.getppid() == parent


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]) if tie_to(int(sys.argv[1])) else 1)
