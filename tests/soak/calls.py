"""The calls of the soak: what the provider decides about each, and what the tool does once it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

WAKE_TARGET = "soak"
"""The wake target that the soak listens at."""
CARDS, BANKS = "soak.cards", "soak.banks"
"""The modules that hold the workers' tools, for two pools."""
GROUPED = 0.15
"""The part of what a harness saves at once that is a group of calls."""
GROUP_SIZES = (2, 3)

VALID_FOR_LONG_S = 7200
"""How long a long approval lasts, in seconds: no clock of the soak ever comes near its end."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What the provider's policy does with a call."""

    decision: Literal["approve", "deny", "ask"]
    weight: int
    timeout: str = "20s"
    delay: str | None = None
    ttl: str | None = None

    def rule(self, name: str) -> str:
        """Return the policy's rule for tools of this fate."""
        values = {"tool": f"{name}_*", "decision": self.decision, "delay": self.delay, "approval_ttl": self.ttl}
        return "[[rule]]\n" + "".join(f'{key} = "{value}"\n' for key, value in values.items() if value)


FATES: Mapping[str, Fate] = {
    "prompt": Fate("approve", 3, ttl=f"{VALID_FOR_LONG_S}s"),
    "later": Fate("approve", 8, delay="1s", ttl=f"{VALID_FOR_LONG_S}s"),
    "brief": Fate("approve", 4, delay="1s", ttl="4s"),
    "denied": Fate("deny", 2, delay="1s"),
    "unheard": Fate("ask", 2, timeout="6s"),
}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a call does once it runs, and so what may become of it (its worker or harness may always die meanwhile)."""

    weight: int
    ends: frozenset[str]
    """The states that it may come to beside `in_doubt` when nothing disturbs it; empty if it always is in doubt."""
    probed: bool = False


ENDED = frozenset(
    {"succeeded", "failed", "denied", "expired", "cancelled", "lapsed", "refused", "unobtained", "abandoned"}
    | {"in_doubt"}
)
"""The states in which a call stays without a person; a harness is woken at each of them."""

SUCCEEDS, FAILS, EITHER = frozenset({"succeeded"}), frozenset({"failed"}), frozenset({"succeeded", "failed"})
NOBODY_KNOWS: frozenset[str] = frozenset()

IN_WORKER: Mapping[str, Behaviour] = {
    "pay": Behaviour(6, SUCCEEDS),
    "pay_in_thread": Behaviour(6, SUCCEEDS),
    "take_long": Behaviour(6, SUCCEEDS),
    "decline": Behaviour(2, FAILS),
    "refuse": Behaviour(2, FAILS),
    "break_down": Behaviour(2, NOBODY_KNOWS),
    "break_down_probed": Behaviour(4, EITHER, probed=True),
    "hang": Behaviour(2, NOBODY_KNOWS),
    "hang_probed": Behaviour(2, SUCCEEDS, probed=True),
    "overrun": Behaviour(2, SUCCEEDS),
}
IN_HARNESS: Mapping[str, Behaviour] = {
    "pay": Behaviour(6, SUCCEEDS),
    "take_long": Behaviour(5, SUCCEEDS),
    "fail": Behaviour(2, FAILS),
    "break_down": Behaviour(2, NOBODY_KNOWS),
    "say_nothing": Behaviour(1, NOBODY_KNOWS),
}
IN_HOLD: Mapping[str, Behaviour] = {name: IN_HARNESS[name] for name in ("pay", "take_long", "fail", "break_down")}

Mode = Literal["worker", "harness", "hold"]
BEHAVIOURS: Mapping[Mode, Mapping[str, Behaviour]] = {"worker": IN_WORKER, "harness": IN_HARNESS, "hold": IN_HOLD}
MODES: tuple[Mode, ...] = ("worker",) * 6 + ("harness",) * 3 + ("hold",)
GROUP_MODES: tuple[Mode, ...] = ("worker", "worker", "harness")
"""A held call has its harness wait, and wakes nobody."""


def policy() -> str:
    """Return the provider's policy file."""
    return "\n".join(fate.rule(name) for name, fate in FATES.items())


def tool_name(fate: str, behaviour: str) -> str:
    """Return how a call of this fate and behaviour names its tool."""
    return f"{fate}_{behaviour}"


def parts(tool: str) -> tuple[str, str]:
    """Return the fate and the behaviour that a tool's name stands for."""
    fate, _, behaviour = tool.partition("_")
    return fate, behaviour


def choose(random: Random, mode: Mode) -> str:
    """Return a tool's name for one more call."""
    behaviours = BEHAVIOURS[mode]
    fate = random.choices(list(FATES), [one.weight for one in FATES.values()])[0]
    behaviour = random.choices(list(behaviours), [one.weight for one in behaviours.values()])[0]
    return tool_name(fate, behaviour)
