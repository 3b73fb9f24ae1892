"""A receiver's program that may open so many files (0: as many as usual), and dies where `WAKEGATE_TEST_FAULT` says.

The variable holds a module, a function in it, and `before` or `after`.
"""

import importlib
import os
import resource
import signal
import sys

from wakegate_receiver import run
from wakegate_schema.logs import configure
from wakegate_schema.settings import load_settings


def arm(module: str, name: str, when: str) -> None:
    """Let the process die at this function."""
    owner = importlib.import_module(module)
    function = getattr(owner, name)

    def die(*arguments: object, **named: object) -> None:
        if when == "after":
            function(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, die)


if __name__ == "__main__":
    if sys.argv[1] != "0":
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
    configure("json")
    if fault := os.environ.pop("WAKEGATE_TEST_FAULT", ""):
        arm(*fault.split(":"))
    run(load_settings(), ready=lambda url: print(url, flush=True))  # noqa: T201
