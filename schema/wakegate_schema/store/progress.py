"""Progress: how whoever waits for long maintenance is told how far it is."""

from collections.abc import Callable

Step = Callable[[str], None]
"""Told of each step before it is taken, in a word or two."""
Progress = Callable[[int, int], None]
"""Told how much is done, of how much: rows, or pages of a file."""
