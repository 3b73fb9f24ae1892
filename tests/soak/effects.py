"""Effects: what the calls do in the world, counted in a file that wakegate knows nothing of."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from soak.journal import Journal

VARIABLE = "SOAK_FOLDER"
"""The environment variable that names the soak's folder, which is not on the small disk."""
SHORTLY: Final = 12_000_000
"""How long before an effect its process may have been paused after the last look at the clocks, µs."""


def folder() -> Path:
    """Return the soak's folder."""
    return Path(os.environ[VARIABLE])


def effects_file(of: Path) -> Path:
    """Return the file of effects in a soak's folder."""
    return of / "effects.jsonl"


def have_effect(call: str, by: str) -> None:
    """Do it: one more effect of this call, durable when this returns."""
    Journal(effects_file(folder())).note(call=call, by=by, pid=os.getpid())


def happened(call: str) -> bool:
    """Say whether a call has had its effect."""
    return any(fact["call"] == call for fact in Journal(effects_file(folder())).facts())


def take_fence(idempotency_key: str, who: str) -> bool:
    """Be the first, or not, to speak for this key, as a bank does it that takes an idempotency key once.

    A probe that says "it did not happen" must know that it cannot happen any more: it takes the key itself.
    """
    try:
        descriptor = os.open(folder() / "fences" / idempotency_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    os.write(descriptor, who.encode())
    os.close(descriptor)
    return True


def fenced_by(of: Path, idempotency_key: str) -> str | None:
    """Return who took the key first."""
    file = of / "fences" / idempotency_key
    return file.read_text() if file.exists() else None


@dataclass(frozen=True, slots=True)
class Pause:
    """A time for which a process was stopped where it was. Real times in µs."""

    pid: int
    begins: int
    ends: int

    def within(self, begins: int, ends: int) -> int:
        """Return how much of it lies between two times."""
        return max(0, min(ends, self.ends) - max(begins, self.begins))


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect. Times are µs."""

    at: int
    """Real time."""
    held_up: int = 0
    """How long its process was paused shortly before: nothing can look at a clock meanwhile."""


def effects_by_call(of: Path, pauses: Iterable[Pause]) -> Mapping[str, list[Effect]]:
    """Return the effects of each call.

    Args:
        of: the soak's folder.
        pauses: of every process.
    """
    by_process: defaultdict[int, list[Pause]] = defaultdict(list)
    for pause in pauses:
        by_process[pause.pid].append(pause)
    found: defaultdict[str, list[Effect]] = defaultdict(list)
    for fact in Journal(effects_file(of)).facts():
        held_up = sum(pause.within(fact["at"] - SHORTLY, fact["at"]) for pause in by_process[fact["pid"]])
        found[fact["call"]].append(Effect(fact["at"], held_up))
    return found


def pauses_in(events: Iterable[Mapping[str, Any]]) -> list[Pause]:
    """Return every pause that the journal tells of; one that a kill ended has no end that matters."""
    begun: dict[int, int] = {}
    pauses = []
    for event in events:
        if event["event"] == "SIGSTOP":
            begun[event["pid"]] = event["at"]
        elif event["event"] == "SIGCONT" and event["pid"] in begun:
            pauses.append(Pause(event["pid"], begun.pop(event["pid"]), event["at"]))
    return pauses
