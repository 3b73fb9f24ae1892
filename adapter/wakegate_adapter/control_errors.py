"""Refusals of the control API, as the errors that the store itself raises."""

from collections.abc import Mapping
from typing import Any, Final

from wakegate_adapter.errors import ControlRefused, ControlUnavailable
from wakegate_schema.calls import CallRefused, InstanceUnclear
from wakegate_schema.errors import WakegateError
from wakegate_schema.store import KeyConflict, NotAllowed, NotFound, UnstorableValue

_BAD_REQUEST: Final = 400
_CONFLICT: Final = 409
_TOO_SOON: Final = frozenset({408, 429})
_SERVER: Final = 500
_BY_REASON: Final[Mapping[str, tuple[int, type[WakegateError]]]] = {
    InstanceUnclear.reason: (_BAD_REQUEST, InstanceUnclear),
    NotFound.reason: (404, NotFound),
    KeyConflict.reason: (_CONFLICT, KeyConflict),
    UnstorableValue.reason: (_BAD_REQUEST, UnstorableValue),
}
"""Reasons that are one error's own, and the status each has."""


def refused_by(status: int, value: Mapping[str, Any]) -> WakegateError:
    """Return the error that a refusal means.

    Args:
        status: the answer's.
        value: its body: `reason` and `message`, and `path` where a part of the request is at fault.
    """
    reason, message, path = (value.get(name) for name in ("reason", "message", "path"))
    if not (isinstance(reason, str) and isinstance(message, str) and reason and status >= _BAD_REQUEST):
        return not_understood(f"status {status} without a reason")
    if status in _TOO_SOON or status >= _SERVER:
        return ControlUnavailable(f"the receiver could not do it now: {message}", reason=reason)
    expected, error = _BY_REASON.get(reason, (0, WakegateError))
    if status == expected:
        return error(message, reason=reason)
    if status == _CONFLICT:
        return NotAllowed(message, reason=reason)
    if isinstance(path, str):
        return CallRefused(path, message.removeprefix(f"{path}: "), reason=reason)
    return ControlRefused(f"the receiver refuses this harness: {message}", reason=reason)


def not_understood(why: str) -> ControlUnavailable:
    """Return the error of an answer that permits nothing, because nobody can say what it means."""
    return ControlUnavailable(f"the receiver's answer is not understood: {why}", reason="control_answer")
