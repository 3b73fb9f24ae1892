"""Epochs: how often the store may have gone back in time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch of the store's life; unstarted executions of an older one wait for an operator."""

    number: int
    reason: str
    actor: str
    at: int
    """When it began, in µs since the Unix epoch."""
