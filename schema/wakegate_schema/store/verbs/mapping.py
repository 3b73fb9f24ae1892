"""From rows to records, and how many of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any, Final, TypeVar

from wakegate_schema.records import Execution, Told, Transition, Wake
from wakegate_schema.states import State
from wakegate_schema.store.transaction import Row

LAST = 2**63 - 1
"""No row has a later number."""
MANY = 20
"""The most records that the beginning of an id is answered with."""

_T = TypeVar("_T")
_Pick = Callable[[Row], tuple[Any, ...]]

_NAMES: dict[type[Any], tuple[str, ...]] = {}
_PICKS: dict[tuple[type[Any], bool, tuple[str, ...]], _Pick] = {}
_STATES: Final[Mapping[str | None, State | None]] = {None: None, **{str(state): state for state in State}}


def record(kind: type[_T], row: Row) -> _T:
    """Make a record from the columns that bear its fields' names."""
    return kind(*_picker(kind, row)(row))


def execution(row: Row) -> Execution:
    """Make an execution of its row."""
    return executions([row])[0]


def executions(rows: Sequence[Row]) -> list[Execution]:
    """Make executions of the rows of one answer."""
    return _with_states(Execution, rows, "state")


def transition(row: Row) -> Transition:
    """Make a transition of its row."""
    return _with_states(Transition, [row], "from_state", "to_state")[0]


def told(row: Row) -> Told:
    """Make a line of the log of resolutions of its row."""
    return _with_states(Told, [row], "from_state", "to_state")[0]


def wake(row: Row) -> Wake:
    """Make a wake of its row."""
    return wakes([row])[0]


def wakes(rows: Sequence[Row]) -> list[Wake]:
    """Make wakes of the rows of one answer."""
    return _with_states(Wake, rows, "to_state")


def _with_states(kind: type[_T], rows: Sequence[Row], *states: str) -> list[_T]:
    if not rows:
        return []
    pick, places = _picker(kind, rows[0]), [_names(kind).index(name) for name in states]
    made = []
    for row in rows:
        values = list(pick(row))
        for place in places:
            values[place] = _STATES[values[place]]
        made.append(kind(*values))
    return made


def _picker(kind: type[Any], row: Row) -> _Pick:
    """Return what takes the values of a record's fields from the rows of an answer, given one of them.

    In SQLite's rows a place is found sooner than a name.
    """
    columns = tuple(row.keys())
    is_mapping = isinstance(row, Mapping)
    found = _PICKS.get((kind, is_mapping, columns))
    if found is None:
        names = _names(kind)
        found = itemgetter(*(names if is_mapping else map(columns.index, names)))
        _PICKS[kind, is_mapping, columns] = found
    return found


def _names(kind: type[Any]) -> tuple[str, ...]:
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in fields(kind))
    return _NAMES[kind]
