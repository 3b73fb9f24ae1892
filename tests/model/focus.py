"""Focus: what a history is mostly about. One in which everything is as likely as anything gets nowhere deep."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from model.approver import FALSIFIED

from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND

HOWS = ("well", "well", "well", "twice at once", "other bytes", "other request", "late", "early", "forged", "verify")


@dataclass(frozen=True, repr=False)
class Focus:
    """How often each act happens, and with what. The defaults are a history of everything."""

    name: str
    weights: Mapping[str, int] = field(default_factory=dict)
    """By act, where it is not the act's own."""
    kinds: tuple[str, ...] = ("works",) * 5 + ("fails", "breaks", FALSIFIED)
    runs: tuple[str, ...] = ("worker", "worker", "harness")
    holds: tuple[int, ...] = (0, 0, 0, 0, 2 * MINUTE)
    words: tuple[int, ...] = (1, 1, 2, 3, 20, 20, 20)
    """How many words somebody says in one go; 20 is all of them."""
    times: tuple[int, ...] = (SECOND, 3 * SECOND, 61 * SECOND, 61 * SECOND, 5 * MINUTE, 16 * MINUTE)
    long_times: tuple[int, ...] = (31 * MINUTE, 2 * HOUR, 9 * DAY, 40 * DAY)
    valid: tuple[int, ...] = (20 * MINUTE, 3 * HOUR, 4 * MINUTE)
    approved: tuple[bool, ...] = (True, False)
    """Whether what waits at the beginning is approved already."""
    hows: tuple[str, ...] = HOWS
    """How events are delivered."""
    calls: tuple[int, ...] = (1, 2, 3)
    """How many calls are there at the beginning."""
    stage: Literal["saved", "waiting", "due", "permitted"] = "waiting"
    """How far they have come."""

    def __repr__(self) -> str:
        return self.name


def _only(**weights: int) -> dict[str, int]:
    """These acts, and no others."""
    rare = (
        "abandon", "cancel", "claim", "decide", "deliver", "oversleep", "probe", "raise_epoch", "release", "resolve",
        "restart", "retire", "rotate", "save", "set_credential", "sweep", "wait", "wait_long", "wake",
    )  # fmt: skip
    return dict.fromkeys(rare, 0) | weights


EVERYTHING = Focus("everything")
LEASES = Focus(
    "leases", _only(decide=2, deliver=1, go=12, lease=12, oversleep=2, sweep=2, wait=10), kinds=("works",),
    runs=("worker",), holds=(0,), calls=(1, 1, 2), words=(2, 2, 3, 20, 20), times=(61 * SECOND,), valid=(3 * HOUR,),
    approved=(True,), stage="due",
)  # fmt: skip
LATE_STARTS = Focus(
    "late starts", _only(claim=6, decide=10, deliver=10, go=10, lease=10, oversleep=10, save=4), kinds=("works",),
    runs=("worker", "worker", "harness"), holds=(0,), words=(1, 3, 3), times=(5 * MINUTE,), valid=(4 * MINUTE,),
    approved=(True,), stage="due", hows=("well",),
)  # fmt: skip
CLAIMS = Focus(
    "claims", _only(claim=16, raise_epoch=3, release=1, save=1, sweep=4, wait=3), kinds=("works", "breaks"),
    runs=("harness",), holds=(0,), words=(2, 3, 20), approved=(True,), stage="permitted",
)  # fmt: skip
NOTICES = Focus(
    "notices", _only(decide=16, deliver=16, wait=6, rotate=4, retire=1, save=1), kinds=("works",), holds=(0,),
    words=(1, 2, 2, 3, 20), times=(61 * SECOND, 61 * SECOND, 5 * MINUTE), approved=(True, False),
)  # fmt: skip
HINTS = Focus(
    "hints", _only(decide=8, deliver=30, go=7, wait=1), kinds=("works",), holds=(0,), words=(2, 2, 2, 20),
    times=(61 * SECOND,), approved=(False,),
    calls=(1, 2),
    stage="due", hows=("well",),
)  # fmt: skip
EARLY = Focus(
    "early notices", _only(decide=20, deliver=20, go=10, save=2), kinds=("works",), holds=(0,), words=(1, 2, 2, 20),
    stage="saved", hows=("well",),
)  # fmt: skip
ABANDONMENT = Focus(
    "abandonment", _only(abandon=10, cancel=8, decide=2, restart=1, retire=1, save=3, sweep=4, wait=3),
    words=(1, 1, 2, 3, 20), stage="saved",
)  # fmt: skip
RETENTION = Focus(
    "retention", _only(deliver=4, decide=4, save=12, wait_long=6, probe=2, sweep=2), holds=(0,), words=(20,),
    long_times=(2 * HOUR, 9 * DAY, 40 * DAY, 40 * DAY), approved=(True,),
)  # fmt: skip
DOUBTS = Focus(
    "doubts", _only(claim=6, decide=2, deliver=2, go=8, probe=4, resolve=1, restart=1, save=1, sweep=12, wait=8),
    kinds=("works", "works", "works", "fails", "breaks"), holds=(0,), words=(4, 5, 5, 6, 20),
    times=(61 * SECOND, 61 * SECOND, 16 * MINUTE), valid=(3 * HOUR,), approved=(True,),
    stage="due",
)  # fmt: skip
ALL = (EVERYTHING, LEASES, LATE_STARTS, CLAIMS, NOTICES, HINTS, EARLY, ABANDONMENT, RETENTION, DOUBTS)
