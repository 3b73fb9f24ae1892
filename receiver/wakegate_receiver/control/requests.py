"""Requests: the bodies that the control API takes, read strictly, every number exactly."""

import math
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from wakegate_receiver.control.answers import ANSWERS, ControlRefused
from wakegate_receiver.control.numbering import LIMIT
from wakegate_receiver.control.parameters import MOST_LISTED
from wakegate_schema import strict_json
from wakegate_schema.calls.call import ARGUMENTS_LIMIT, CONTEXT_LIMIT
from wakegate_schema.calls.checks import LONGEST_HOLD_S
from wakegate_schema.strict_json import JsonValue, MalformedJson
from wakegate_schema.wire.base import MalformedObject, WireModel, object_from
from wakegate_schema.wire.fields import fault

MAX_BODY_BYTES: Final = strict_json.MAX_BYTES
"""The largest body that is read: 1 MiB."""

R = TypeVar("R", bound=WireModel)


def _seconds(value: Any) -> float:
    """Accept a JSON number that is a time."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise fault("wrong_type")
    return float(value) if -1_000_000 < value < 1_000_000 else math.inf


def _object(value: Any, info: ValidationInfo) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise fault("wrong_type")
    plain: dict[str, Any] = exact(value, str(info.field_name))
    return plain


def _anything(value: Any, info: ValidationInfo) -> Any:
    return exact(value, str(info.field_name))


JsonObjectField: TypeAlias = Annotated[
    dict[str, Any], BeforeValidator(_object), WithJsonSchema({"type": "object", "additionalProperties": True})
]
Seconds: TypeAlias = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_HOLD_S}),
]
Word: TypeAlias = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[!-~]{1,255}$"})]
"""Visible ASCII; the verb that takes it says what is wrong with another."""
Name: TypeAlias = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 255})]
Number: TypeAlias = Annotated[int, Field(ge=1, lt=2**53)]
Token: TypeAlias = Annotated[str, Field(max_length=255)]
MachineWord: TypeAlias = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,63}$")]


class HoldRequest(WireModel):
    """A hold: somebody waits for the call and says so again and again; when that stops, the call is given up."""

    id: Word = Field(description="The waiter's choice, 1 to 255 visible ASCII characters.")
    seconds: Seconds = Field(description="How long the hold lasts without being renewed.")


class SuspendRequest(WireModel):
    """A call to be saved, approved and run. Only `group` and `version` may be left out of what names the call."""

    tool: Name = Field(description="The tool's name, 1 to 255 printable characters.")
    arguments: JsonObjectField = Field(
        description=f"The tool's arguments, at most {ARGUMENTS_LIMIT // 1024} KiB of JSON and 60 levels.", repr=False
    )
    key: Word = Field(description="The idempotency key: one for each intended call, the same in every repeat.")
    instance: Name | None = Field(default=None, description="Name or id; not needed with one instance in use.")
    timeout: str = Field(
        default="30m",
        description="How long the provider may take to decide: a whole number and s, m or h.",
        json_schema_extra={"pattern": "^[1-9][0-9]*[smh]$"},
    )
    reasoning: str | None = Field(
        default=None, repr=False, description="Why the agent wants it, for the approver; at most 16 KiB."
    )
    context: JsonObjectField | None = Field(
        default=None, repr=False, description=f"For the approver, at most {CONTEXT_LIMIT // 1024} KiB of JSON."
    )
    group: Word | None = Field(default=None, description="The agent turn that the call belongs to.")
    version: Word | None = Field(default=None, description="The tool's version that the call was made for.")
    runs: Literal["worker", "harness"] = Field(
        default="worker", description="Who runs the call: the worker's registered tool, or the harness by a claim."
    )
    wake: Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,62}$"})] = Field(
        default="none", description="The operator's name of the wake target."
    )
    hold: HoldRequest | None = Field(default=None, description="Who waits for the call, if somebody does.")


class ClaimRequest(WireModel):
    """A claim of a permitted call."""

    claim_id: Word = Field(description="The claimer's choice, new for each claim; the same in every repeat of it.")


class AttemptRequest(WireModel):
    """A word from whoever runs a claimed call."""

    number: Number = Field(description="The attempt's number, from the claim.")
    token: Token = Field(description="The attempt's token, from the claim.", repr=False)


class FinishRequest(AttemptRequest):
    """How a claimed call ended."""

    outcome: Literal["succeeded", "failed", "in_doubt", "not_begun"] = Field(
        description="`failed`: it is known not to have happened. `in_doubt`: nobody knows. `not_begun`: nothing was"
        " begun."
    )
    result: Annotated[Any, BeforeValidator(_anything), WithJsonSchema({})] = Field(
        default=None, repr=False, description="What the tool returned; over 256 KiB of JSON it is left out."
    )
    error: str | None = Field(default=None, description="One line about it, at most 500 characters are kept.")
    reason: MachineWord | None = Field(default=None, description="A machine word for the records.")


class AbandonRequest(WireModel):
    """A call to be given up."""

    reason: Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 255})] = Field(
        description="Why, 1 to 255 printable characters."
    )


class SealRequest(WireModel):
    """A group to be sealed."""

    instance: Name | None = Field(default=None, description="Name or id; not needed with one instance in use.")
    after: Annotated[int, Field(ge=0, lt=LIMIT)] | None = Field(
        default=None, description="Where the page before ended: its `next`."
    )
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = Field(
        default=100, description="The most calls in the page; there may be fewer although `next` says that more follow."
    )


def read(model: type[R], body: bytes) -> R:
    """Read one request's body.

    Raises:
        ControlRefused: it is not JSON, or not this object; the path names the part at fault.
    """
    try:
        return object_from(model, strict_json.parse(body, max_bytes=MAX_BODY_BYTES))
    except MalformedJson as error:
        raise ControlRefused(error.reason, str(error)) from None
    except MalformedObject as error:
        raise _malformed(error) from None


def exact(value: JsonValue, path: str) -> Any:
    """Return a value with every number that is not whole as a double of the same value.

    Raises:
        ControlRefused: `number_not_exact`, with the path of a number that a double does not hold.
    """
    if isinstance(value, Decimal):
        double = float(value)
        if Decimal(repr(double)) != value:
            raise ControlRefused(
                "number_not_exact", f"{path}: a double does not hold this number exactly; send it as text", path=path
            )
        return double
    if isinstance(value, dict):
        return {name: exact(member, f"{path}{_step(name)}") for name, member in value.items()}
    if isinstance(value, list):
        return [exact(member, f"{path}[{index}]") for index, member in enumerate(value)]
    return value


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() and len(name) <= 60 else "[…]"


def _malformed(error: MalformedObject) -> ControlRefused:
    path = error.field or None
    reason = error.reason if error.reason in ANSWERS else "wrong_type"
    if path is None and reason == "wrong_type":
        return ControlRefused("not_an_object")
    return ControlRefused(reason, f"{path or 'The body'} {_SAID.get(reason, _SAID['wrong_type'])}.", path=path)


_SAID: Final = {
    "unknown_field": "is not a field of this request",
    "missing_field": "is missing",
    "wrong_type": "has the wrong type or is out of bounds",
    "unknown_value": "is not one of the words it may be",
}
