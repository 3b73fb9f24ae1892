"""Numbering: places in the store's tables as they are shown to harnesses.

The store numbers calls and resolutions across all harnesses, so that two plain numbers would tell one harness how busy
the others were between them. What is shown is a permutation of them under a key that only the store holds: a Feistel
network over two halves with a keyed hash as its rounds (Luby and Rackoff, 1988), small enough for any JSON number.
"""

import hashlib
from typing import Final

from wakegate_receiver.control.answers import ControlRefused
from wakegate_schema.calls import stream

_HALF_BITS: Final = 26
_MASK: Final = (1 << _HALF_BITS) - 1
_ROUNDS: Final = range(8)
_LARGEST: Final = 1 << 40
"""Above every number the store will ever give; the other 12 bits tell a number that was never shown."""
LIMIT: Final = 1 << 2 * _HALF_BITS
"""Above every number that is shown; all are exact as doubles."""


class Numbering:
    """Shows numbers and takes them back."""

    def __init__(self, key: bytes) -> None:
        """Take the store's key."""
        self._key = key

    def shown(self, number: int) -> int:
        """Return the number as it is shown, below `LIMIT`."""
        left, right = number >> _HALF_BITS, number & _MASK
        for turn in _ROUNDS:
            left, right = right, left ^ self._round(turn, right)
        return left << _HALF_BITS | right

    def meant(self, shown: int) -> int | None:
        """Return the number that was shown as this; None if none was."""
        left, right = shown >> _HALF_BITS, shown & _MASK
        for turn in reversed(_ROUNDS):
            left, right = right ^ self._round(turn, left), left
        number = left << _HALF_BITS | right
        return number if shown < LIMIT and number < _LARGEST else None

    def cursor(self, place: tuple[int, int]) -> str:
        """Return a place in the log of resolutions as a harness sees it."""
        epoch, number = place
        return stream.cursor((epoch, self.shown(number)))

    def place(self, cursor: str) -> tuple[int, int]:
        """Return the place that a cursor names. Raises `ControlRefused`: `bad_cursor`."""
        epoch, shown = stream.place(cursor)
        number = self.meant(shown) if shown < LIMIT else None
        if number is None:
            raise ControlRefused("bad_cursor", "This is no cursor of this receiver's stream.", path="after")
        return epoch, number

    def _round(self, turn: int, half: int) -> int:
        digest = hashlib.blake2b(half.to_bytes(4, "big"), key=self._key, salt=bytes([turn]), digest_size=4)
        return int.from_bytes(digest.digest(), "big") & _MASK
