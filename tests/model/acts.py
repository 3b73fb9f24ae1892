"""Acts: the rules of the machine, each with a weight, chosen among those that can happen now.

Hypothesis leaves out part of the rules in every run; that finds much in machines whose rules are alike, and little in
one where a call needs most of them to get anywhere. So the machine has one rule, and the choice is made here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

_F = TypeVar("_F", bound=Callable[..., None])
Strategies = dict[str, Any]
"""By parameter: a strategy, or what gives the values to choose from when the machine is given to it."""


@dataclass(frozen=True)
class Act:
    """One thing that can happen."""

    name: str
    weight: int
    parameters: Strategies

    def options(self, machine: Any) -> dict[str, st.SearchStrategy[Any]] | None:
        """What to draw for every parameter now; None when there is nothing to choose from."""
        found = {}
        for name, parameter in self.parameters.items():
            if callable(parameter) and not isinstance(parameter, st.SearchStrategy):
                values = parameter(machine)
                if not values:
                    return None
                found[name] = st.sampled_from(values)
            else:
                found[name] = parameter
        return found


def act(weight: int, **parameters: Any) -> Callable[[_F], _F]:
    """Make a method of the machine something that can happen, this often in proportion."""

    def mark(method: _F) -> _F:
        method.__dict__["act"] = Act(method.__name__, weight, parameters)
        return method

    return mark


def acts_of(machine: type) -> list[Act]:
    """Everything that can happen to a machine."""
    return [found for method in vars(machine).values() if isinstance(found := getattr(method, "act", None), Act)]


class Chosen:
    """What happens now."""

    def __init__(self, name: str, chosen: dict[str, Any]) -> None:
        self.name, self.chosen = name, chosen

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.chosen.items())})"


@st.composite
def choices(draw: st.DrawFn) -> Chosen:
    """Choose what happens now to the machine that draws, and with what."""
    machine = draw(st.runner())
    possible = {found.name: options for found in machine.acts if (options := found.options(machine)) is not None}
    often = {found.name: machine.focus.weights.get(found.name, found.weight) for found in machine.acts}
    weighted = [found for found in possible for _ in range(often[found])]
    name = draw(st.sampled_from(weighted or ["wait"]))
    return Chosen(name, {key: draw(found) for key, found in possible[name].items()})
