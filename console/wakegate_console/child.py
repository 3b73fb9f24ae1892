"""`python -m wakegate_console.child PARENT …`: run `wakegate …` for a command that looks after it.

It is told to stop when the parent dies: a command that starts others ends them itself, unless it was killed. That
it is ready, and what is wrong with it, it tells the parent too, which can repeat it where a person looks.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

from wakegate_console.importing import importing, leaving

LAST_WORDS = "_WAKEGATE_LAST_WORDS"
"""The environment variable with the number of the pipe that a supervisor hears the child by: `READY`, then errors."""
READY = "ready"
"""The first line in that pipe, once the child works."""

_PR_SET_PDEATHSIG = 1


def command(*arguments: str) -> list[str]:
    """Return the command line of a child of this process that runs `wakegate` with these arguments.

    It does not import from the working directory (-P), as `wakegate` itself does not.
    """
    return [sys.executable, "-P", "-m", "wakegate_console.child", str(os.getpid()), *arguments]


def tie_to(parent: int) -> bool:
    """Have the kernel send SIGTERM to this process when its parent ends (Linux; elsewhere nothing happens).

    Returns:
        False when the parent has ended already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    return os.getppid() == parent


def last_words() -> Callable[[str], None] | None:
    """Return what tells the supervisor a line, or None when nobody listens. Own children do not inherit the pipe."""
    return _teller(os.environ.get(LAST_WORDS))


def announcement() -> Callable[[], None]:
    """Return what tells the supervisor, if one listens, that this process works. Own children know of no pipe then."""
    tell = _teller(os.environ.pop(LAST_WORDS, None))

    def announce() -> None:
        if tell is not None:
            tell(READY)

    return announce


def _teller(number: str | None) -> Callable[[str], None] | None:
    if number is None:
        return None
    pipe = int(number)
    os.set_inheritable(pipe, False)

    def tell(line: str) -> None:
        try:
            os.write(pipe, line.encode("utf-8", "replace")[:1000] + b"\n")
        except OSError:
            return  # it listens no more, and the line is on standard error

    return tell


if __name__ == "__main__":
    with importing(whole_process=True):
        from wakegate_console.cli import main
    code = main(sys.argv[2:], last_words()) if tie_to(int(sys.argv[1])) else 1
    leaving()
    sys.exit(code)
