"""Test clocks: what makes a process's wall clock slow, fast or still, and what it showed when."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from soak.journal import Journal

SECOND: Final = 1_000_000
BLUR: Final = SECOND // 2
"""How long a reading may take to be used, µs: one taken right before a clock was set may act right after."""
LOOK: Final = 2 * SECOND
"""How long before its effect a call has looked at the time, at most, µs."""


class TestClock:
    """One clock, through the file that `WAKEGATE_TEST_CLOCK` names."""

    __test__ = False  # no class of pytest's

    def __init__(self, name: str, file: Path, journal: Journal) -> None:
        """Take its name in the journal, its file, and the journal in which every change is noted."""
        self.name = name
        self.file = file
        self._journal = journal
        self.set_right()

    def set_apart(self, seconds: float) -> None:
        """Make it so many seconds fast, or slow."""
        self._set(f"{round(seconds * SECOND):+d}", offset=round(seconds * SECOND))

    def freeze(self, at: int) -> None:
        """Let it stand at a time, µs."""
        self._set(f"={at}", frozen=at)

    def set_right(self) -> None:
        """Let it show the machine's own time."""
        self.set_apart(0)

    def note_reset(self) -> None:
        """Note that an operator is about to reset the mark of the host which has this clock."""
        self._journal.note(event="mark_reset", clock=self.name)

    def _set(self, text: str, **meaning: int) -> None:
        beside = self.file.with_suffix(".new")
        beside.write_text(text, encoding="ascii")
        beside.replace(self.file)
        self._journal.note(event="clock", clock=self.name, **meaning)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A time for which the clock was left as it was: real times and readings in µs."""

    begins: int
    ends: int
    offset: int | None
    frozen: int | None

    def shows(self, real: int) -> int:
        return self.frozen if self.frozen is not None else real + (self.offset or 0)

    def last_time_of(self, reading: int) -> int | None:
        """Return the last real time at which it showed this, or None if it did not."""
        if self.frozen is not None:
            return self.ends if abs(self.frozen - reading) <= BLUR else None
        real = reading - (self.offset or 0)
        return real if self.begins - BLUR <= real <= self.ends + BLUR else None


class Readings:
    """What one clock showed, found from the journal."""

    def __init__(self, facts: Iterable[Mapping[str, Any]], clock: str, ends: int) -> None:
        """Take the journal's facts, the clock's name and the real time at which the soak ended (µs)."""
        own = [fact for fact in facts if fact.get("clock") == clock]
        changes = [fact for fact in own if fact["event"] == "clock"]
        begins = [fact["at"] for fact in changes]
        self._resets = [fact["at"] for fact in own if fact["event"] == "mark_reset"]
        self._stretches = [
            _Stretch(fact["at"], until, fact.get("offset"), fact.get("frozen"))
            for fact, until in zip(changes, [*begins[1:], ends], strict=True)
        ]

    def highest(self, real: int) -> int:
        """Return the highest time it had shown by a real time, give or take the blur; the mark may stand there."""
        real += BLUR
        return max(one.shows(min(real, one.ends)) for one in self._stretches if one.begins <= real)

    def least(self, begins: int, ends: int) -> int:
        """Return the least that it showed between two real times."""
        shown = [
            one.shows(at)
            for one in self._stretches
            if one.begins <= ends + BLUR and one.ends >= begins - BLUR
            for at in (max(begins, one.begins), min(ends, one.ends))
        ]
        return min(shown, default=begins)

    def last_reset(self, real: int) -> int:
        """Return when the mark was reset last before a real time; 0 if it never was."""
        return max((at for at in self._resets if at <= real + BLUR), default=0)

    def showed(self, reading: int) -> int | None:
        """Return the last real time at which it showed a reading, or None if it never did."""
        times = [time for one in self._stretches if (time := one.last_time_of(reading)) is not None]
        return max(times, default=None)


class Knowledge:
    """What the processes of a host surely know of the time: its clock, or its mark if that is higher."""

    def __init__(self, readings: Readings, starts: Iterable[int]) -> None:
        """Take what the clock showed, and when calls have started: each start puts a reading on record (real, µs)."""
        self._readings = readings
        self._starts = sorted(starts)
        self._marks = [readings.least(at - LOOK, at) for at in self._starts]

    def at(self, real: int) -> int:
        """Return the least time that a process can have taken for the present at a real time."""
        since = bisect_right(self._starts, self._readings.last_reset(real) + LOOK)
        marks = self._marks[since : bisect_left(self._starts, real - LOOK)]
        return max([*marks, self._readings.least(real - LOOK, real)])
