"""A quick way to read small objects, made of the wire types themselves, for where many come in.

It says whether an object is what its type wants, never why not: `object_from` does.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from wakegate_schema import ids, timestamps
from wakegate_schema.errors import WakegateError
from wakegate_schema.strict_json import JsonObject
from wakegate_schema.wire.base import WireModel
from wakegate_schema.wire.fields import Timestamp, Uuid

Reading = Callable[[JsonObject], dict[str, Any] | None]


def quick(model: type[WireModel]) -> Reading:
    """Return what reads an object that strict_json parsed as a type whose fields are ids, times and constants.

    It gives ids in lower case and times in µs since the Unix epoch, by the fields' names; None exactly where
    `object_from` refuses. Raises TypeError for a type with other fields.
    """
    checks = {name: _check(field.annotation, field.metadata) for name, field in model.model_fields.items()}
    names = checks.keys()
    pairs = tuple(checks.items())

    def read(value: JsonObject) -> dict[str, Any] | None:
        if value.keys() != names:
            return None
        try:
            return {name: check(value[name]) for name, check in pairs}
        except (WakegateError, TypeError, AttributeError):  # the latter two for what is no text
            return None

    return read


def _check(annotation: Any, metadata: list[Any]) -> Callable[[Any], Any]:
    """Return what reads one field; it raises TypeError or one of our own errors for another value."""
    if metadata == list(get_args(Uuid)[1:]):
        return ids.parse
    if metadata == list(get_args(Timestamp)[1:]):
        return timestamps.parse
    if get_origin(annotation) is Literal and all(type(word) is str for word in get_args(annotation)):
        return _Constant(get_args(annotation))
    raise TypeError(f"{annotation} is no id, no time and no constant text")


class _Constant:
    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words

    def __call__(self, value: Any) -> Any:
        if type(value) is not str or value not in self._words:
            raise TypeError
        return value
