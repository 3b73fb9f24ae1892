"""From rows to records, and how many of them."""

from dataclasses import fields
from typing import Any, TypeVar

from wakegate_schema.records import Execution, Told, Transition, Wake
from wakegate_schema.states import State
from wakegate_schema.store.transaction import Row

LAST = 2**63 - 1
"""No row has a later number."""
MANY = 20
"""The most records that the beginning of an id is answered with."""

_T = TypeVar("_T")
_NAMES: dict[type[Any], tuple[str, ...]] = {}


def record(kind: type[_T], row: Row) -> _T:
    """Make a record from the columns that bear its fields' names."""
    return kind(**{name: row[name] for name in _names(kind)})


def execution(row: Row) -> Execution:
    """Make an execution of its row."""
    return _with_states(Execution, row, "state")


def transition(row: Row) -> Transition:
    """Make a transition of its row."""
    return _with_states(Transition, row, "from_state", "to_state")


def told(row: Row) -> Told:
    """Make a line of the log of resolutions of its row."""
    return _with_states(Told, row, "from_state", "to_state")


def wake(row: Row) -> Wake:
    """Make a wake of its row."""
    return _with_states(Wake, row, "to_state")


def _with_states(kind: type[_T], row: Row, *states: str) -> _T:
    values: dict[str, Any] = {name: row[name] for name in _names(kind)}
    for name in states:
        values[name] = None if values[name] is None else State(values[name])
    return kind(**values)


def _names(kind: type[Any]) -> tuple[str, ...]:
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in fields(kind))
    return _NAMES[kind]
