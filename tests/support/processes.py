"""What the processes of a test begin with."""

import importlib
import os
import sys
from pathlib import Path

_ELSEWHERE = (
    "wakegate_schema.store.postgresql.opening", "wakegate_schema.queue.ringing", "wakegate_worker.hints.listener",
)  # fmt: skip


def import_for_elsewhere() -> None:
    """Import what a service imports once it is told of a PostgreSQL and a Redis: a third of its start."""
    for name in _ELSEWHERE:
        importlib.import_module(name)


def clean_environment() -> dict[str, str]:
    """This process's environment without any setting of wakegate."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WAKEGATE_")}


def script(path: Path) -> list[str]:
    """The command line of a short Python program whose imports are not looked through for garbage: a third of them."""
    return [sys.executable, "-c", _SCRIPT, str(path)]


_SCRIPT = """
import gc, os, runpy, sys
gc.disable()
sys.argv.pop(0)
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
gc.freeze()
"""


def without_override() -> tuple[str, ...]:
    """What takes from root the right to write what it may only read; others never had it."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--inh-caps=-dac_override", "--bounding-set=-dac_override")
