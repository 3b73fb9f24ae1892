"""The kinds of field that AAP's objects are made of."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, StringConstraints, ValidationInfo, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from wakegate_schema import ids, strict_json, timestamps, urls
from wakegate_schema.errors import WakegateError
from wakegate_schema.signing import SigningSecret
from wakegate_schema.strict_json import JsonObject
from wakegate_schema.wire.base import FROM_WIRE

T = TypeVar("T")


def fault(reason: str, field: str = "") -> PydanticCustomError:
    """Return the error by which a validator names what is wrong, and never the value.

    Args:
        reason: one of `object_from`'s reasons.
        field: for a rule over a whole object, the path of the field at fault.
    """
    return PydanticCustomError(reason, "refused", {"field": field})


def _checked(check: Callable[[str], Any], reason: str) -> Callable[[str], str]:
    def validate(text: str) -> str:
        try:
            check(text)
        except WakegateError:
            raise fault(reason) from None
        return text

    return validate


def _uuid(text: str) -> str:
    try:
        return ids.parse(text)
    except ids.MalformedId:
        raise fault("bad_uuid") from None


def _secret(value: Any) -> SigningSecret:
    if isinstance(value, SigningSecret):
        return value
    if not isinstance(value, str):
        raise fault("wrong_type")
    try:
        return SigningSecret.parse(value)
    except WakegateError:
        raise fault("bad_secret") from None


def _code(text: str) -> str:
    if len(text) > 100 or _CODE.fullmatch(text) is None:
        raise fault("bad_code")
    return text


def _not_null(value: Any, info: ValidationInfo) -> Any:
    if value is None and info.context == FROM_WIRE:
        raise fault("null")
    return value


def _described(kind: str, pattern: str) -> dict[str, Any]:
    """Return how JSON Schema says what the validator checks."""
    return {"type": "string", "format": kind, "pattern": f"^{pattern}$"}


class _FreeForm:
    """Keeps an object exactly: no value is converted, and what the maker changes later does not reach it."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            raise fault("null" if value is None else "wrong_type")
        if info.context == FROM_WIRE:
            return value
        try:
            return strict_json.parse(strict_json.dumps(value, max_depth=strict_json.MAX_DEPTH - 1))
        except strict_json.MalformedJson:
            raise fault("wrong_type") from None


_CODE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")

Uuid = Annotated[str, AfterValidator(_uuid), WithJsonSchema(_described("uuid", ids.PATTERN))]
Timestamp = Annotated[
    str,
    AfterValidator(_checked(timestamps.parse, "bad_timestamp")),
    WithJsonSchema(_described("date-time", timestamps.PATTERN)),
]
Duration = Annotated[str, AfterValidator(_checked(timestamps.duration, "bad_duration"))]
WebhookUrl = Annotated[str, AfterValidator(_checked(urls.webhook_url, "bad_url"))]
Secret = Annotated[SigningSecret, BeforeValidator(_secret)]
Code = Annotated[str, AfterValidator(_code)]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]
if TYPE_CHECKING:
    FreeForm: TypeAlias = JsonObject
else:  # JsonValue refers to itself, which pydantic would try to resolve
    FreeForm = Annotated[dict, _FreeForm()]
Optional = Annotated[T | None, BeforeValidator(_not_null)]
"""A field that may be absent; an explicit null is refused on the wire and means absence in Python."""
