"""Fault points: named places in the wrappers through which everything goes, where a test can break the process.

A point's name is `PLACE:CALLER`: which wrapper and where in it, and on whose behalf, such as
`store.commit:attempts.start`. `WAKEGATE_TEST_FAULT=NAME=ACTION[@N]` arms one, in processes that start with it set; then
the N-th time it is reached (the first, unless N is given) its action happens, once: `kill` (SIGKILL to the process
itself), `raise` (an input/output error, as a disk or a network gives) or `delay:SECONDS`. With
`WAKEGATE_TEST_FAULT_TRACE=FILE` the name of every point is appended to a file when it is first reached.
docs/reliability.md lists the points, and what was seen at each.
"""

import asyncio
import errno
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from wakegate_schema.errors import WakegateError

TEST_FAULT: Final = "WAKEGATE_TEST_FAULT"
TEST_FAULT_TRACE: Final = "WAKEGATE_TEST_FAULT_TRACE"

Caller = str | Callable[..., Any]
"""On whose behalf: a word, or a function, which is named by its module and itself."""


class FaultMalformed(WakegateError):
    """WAKEGATE_TEST_FAULT is not NAME=ACTION[@N]."""

    reason = "fault_malformed"


class InjectedFault(OSError):
    """The error that an armed point raises."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to happen, and where."""

    point: str
    action: Literal["kill", "raise", "delay"]
    seconds: float = 0.0
    hit: int = 1
    """Which time that the point is reached, from 1."""


def arm(environ: Mapping[str, str], warn: Callable[..., object]) -> None:
    """Arm what the environment names, or nothing. A process calls it once, before anything else.

    Args:
        environ: the environment.
        warn: the process's logger's `warning`, told loudly of what is armed.

    Raises:
        FaultMalformed: the variable is set and says something else; nothing starts then.
    """
    global _points
    fault = parse(environ[TEST_FAULT]) if TEST_FAULT in environ else None
    trace = environ.get(TEST_FAULT_TRACE)
    _points = _Points(fault, Path(trace) if trace else None) if fault or trace else None
    if fault is not None:
        warn(
            f"a fault is armed by {TEST_FAULT}: this process will break, as a test wants it to",
            action="arm_fault",
            point=fault.point,
            fault=fault.action,
            hit=fault.hit,
        )


def parse(text: str) -> Fault:
    """Return the fault that `NAME=ACTION[@N]` names. Raises `FaultMalformed`."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise FaultMalformed(
            f"{TEST_FAULT} is {text!r}, not PLACE:CALLER=ACTION[@N], where ACTION is kill, raise or delay:SECONDS and N"
            " counts from 1; unset it unless you test wakegate itself"
        )
    point, kill_or_raise, seconds, hit = found.groups()
    count = int(hit or 1)
    if seconds is not None:
        return Fault(point, "delay", float(seconds), count)
    return Fault(point, "kill" if kill_or_raise == "kill" else "raise", 0.0, count)


def reach(place: str, caller: Caller) -> None:
    """Say, in a thread that may wait, that a point is reached. Nothing happens unless a test armed it."""
    if _points is not None:
        time.sleep(_points.reached(place, caller))


def passing(place: str, caller: Caller) -> Awaitable[None]:
    """Say the same in an event loop, which a delay does not hold up; what this returns is awaited at once."""
    return _NOTHING if _points is None else asyncio.sleep(_points.reached(place, caller))


class _Nothing:
    """Is awaited in no time, and without a coroutine of its own."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class _Points:
    """Counts how often each point is reached, in all threads."""

    def __init__(self, fault: Fault | None, trace: Path | None) -> None:
        self._fault = fault
        self._trace = trace
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reached(self, place: str, caller: Caller) -> float:
        """Kill the process, raise `InjectedFault`, or return for how many seconds to wait."""
        name = point_name(place, caller)
        with self._lock:
            self._counts[name] += 1
            count = self._counts[name]
            if count == 1 and self._trace is not None:
                _append(self._trace, name)
        fault = self._fault
        if fault is None or fault.point != name or fault.hit != count:
            return 0.0
        if fault.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.action == "raise":
            raise InjectedFault(errno.EIO, f"fault point {name}")
        return fault.seconds


def point_name(place: str, caller: Caller) -> str:
    """Return a point's name."""
    if isinstance(caller, str):
        return f"{place}:{caller}"
    return f"{place}:{caller.__module__.rpartition('.')[2]}.{caller.__name__}"


def _append(trace: Path, name: str) -> None:
    descriptor = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{name}\n".encode())
    finally:
        os.close(descriptor)


_FORM: Final = re.compile(
    r"([a-z_]+\.[a-z_]+:[^=@\s]+)=(?:(kill|raise)|delay:([0-9]{1,4}(?:\.[0-9]{1,3})?))(?:@([1-9][0-9]{0,5}))?"
)
_NOTHING: Final = _Nothing()
_points: _Points | None = None
