"""What a measure gives, and where measures are found.

A module of `MODULES` has `MEASURES`, a tuple of `Measure`. A measure runs its sides in turns, round by round, and
returns its `Figure`s; its `Bar`s say what DESIGN asks of them, and are there before anything has run.
"""

import importlib
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

MODULES: Final = (
    "benchmarks.acknowledgements",
    "benchmarks.resumptions",
    "benchmarks.starts",
    "benchmarks.processes",
    "benchmarks.elsewhere",
    "benchmarks.memory",
    "benchmarks.growth",
)
"""In the order in which they run; a name here is all that a new measure needs."""


class Failed(Exception):
    """A measure cannot be believed: something did not run, or rows and answers do not agree."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of each side, as every round gave it."""

    name: str
    """Unique among all figures: `acknowledgements`, `acknowledgement p99`."""
    unit: str
    """`1/s`, `ms`, `MB`, …"""
    sides: Mapping[str, tuple[float, ...]]
    """One value a round; the sides of a comparison have equally many, and those of one round belong together."""
    meaning: str
    """A sentence: what is counted, from when to when."""
    notes: tuple[str, ...] = ()
    """What a reader must know to believe it, such as how busy the load's process was."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What must be reached: a side's value, or its ratio to another side's in the same round."""

    title: str
    """The row's name in the tables; unique."""
    figure: str
    """The figure's name."""
    side: str
    base: str | None
    """The side that it is divided by; None for the value itself."""
    limits: tuple[float, ...]
    """The first number, then the next ones."""
    at_least: bool = True
    """Or at most."""
    worst: bool = False
    """Whether the worst round counts instead of the median: for a longest time."""

    def values(self, figure: Figure) -> tuple[float, ...]:
        """One value a round."""
        if self.base is None:
            return figure.sides[self.side]
        return tuple(ours / other for ours, other in zip(figure.sides[self.side], figure.sides[self.base], strict=True))

    def value(self, figure: Figure) -> float:
        """The one that is held against the limits."""
        values = self.values(figure)
        if not self.worst:
            return statistics.median(values)
        return min(values) if self.at_least else max(values)

    def reached(self, figure: Figure) -> int:
        """How many of the limits are reached."""
        value = self.value(figure)
        return sum(value >= each if self.at_least else value <= each for each in self.limits)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run."""

    rounds: int
    """Of every side; what takes long may run fewer, and says so in a note."""
    quick: bool
    """For development: smaller counts, under 45 s a measure."""
    say: Callable[[str], None] = field(default=lambda _: None)
    """Tell whoever waits what is being done: a few words."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One comparison, or several that share their sides."""

    name: str
    """For `python -m benchmarks --only NAME`; one word."""
    title: str
    bars: tuple[Bar, ...]
    run: Callable[[Plan], Awaitable[Sequence[Figure]]]
    """Raises Failed; leaves no process and no file behind."""


def measures() -> dict[str, Measure]:
    """Every measure, by name, in the order in which they run."""
    found = [each for module in MODULES for each in importlib.import_module(module).MEASURES]
    return {each.name: each for each in found}
