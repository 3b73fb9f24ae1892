"""Ctrl-C before there is anything to tidy up: it ends the process, at once and without a word.

Python's own handler raises KeyboardInterrupt in whatever runs. Within an import that is a traceback, or is swallowed.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deadly_interrupts() -> Iterator[None]:
    """Have SIGINT end the process while the block runs, or until somebody in it handles it otherwise.

    Where it is ignored, as in a shell's background jobs, it stays ignored.
    """
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
