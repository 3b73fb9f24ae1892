"""Imports of a command's own process, without the garbage collector: it would look at them for a third of the start.

An import makes some hundred thousand objects that stay, and hardly any garbage.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from wakegate_console.interrupts import deadly_interrupts

_whole_process = False


@contextmanager
def importing(*, whole_process: bool = False) -> Iterator[None]:
    """Import in the block; SIGINT ends the process meanwhile, as `deadly_interrupts` has it.

    In a process that is the command and nothing else, no garbage is collected in the block, and the collector never
    looks at what is there after it. In any other, such as a program that calls `cli.main`, it is left alone.

    Args:
        whole_process: say, first of all, that this process is the command and nothing else.
    """
    global _whole_process
    _whole_process = _whole_process or whole_process
    if not _whole_process:
        with deadly_interrupts():
            yield
        return
    gc.disable()
    try:
        with deadly_interrupts():
            yield
    finally:
        gc.freeze()
        gc.enable()


def leaving() -> None:
    """Spare a process that is the command the look at everything with which Python ends."""
    if _whole_process:
        gc.freeze()
