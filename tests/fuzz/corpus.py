"""The kept corpus: a folder for each target, a file for each input, named by its hash."""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "corpus"
LONGEST: Final = 2_048
"""Bytes of a kept input at most; the longest are made of kept ones by repeating."""

Arc = tuple[str, int, int, int]
"""A step from one line of a module to another, and about how often it was taken: the length of the count in bits."""


def kept(target: str) -> dict[str, bytes]:
    """Return a target's inputs by file name."""
    return {path.name: path.read_bytes() for path in sorted((FOLDER / target).iterdir())}


def keep(target: str, data: bytes) -> Path:
    """Write an input to the corpus."""
    path = FOLDER / target / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def new_ones(target: Callable[[bytes], object], old: Iterable[bytes], found: Iterable[bytes]) -> list[bytes]:
    """Return those of the found inputs that take a step in our code which neither an old nor an earlier one takes.

    The shortest come first.
    """
    known: set[Arc] = set().union(*(arcs(target, data) for data in old))
    chosen = []
    for data in sorted(found, key=lambda one: (len(one), one)):
        if len(data) <= LONGEST and not (steps := arcs(target, data)) <= known:
            known |= steps
            chosen.append(data)
    return chosen


def arcs(target: Callable[[bytes], object], data: bytes) -> set[Arc]:
    """Return the steps in wakegate's modules that an input makes the target take."""
    taken: Counter[tuple[str, int, int]] = Counter()
    last: dict[int, int] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if "/wakegate_" not in name:
            return None
        if event == "line":
            taken[name, last.get(id(frame), 0), frame.f_lineno] += 1
            last[id(frame)] = frame.f_lineno
        elif event == "return":
            last.pop(id(frame), None)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(before)
    return {(*step, count.bit_length()) for step, count in taken.items()}
