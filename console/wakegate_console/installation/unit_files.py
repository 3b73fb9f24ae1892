"""Unit files: the units of `systemd/`, with the program that is installed here in their `Exec` lines."""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from wakegate_console import layout
from wakegate_console.installation.steps import CannotInit

_PROGRAM = re.compile(r"^(Exec[A-Za-z]*=[-@:+!]*)\S*/wakegate(?=\s)", re.MULTILINE)
_ODD = re.compile(r"[^A-Za-z0-9_./+-]")


def unit(name: str, program: Sequence[str]) -> str:
    """Return a unit that starts this program.

    Args:
        name: the unit's file name.
        program: how the program is started, its arguments aside.

    Raises CannotInit: the program's path has characters that systemd would read another way.
    """
    if any(_ODD.search(word) for word in program):
        raise CannotInit(
            f"the path of the program, {program[0]}, has characters that a unit cannot hold plainly; install it in a"
            " folder such as /opt/wakegate"
        )
    text = _source(name)
    return _PROGRAM.sub(lambda found: found.group(1) + " ".join(program), text)


def tmpfiles() -> str:
    """Return what makes the socket's directory at every boot, for `systemd-tmpfiles`."""
    place = layout.place(layout.RUNTIME)
    return (
        "# Made by `wakegate init --system`: the directory of the control socket.\n"
        f"d {place.path} {place.mode:04o} {place.owner} {place.group} -\n"
    )


def _source(name: str) -> str:
    """Return a unit as the project has it: in the installed package, or in the folder beside it."""
    packaged = files("wakegate_console") / "units" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[3] / "systemd" / name).read_text(encoding="utf-8")
