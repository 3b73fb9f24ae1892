"""Clocks: what each host's has shown, and who said that it was wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClockMark:
    """The highest wall clock reading that a host has had."""

    host: str
    highest_at: int
    """µs since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class ClockReset:
    """A mark that an operator has lowered; kept for good."""

    host: str
    from_at: int
    to_at: int
    """What the mark was, and what it became, in µs since the Unix epoch."""
    actor: str


@dataclass(frozen=True, slots=True)
class PutOff:
    """How far the work of a clock that was ahead has been brought forward; the next step resumes there."""

    due_at: int
    """When the last one that was looked at was due, in µs since the Unix epoch."""
    number: int
    """That one's row."""
    count: int
    """Executions made due so far."""
