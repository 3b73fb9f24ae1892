"""The order of tests: what takes long begins early, in all processes of a run alike, and nothing is waited for alone.

`tests/durations.json` says how many seconds a test took that takes long, and what the others of a file took together.
`make durations` writes it anew. What is not in it counts as short, and a run without it is only slower.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

DURATIONS: Final = Path(__file__).parents[1] / "durations.json"
LONG_S: Final = 1.0
"""Seconds from which a test is placed by itself, unless it shares something with the others of its file."""
TINY_S: Final = 0.03
"""Seconds below which the tests of a file, on average, may go anywhere."""


CROWDED: Final = "tests/faults/"
"""Each of these tests keeps dozens of processes busy: more than two of them at once only wait for each other."""
CROWDS: Final = 2


def read() -> dict[str, float]:
    """Seconds by the name of a test without its case, or by that of a file."""
    found: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
    return found


def write(seconds: Iterable[tuple[str, float]]) -> None:
    """Keep what a whole run took.

    Args:
        seconds: by the full name of each test that ran.
    """
    long: dict[str, float] = {}
    files: dict[str, float] = defaultdict(float)
    for name, took in seconds:
        test = _test(name)
        if took >= LONG_S:
            long[test] = max(took, long.get(test, 0.0))
        else:
            files[_file(name)] += took
    kept = {name: round(took, 1) for name, took in sorted((long | files).items())}
    DURATIONS.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


def ordered(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in an order of which each process takes one part of the same length, as `--dist worksteal` deals them.

    Every part begins with files, long tests and more files; what is tiny, and lies nowhere better, fills it up.
    """
    known = read()
    parts = [_Part(each, len(items) // processes) for each in range(processes)]
    sharing = {_file(item.nodeid) for item in items if _shares(item)}
    files: dict[str, list[pytest.Item]] = defaultdict(list)
    took: dict[str, float] = defaultdict(float)
    long = []
    for item in items:
        test, file = _test(item.nodeid), _file(item.nodeid)
        if test in known and file not in sharing:
            long.append(item)
        else:
            files[file].append(item)
            took[file] += known.get(test, 0.0)
    for item in sorted(long, key=lambda item: -known[_test(item.nodeid)]):
        among = parts[:CROWDS] if item.nodeid.startswith(CROWDED) else parts
        min(among, key=lambda part: part.seconds).take_long(item, known[_test(item.nodeid)])
    tiny: list[pytest.Item] = []
    for name in files:
        took[name] += known.get(name, 0.0)
    for name, tests in sorted(files.items(), key=lambda file: -took[file[0]]):
        roomy = [part for part in parts if part.room >= len(tests)]
        if took[name] < TINY_S * len(tests) or not roomy:
            tiny += tests
        else:
            min(roomy, key=lambda part: part.seconds).take_file(tests, took[name])
    for part in parts[:-1]:
        tiny = part.fill(tiny)
    parts[-1].files.append(tiny)
    return [item for part in parts for item in part.tests()]


class _Part:
    """What one process begins with."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.room = size
        self.seconds = 0.0
        self.long: list[pytest.Item] = []
        self.files: list[list[pytest.Item]] = []

    def take_long(self, item: pytest.Item, seconds: float) -> None:
        self.long.append(item)
        self.room -= 1
        self.seconds += seconds

    def take_file(self, tests: list[pytest.Item], seconds: float) -> None:
        self.files.append(tests)
        self.room -= len(tests)
        self.seconds += seconds

    def fill(self, tests: list[pytest.Item]) -> list[pytest.Item]:
        """Take as many as there is room for; return the others."""
        room = max(self.room, 0)
        self.files.append(tests[:room])
        return tests[room:]

    def tests(self) -> list[pytest.Item]:
        """In every other part some files come first: long tests wait for the most part, and others run meanwhile."""
        before = len(self.files) // 3 if self.number % 2 else 0
        first, rest = self.files[:before], self.files[before:]
        return [item for group in (*first, self.long, *rest) for item in group]


def _shares(item: pytest.Item) -> bool:
    """Whether the tests of its file share something that is made for the file."""
    asked = getattr(item, "_fixtureinfo", None)
    return asked is not None and any(
        made.scope in ("module", "package") for all_made in asked.name2fixturedefs.values() for made in all_made
    )


def _test(name: str) -> str:
    return name.partition("[")[0]


def _file(name: str) -> str:
    return name.partition("::")[0]
