"""The program that the units start: this very one, which both users must be able to run."""

import os
import subprocess
import sys
from pathlib import Path

from wakegate_console.installation.steps import Found

HIDDEN = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))  # noqa: S108 - only compared with
"""What the units do not see: `ProtectHome=` and `PrivateTmp=`."""
_PATIENCE_S = 60
_ADVICE = "install it where every user may read it, such as /opt/wakegate, and run init from there"


def command() -> tuple[str, ...]:
    """Return how the program is started that runs this process."""
    script = Path(sys.executable).with_name("wakegate")
    return (str(script),) if script.is_file() else (sys.executable, "-P", "-m", "wakegate_console")


def look(uid: int | None, gid: int | None) -> Found | None:
    """Say whether a service's user can run the program; None while that user is not there.

    The answer is the program's own: it is started as that user, with nothing of root's environment.
    """
    if uid is None or gid is None:
        return None
    hidden = _hidden()
    if hidden is not None:
        return Found(f"a part of it lies in {hidden}, which the units do not see; {_ADVICE}")
    try:
        done = subprocess.run(  # noqa: S603 - this very program
            [*command(), "--version"],
            user=uid, group=gid, extra_groups=[], cwd="/", env={"PATH": os.defpath},
            capture_output=True, text=True, timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
    except OSError as error:
        return Found(f"this user cannot run it ({error.strerror}); {_ADVICE}")
    except subprocess.TimeoutExpired:
        return Found(f"run as this user it says nothing within {_PATIENCE_S} seconds; {_ADVICE}")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Found(f"this user cannot run it ({said}); {_ADVICE}")
    return Found()


def _hidden() -> Path | None:
    """Return the first folder that the units do not see and that a part of the program lies in."""
    parts = (command()[0], sys.executable, os.path.realpath(sys.executable), sys.prefix, sys.base_prefix, __file__)
    return next((folder for folder in HIDDEN for part in parts if Path(part).is_relative_to(folder)), None)
