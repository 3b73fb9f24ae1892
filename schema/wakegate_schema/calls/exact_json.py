"""Exact JSON: a harness's values as the bytes that are saved, approved, run and given back, or a clear refusal.

What is written is what the standard library's `json` writes: plain values, their subclasses, and tuples as arrays.
Refused is what is not JSON (NaN, Infinity, Decimal, sets, keys that are no strings, half surrogate pairs) and what no
peer could read back.
"""

import json
import math
from typing import Any, Final

from wakegate_schema.errors import WakegateError
from wakegate_schema.strict_json import MAX_DIGITS

MAX_DEPTH: Final = 60
"""How many objects and arrays may stand inside one another; peers read 64, envelopes included."""
_SHOWN_KEY: Final = 60


class NotJson(WakegateError):
    """The value cannot be saved as JSON."""

    reason = "not_json"

    def __init__(self, path: str, problem: str, reason: str) -> None:
        """Name the place, such as `arguments.items[3].price`, and what is wrong with it; never the value."""
        super().__init__(f"{path}: {problem}", reason=reason)
        self.path = path
        self.problem = problem


def encode(value: object, name: str, *, max_bytes: int) -> bytes:
    """Return a value as compact UTF-8 JSON.

    Args:
        value: what is to be saved.
        name: what to call it in errors, such as `arguments`.
        max_bytes: the longest JSON that is taken.

    Raises:
        NotJson: its reason is one of `not_json`, `too_large`, `too_deep`, `non_finite_number`, `number_too_long`,
            `lone_surrogate`, `duplicate_key`.
    """
    plain = _Copy(name, max_bytes).of(value, name, ())
    data = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(data) > max_bytes:
        raise _too_large(name, max_bytes)
    return data


class _Copy:
    """Copies a value into plain lists, dicts and scalars, so that what was checked is what is written."""

    def __init__(self, name: str, max_bytes: int) -> None:
        self._name = name
        self._max_bytes = max_bytes
        self._left = max_bytes
        """Every part takes a byte at least, so shared parts cannot multiply for ever."""

    def of(self, value: object, path: str, inside: tuple[int, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _too_large(self._name, self._max_bytes)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _string(value, path)
        if isinstance(value, int):
            return _whole(value, path)
        if isinstance(value, float):
            return _fraction(value, path)
        if isinstance(value, dict | list | tuple):
            return self._container(value, path, inside)
        raise NotJson(path, f"a {type(value).__name__} is not JSON", "not_json")

    def _container(self, value: Any, path: str, inside: tuple[int, ...]) -> Any:
        if id(value) in inside:
            raise NotJson(path, "it contains itself", "too_deep")
        if len(inside) == MAX_DEPTH:
            raise NotJson(path, f"it is nested deeper than {MAX_DEPTH} levels", "too_deep")
        inside = (*inside, id(value))
        if not isinstance(value, dict):
            return [self.of(member, f"{path}[{index}]", inside) for index, member in enumerate(value)]
        plain: dict[str, Any] = {}
        for key, member in value.items():
            if not isinstance(key, str):
                raise NotJson(path, f"a key is a {type(key).__name__}, not a string", "not_json")
            word = _string(key, f"{path} (a key)")
            where = path + _step(word)
            if word in plain:
                raise NotJson(where, "the key is there twice", "duplicate_key")
            plain[word] = self.of(member, where, inside)
        return plain


def _string(value: str, path: str) -> str:
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise NotJson(path, "the text holds half of a surrogate pair", "lone_surrogate") from None
    return plain


def _whole(value: int, path: str) -> int:
    plain = int.__int__(value)
    if abs(plain) >= 10**MAX_DIGITS:
        raise NotJson(path, f"the number has more than {MAX_DIGITS} digits", "number_too_long")
    return plain


def _fraction(value: float, path: str) -> float:
    plain = float.__float__(value)
    if not math.isfinite(plain):
        raise NotJson(path, "NaN and Infinity are not JSON", "non_finite_number")
    return plain


def _step(key: str) -> str:
    if key.isidentifier() and len(key) <= _SHOWN_KEY:
        return f".{key}"
    shown = key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…"
    return f"[{json.dumps(shown)}]"


def _too_large(name: str, max_bytes: int) -> NotJson:
    return NotJson(name, f"it is longer than {max_bytes} bytes of JSON", "too_large")
