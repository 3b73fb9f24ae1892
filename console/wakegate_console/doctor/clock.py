"""The clocks: this host's against what it has shown before, and against the providers'."""

import ctypes
import sys
from collections.abc import Iterator
from typing import Final

from wakegate_console.doctor.check import Check
from wakegate_console.doctor.finding import Said, lasted, note, ok, problem, warning
from wakegate_console.doctor.site import Site
from wakegate_schema import clock_mark
from wakegate_schema.clock import SECOND

SKEW_WARNED: Final = 5 * SECOND
SKEW_REFUSED: Final = 60 * SECOND
_UNSYNCHRONISED: Final = 5
"""What adjtimex(2) returns for a clock that nothing keeps right (TIME_ERROR)."""


def host(site: Site) -> Iterator[Said]:
    """Compare the clock with the highest time that this host has shown."""
    if site.store.facts is None:
        return
    name = clock_mark.host_name()
    highest = max((mark.highest_at for mark in site.store.facts.marks if mark.host == name), default=0)
    yield judge_mark(name, site.now, highest)


def judge_mark(name: str, now: int, highest: int) -> Said:
    """Say whether a clock went back.

    Args:
        name: the host.
        now: what it shows, µs.
        highest: what it has shown at most, µs; 0 for never.
    """
    if clock_mark.is_behind(now, highest):
        return problem(
            f"the clock of {name} is {lasted((highest - now) / SECOND)} behind what it has shown: no call starts",
            "correct it; if it is right now: wakegate clock reset --by NAME",
        )
    return ok(f"the clock of {name} has not gone back")


async def provider(site: Site) -> list[Said]:
    """Compare the clock with the providers', as their answers' Date says."""
    skews = {each.provider: each.skew for each in await site.asked() if each.skew is not None}
    return [judge_skew(name, skew) for name, skew in skews.items()]


def judge_skew(name: str, skew: int) -> Said:
    """Say whether two clocks agree.

    Args:
        name: the provider's base URL.
        skew: how far its clock is ahead of ours, µs.
    """
    apart = f"{lasted(abs(skew) / SECOND)} {'behind' if skew > 0 else 'ahead of'}"
    if abs(skew) > SKEW_REFUSED:
        return problem(
            f"this host's clock is {apart} {name}'s: approvals lapse too soon or start too late, and webhooks are"
            " refused from 300 s on",
            "correct this clock (NTP), or tell the provider's operator",
        )
    if abs(skew) > SKEW_WARNED:
        return warning(f"this host's clock is {apart} {name}'s", "correct this clock (NTP), or tell its operator")
    return ok(f"this host's clock agrees with {name}'s")


def synchronised(_: Site) -> Iterator[Said]:
    """Ask the kernel whether something keeps the clock right."""
    state = _kernel_state()
    if state == _UNSYNCHRONISED:
        yield note("the kernel says that nothing keeps this clock right", "run an NTP service, here or on the host")
    elif state is not None:
        yield ok("the kernel says that the clock is kept right")


CHECKS: Final = (
    Check("clock.host", host),
    Check("clock.provider", provider, network=True, limit_s=30.0),
    Check("clock.synchronised", synchronised),
)


def _kernel_state() -> int | None:
    """Return what adjtimex(2) says when it is only asked; None where that cannot be known."""
    if not sys.platform.startswith("linux"):
        return None
    ask = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    if ask is None:
        return None
    state = int(ask(ctypes.create_string_buffer(512)))  # struct timex, whose first member (modes) 0 changes nothing
    return state if state >= 0 else None
