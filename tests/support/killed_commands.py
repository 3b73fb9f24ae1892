"""Commands that are killed at their n-th step, forked from a process that has everything imported: each is quick.

A step is a fault point: before and after every commit, every read, every file that gets its name, every HTTP call.
"""

import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path

from wakegate_schema import fault_points

_FORKSERVER = get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    [
        __name__,
        "wakegate_console.cli",
        "wakegate_console.instance",
        "wakegate_console.db",
        "wakegate_receiver.service",
        "wakegate_schema.store.postgresql.opening",
    ]
)


def killed_at(step: int, arguments: tuple[str, ...], settings: Mapping[str, str], log: Path) -> int:
    """Run a command that dies by SIGKILL at this step; return how it ended: -9, or its exit code if it has fewer.

    Args:
        step: from 1; 0 for never.
        arguments: without the program's name.
        settings: its `WAKEGATE_*` variables; it has no others.
        log: gets what it writes.
    """
    process = _FORKSERVER.Process(target=_run, args=(step, arguments, dict(settings), str(log)))
    process.start()
    process.join(60)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"{arguments} does not end")
    return process.exitcode


class _Countdown:
    """Stands where the armed point stands, and counts all of them together."""

    def __init__(self, step: int) -> None:
        self._left = step

    def reached(self, _place: str, _caller: fault_points.Caller) -> float:
        """Die at the last one."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.0


def _run(step: int, arguments: tuple[str, ...], settings: dict[str, str], log: str) -> None:
    from wakegate_console.cli import main

    for name in [name for name in os.environ if name.startswith("WAKEGATE_")]:
        del os.environ[name]
    os.environ.update(settings)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    fault_points._points = _Countdown(step)  # type: ignore[assignment]
    code = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
