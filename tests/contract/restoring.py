"""Processes that restore and are killed by SIGKILL, each before another step; one line on standard output at the end.

Arguments: the backup, then `FOLDER=STEP` for each: the restore of that folder's `wakegate.db` dies at that step.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from wakegate_schema import clock
from wakegate_schema.store.sqlite.restore import restore


def dying_at(fatal: str) -> Callable[[str], None]:
    """Return what kills this process when that step comes."""

    def step(name: str) -> None:
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def main(backup: Path, *deaths: str) -> None:
    """Restore in one child after the other, and see each die."""
    killed = 0
    for death in deaths:
        folder, _, fatal = death.partition("=")
        child = os.fork()
        if child == 0:
            restore(Path(folder) / "wakegate.db", backup, actor="operator:mika", at=clock.now(), step=dying_at(fatal))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
    print("killed", killed, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
