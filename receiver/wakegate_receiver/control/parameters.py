"""Parameters: what may stand in a path and behind its question mark, read strictly."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from wakegate_receiver.control.answers import ControlRefused
from wakegate_receiver.control.numbering import LIMIT
from wakegate_schema.states import State

MOST_LISTED: Final = 500
"""The most calls in a page."""
LONGEST_WAIT_S: Final = 60
"""The longest that a request waits, in seconds."""

_VISIBLE: Final = "[!-~]{1,255}"
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MOST_FIELDS: Final = 16


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a query."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """Its JSON Schema."""
    pattern: str
    """What its text must match."""
    read: Callable[[str], Any] = str
    """Reads what matches. Raises ValueError."""


STATE: Final = Parameter(
    "state",
    "Only calls in this state.",
    {"type": "string", "enum": [state.value for state in State]},
    "|".join(State),
    State,
)
GROUP: Final = Parameter("group", "Only calls of this group.", {"type": "string", "pattern": f"^{_VISIBLE}$"}, _VISIBLE)
BEFORE: Final = Parameter(
    "before",
    "Where the page before ended: its `next`.",
    {"type": "integer", "minimum": 0, "exclusiveMaximum": LIMIT},
    "[0-9]{1,16}",
    int,
)
COUNT: Final = Parameter(
    "limit",
    "The most calls in the page; there may be fewer although `next` says that more follow.",
    {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": 100},
    "[1-9][0-9]?|[1-4][0-9]{2}|500",
    int,
)
UNLIKE: Final = Parameter(
    "unlike",
    "A version (the `id` of an answer): wait until the call's is another one.",
    {"type": "string", "pattern": f"^{_VISIBLE}$"},
    _VISIBLE,
)
WAIT: Final = Parameter(
    "wait",
    "Seconds to wait for that.",
    {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S, "default": 0},
    r"[1-5]?[0-9](\.[0-9]{1,9})?|60(\.0{1,9})?",
    float,
)
AFTER: Final = Parameter(
    "after",
    "The cursor to resume after; empty for the earliest that is kept. Without it, from now on. `Last-Event-ID` goes"
    " before it.",
    {"type": "string", "maxLength": 64},
    "[!-~]{0,64}",
)


def read_query(query: str, known: Sequence[Parameter]) -> dict[str, Any]:
    """Return the parameters by name.

    Raises:
        ControlRefused: `unknown_parameter`, `repeated_parameter`, `bad_parameter`.
    """
    if not query:
        return {}
    rules, found = {parameter.name: parameter for parameter in known}, {}
    for name, text in _pairs(query):
        if name not in rules:
            shown = name if re.fullmatch("[A-Za-z0-9_-]{1,40}", name) else "?"
            raise ControlRefused(
                "unknown_parameter", f"This path has no parameter {shown}; it has {_names(rules)}.", path=shown
            )
        if name in found:
            raise ControlRefused("repeated_parameter", f"The parameter {name} is there twice.", path=name)
        found[name] = _read(rules[name], text)
    return found


def read_segment(segment: str) -> str:
    """Return one part of a path in clear. Raises `ControlRefused`: `malformed_path`."""
    if not segment.isascii() or _BAD_ESCAPE.search(segment):
        raise ControlRefused("malformed_path")
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise ControlRefused("malformed_path") from None


def _pairs(query: str) -> list[tuple[str, str]]:
    if query.isascii() and not _BAD_ESCAPE.search(query):
        try:
            return parse_qsl(
                query, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MOST_FIELDS
            )
        except ValueError:
            pass
    raise ControlRefused("bad_parameter", "What stands behind the question mark is not NAME=VALUE&…, percent-encoded.")


def _read(parameter: Parameter, text: str) -> Any:
    if re.fullmatch(parameter.pattern, text) is None:
        raise ControlRefused(
            "bad_parameter",
            f"The parameter {parameter.name} is not what it must be; see /v1/openapi.json.",
            path=parameter.name,
        )
    return parameter.read(text)


def _names(rules: Mapping[str, Parameter]) -> str:
    return ", ".join(rules) or "none"
