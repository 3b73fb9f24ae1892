"""Steps: one thing each that should be there; looked at first, and made only where there is nothing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from wakegate_schema.errors import WakegateError

State = Literal["made", "was there", "differs", "would be made", "left out"]


class CannotInit(WakegateError):
    """It cannot be installed here."""

    reason = "cannot_init"


@dataclass(frozen=True, slots=True)
class Found:
    """What lies where something should be."""

    differs: str = ""
    """What about it is not as it should be, and what to do; empty when it is right."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that should be there."""

    kind: str
    """What it is, in a word: group, user, directory, file, secret, program."""
    name: str
    what: str
    """What it is for, or to whom it belongs."""
    look: Callable[[], Found | None]
    """Says what is there; None for nothing."""
    make: Callable[[], None] | None
    """Makes it; None for what only its owner can make."""
    left_out: str = ""
    """Why it is not made here, if it is not."""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a step."""

    kind: str
    name: str
    state: State
    detail: str


def carry_out(steps: Iterable[Step], *, dry: bool) -> Iterator[Report]:
    """Take the steps in their order and tell of each.

    Args:
        steps: each made whole or not at all, so that the next run goes on after the last one that was.
        dry: only look.

    Raises CannotInit, OSError: a step failed; those before it are done.
    """
    for step in steps:
        yield Report(step.kind, step.name, *_outcome(step, dry=dry))


def _outcome(step: Step, *, dry: bool) -> tuple[State, str]:
    found = step.look()
    if found is not None:
        return ("differs", found.differs) if found.differs else ("was there", step.what)
    if step.left_out:
        return "left out", step.left_out
    if step.make is None:
        return "differs", step.what
    if dry:
        return "would be made", step.what
    step.make()
    return "made", step.what
