"""Findings: what one check says of the installation, how bad that is, and what to do about it."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "warning", "problem"]
"""`ok`: as it should be. `note`: worth knowing. `warning`: wants a person soon. `problem`: broken, or unsafe."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a check says; it knows its own name no better than its caller."""

    verdict: Verdict
    what: str
    """What was found, a sentence without its stop; never a secret."""
    do: str = ""
    """What to do about it; empty where there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says, under its name."""

    check: str
    """`AREA.NAME`, as docs/doctor.md lists it."""
    verdict: Verdict
    what: str
    do: str = ""

    @property
    def area(self) -> str:
        """The part of the installation that it is about."""
        return self.check.partition(".")[0]


def ok(what: str) -> Said:
    """Say that something is as it should be."""
    return Said("ok", what)


def note(what: str, do: str = "") -> Said:
    """Say something that is worth knowing."""
    return Said("note", what, do)


def warning(what: str, do: str) -> Said:
    """Say something that will become a problem."""
    return Said("warning", what, do)


def problem(what: str, do: str) -> Said:
    """Say something that does not work, or is unsafe."""
    return Said("problem", what, do)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def lasted(seconds: float) -> str:
    """Return a length of time for people: `40 s`, `12 min`, `3 h`, `5 days`."""
    for size, word in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"


def sized(count: int) -> str:
    """Return a number of bytes for people."""
    for size, word in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {word}"
    return f"{count} bytes"
