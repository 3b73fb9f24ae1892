"""JSON read and written exactly, under limits of its own that no interpreter setting moves."""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any, Final, Never, TypeAlias, TypeGuard, TypeVar

from wakegate_schema.errors import WakegateError

JsonValue: TypeAlias = bool | int | Decimal | str | list["JsonValue"] | dict[str, "JsonValue"] | None
JsonObject: TypeAlias = dict[str, JsonValue]
N = TypeVar("N", int, Decimal)
Write: TypeAlias = Callable[[str], object]

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 64
MAX_NUMBER: Final = 640
"""Characters in one number: the longest that Python converts under every `PYTHONINTMAXSTRDIGITS`."""
MAX_DIGITS: Final = 600
"""Digits in one number, so that whatever was read can be written within `MAX_NUMBER`."""
MAX_EXPONENT: Final = 1_000
"""Powers of ten between a number and 1, either way, so that comparing stays cheap."""


class MalformedJson(WakegateError):
    """The text is not JSON as it is accepted here."""

    reason = "not_json"


def parse(data: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> JsonValue:
    """Read one JSON text.

    Args:
        data: UTF-8 without a byte order mark.
        max_bytes: the longest text read.
        max_depth: how many arrays and objects may stand inside one another, below 200.

    Returns:
        The value: whole numbers as int, every other number as Decimal, never a float.

    Raises:
        MalformedJson: its reason is one of `too_large`, `bom`, `not_utf8`, `too_deep`, `lone_surrogate`,
            `duplicate_key`, `non_finite_number`, `number_too_long`, `not_json`.
    """
    if len(data) > max_bytes:
        raise MalformedJson(f"The JSON text is longer than {max_bytes} bytes.", reason="too_large")
    text = _decode(data)
    opening = data.count(b"[") + data.count(b"{")
    if opening > max_depth and _depth(data) > max_depth:
        raise MalformedJson(f"The JSON is nested deeper than {max_depth} levels.", reason="too_deep")
    if b"\\u" in data and any(escape[1] for escape in _ESCAPE.finditer(text)):
        raise MalformedJson("The JSON holds half of a surrogate pair.", reason="lone_surrogate")
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        position = error.pos
    else:
        return value
    # Raised out here, so that the decoder's error, which holds the whole text, is not carried along.
    raise MalformedJson(f"The text is not JSON at character {position}.")


def dumps(value: object, *, max_depth: int = MAX_DEPTH) -> bytes:
    """Write a value as compact UTF-8 JSON, every number digit by digit.

    Args:
        value: None, bool, int, Decimal, finite float, str, and lists and str-keyed dicts of them.
        max_depth: how many lists and dicts may stand inside one another; a loop ends here too.

    Raises:
        MalformedJson: its reason is one of `too_deep`, `lone_surrogate`, `non_finite_number`,
            `number_too_long`, `not_json`.
    """
    parts: list[str] = []
    _write(value, parts.append, max_depth)
    try:
        return "".join(parts).encode()
    except UnicodeEncodeError:
        pass
    raise MalformedJson("A string holds half of a surrogate pair.", reason="lone_surrogate")


def equal(a: object, b: object) -> bool:
    """Say whether two values are the same JSON: kinds kept apart, numbers by exact value.

    `49` is `49.0` but neither `"49"` nor `true`; `-0` is `0`; the order of an object's keys is irrelevant.
    What `parse` never returns, floats included, equals nothing. (DESIGN, "The start, step by step", 3.)
    """
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, str):
        return isinstance(b, str) and a == b
    if _is_number(a):
        return _is_number(b) and a == b
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    return False


_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or one that never ends: always a match, so the scan stays linear."""
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
"""One escape: a whole surrogate pair, or half of one (group 1), or anything else."""


def _decode(data: bytes) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise MalformedJson("The JSON begins with a byte order mark.", reason="bom")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise MalformedJson("The JSON is not UTF-8.", reason="not_utf8")


def _depth(data: bytes) -> int:
    """Return the deepest nesting, exact up to the first place where the text stops being JSON."""
    deepest = depth = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS):
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise MalformedJson("An object has the same key twice.", reason="duplicate_key")
    return result


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER:
        raise _too_long()
    return _bounded(int(text))


def _decimal(text: str) -> Decimal:
    exponent = text.lower().partition("e")[2]
    if len(text) > MAX_NUMBER or (exponent and abs(int(exponent)) > MAX_EXPONENT + MAX_NUMBER):
        raise _too_long()
    return _bounded(Decimal(text))


def _bounded(number: N) -> N:
    if isinstance(number, int):
        fits = abs(number) < 10**MAX_DIGITS
    else:
        fits = len(number.as_tuple().digits) <= MAX_DIGITS and abs(number.adjusted()) <= MAX_EXPONENT
    if not fits:
        raise _too_long()
    return number


def _constant(_text: str) -> Never:
    raise _not_finite()


def _too_long() -> MalformedJson:
    return MalformedJson(
        f"A number has more than {MAX_DIGITS} digits or an exponent beyond {MAX_EXPONENT}.",
        reason="number_too_long",
    )


def _not_finite() -> MalformedJson:
    return MalformedJson("NaN and Infinity are not JSON.", reason="non_finite_number")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_decimal, parse_constant=_constant
)


def _is_number(value: object) -> TypeGuard[int | Decimal]:
    if isinstance(value, Decimal):
        return value.is_finite()
    return isinstance(value, int) and not isinstance(value, bool)


_quote = json.encoder.encode_basestring


def _write(value: object, write: Write, depth: int) -> None:
    if isinstance(value, str):
        write(_quote(value))
    elif value is None:
        write("null")
    elif isinstance(value, bool):
        write("true" if value else "false")
    elif isinstance(value, int | float | Decimal):
        write(_digits(value))
    elif isinstance(value, dict | list):
        if depth == 0:
            raise MalformedJson("The value is nested too deep to write.", reason="too_deep")
        (_write_object if isinstance(value, dict) else _write_array)(value, write, depth - 1)
    else:
        raise MalformedJson(f"A {type(value).__name__} cannot be written as JSON.")


def _write_object(value: Any, write: Write, depth: int) -> None:
    separator = "{"
    for key, member in value.items():
        if not isinstance(key, str):
            raise MalformedJson(f"An object's key is a {type(key).__name__}, not a string.")
        write(f"{separator}{_quote(key)}:")
        _write(member, write, depth)
        separator = ","
    write("}" if value else "{}")


def _write_array(value: Any, write: Write, depth: int) -> None:
    separator = "["
    for member in value:
        write(separator)
        _write(member, write, depth)
        separator = ","
    write("]" if value else "[]")


def _digits(number: float | Decimal) -> str:
    if isinstance(number, int):
        return int.__repr__(_bounded(number))
    if not (number.is_finite() if isinstance(number, Decimal) else isfinite(number)):
        raise _not_finite()
    return str(_bounded(number)) if isinstance(number, Decimal) else float.__repr__(number)
