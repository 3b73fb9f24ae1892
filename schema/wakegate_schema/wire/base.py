"""How every wire object is read and written: strictly, and without ever showing a value in an error."""

import re
from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from wakegate_schema import strict_json
from wakegate_schema.errors import WakegateError
from wakegate_schema.signing import SigningSecret
from wakegate_schema.strict_json import JsonObject, JsonValue, MalformedJson

M = TypeVar("M", bound="WireModel")

FROM_WIRE: Final = "from the wire"
"""The validation context of received objects, where an explicit null is not an absent field."""


class MalformedObject(WakegateError):
    """The object is not what AAP defines."""

    reason = "malformed_object"

    def __init__(self, message: str | None = None, *, reason: str | None = None, field: str = "") -> None:
        """Keep the path of the field at fault, empty for the whole object."""
        super().__init__(message, reason=reason)
        self.field = field


class WireModel(BaseModel):
    """A frozen AAP object: known fields only, no coercion, optional ones None when absent."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )
    nullable: ClassVar[frozenset[str]] = frozenset()
    """Fields where null says something else than absence."""


def parse_object(model: type[M], data: bytes, *, max_bytes: int = strict_json.MAX_BYTES) -> M:
    """Read one object from JSON text.

    Args:
        model: what it must be.
        data: the exact bytes received.
        max_bytes: the longest text read.

    Raises:
        MalformedObject: its reason is one of strict_json's or of `object_from`.
    """
    try:
        value = strict_json.parse(data, max_bytes=max_bytes)
    except MalformedJson as error:
        raise MalformedObject(str(error), reason=error.reason) from None
    return object_from(model, value)


def object_from(model: type[M], value: JsonValue) -> M:
    """Read one object from a value that strict_json parsed.

    Raises:
        MalformedObject: with the path of the first field at fault, never its value, and one of the reasons
            `unknown_field`, `missing_field`, `unexpected_field`, `null`, `wrong_type`, `unknown_value`,
            `empty`, `bad_uuid`, `bad_timestamp`, `bad_duration`, `bad_url`, `bad_secret`, `bad_code`,
            `mismatch`, `not_later`.
    """
    try:
        return model.model_validate(value, context=FROM_WIRE)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
    # Raised out here, so that pydantic's error, which holds the input, is not carried along.
    raise _malformed(fault["type"], fault["loc"], fault.get("ctx", {}))


def object_value(model: WireModel) -> JsonObject:
    """Return an object's present fields as JSON values, secrets in clear."""
    result: JsonObject = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if value is not None or (name in model.nullable and name in model.model_fields_set):
            result[name] = _plain(value)
    return result


def object_bytes(model: WireModel) -> bytes:
    """Write an object as compact JSON without its absent fields, secrets in clear."""
    return strict_json.dumps(object_value(model))


_REASONS: Final = {
    "extra_forbidden": "unknown_field",
    "literal_error": "unknown_value",
    "missing": "missing_field",
    "string_too_short": "empty",
}
"""pydantic's own kinds of fault; whatever is neither here nor in `_SAID` is a wrong type."""
_SAID: Final = {
    "unknown_field": "is not defined by AAP",
    "missing_field": "is missing",
    "unexpected_field": "must be absent here",
    "null": "is null, where AAP defines none",
    "wrong_type": "has the wrong type",
    "unknown_value": "has a value AAP does not define",
    "empty": "is empty",
    "bad_uuid": "is not a UUID",
    "bad_timestamp": "is not an RFC 3339 UTC timestamp",
    "bad_duration": "is not a duration such as 30m",
    "bad_url": "is not a URL that may be used",
    "bad_secret": "is not a signing secret that may be used",
    "bad_code": "is not an error code",
    "mismatch": "does not agree with the rest of the object",
    "not_later": "is not later than it must be",
}
_SHOWABLE: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


def _malformed(kind: str, path: tuple[int | str, ...], context: dict[str, Any]) -> MalformedObject:
    reason = kind if kind in _SAID else _REASONS.get(kind, "wrong_type")
    names = [str(name) for name in (*path, *(context.get("field") or "").split("."))]
    # An unknown field's name is the sender's text: shown only when it looks like a field's name.
    field = ".".join(name if _SHOWABLE.fullmatch(name) else "?" for name in names if name)
    return MalformedObject(f"{field or 'The object'} {_SAID[reason]}.", reason=reason, field=field)


def _plain(value: Any) -> JsonValue:
    if isinstance(value, WireModel):
        return object_value(value)
    if isinstance(value, SigningSecret):
        return value.reveal()
    plain: JsonValue = value
    return plain
