"""Messages: what a body says before and after its signature is proved (AAP, webhooks)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from wakegate_receiver.answers import Refused
from wakegate_schema import ids, strict_json
from wakegate_schema.ids import MalformedId
from wakegate_schema.strict_json import JsonObject, MalformedJson
from wakegate_schema.wire import MalformedObject, ResolvedEvent, WireModel, object_from
from wakegate_schema.wire.quick import quick

M = TypeVar("M", bound=WireModel)

VERIFICATION: Final = "webhook.verification"
NOTIFICATION: Final = "request.resolved"


@dataclass(frozen=True, slots=True)
class Message:
    """A body that is JSON and names whose secret must have signed it. Nothing else of it may be believed yet."""

    kind: str
    """`VERIFICATION` or `NOTIFICATION`."""
    selector: str
    """The registration id of a verification, the instance id of a notification; lower case."""
    value: JsonObject = field(repr=False)


def read(body: bytes) -> Message:
    """Read what is needed to choose the secret, and no more.

    Raises:
        Refused: one of strict_json's reasons, `not_an_object`, `unknown_type`, `missing_field`, `wrong_type`
            or `bad_uuid`.
    """
    try:
        value = strict_json.parse(body)
    except MalformedJson as error:
        raise Refused(error.reason, fallback="not_json") from None
    if not isinstance(value, dict):
        raise Refused("not_an_object")
    kind = _text(value, "type")
    selector = _SELECTORS.get(kind)
    if selector is None:
        raise Refused("unknown_type")
    try:
        return Message(kind, ids.parse(_text(value, selector)), value)
    except MalformedId:
        raise Refused("bad_uuid") from None


class Resolved(NamedTuple):
    """What a `request.resolved` message says, its time in µs."""

    id: str
    instance_id: str
    request_id: str
    created_at: int


def resolved(message: Message, message_id: str) -> Resolved:
    """Return what a notification says whose signature was proved; arguments and errors as `complete`."""
    said = _SAID(message.value)
    if said is None or said["id"] != message_id:
        complete(ResolvedEvent, message, message_id)
        raise Refused("malformed_object")  # `complete` has said why
    return Resolved(said["id"], said["instance_id"], said["request_id"], said["created_at"])


def complete(model: type[M], message: Message, message_id: str) -> M:
    """Return the whole object of a message whose signature was proved.

    Args:
        model: what it must be.
        message: from `read`.
        message_id: the `webhook-id` header, lower case, which the body's id must equal.

    Raises:
        Refused: one of `object_from`'s reasons, or `id_mismatch`.
    """
    try:
        event = object_from(model, message.value)
    except MalformedObject as error:
        raise Refused(error.reason, fallback="malformed_object") from None
    if getattr(event, "id", None) != message_id:
        raise Refused("id_mismatch")
    return event


_SAID: Final = quick(ResolvedEvent)
_SELECTORS: Final[Mapping[str, str]] = {VERIFICATION: "registration_id", NOTIFICATION: "instance_id"}


def _text(value: JsonObject, name: str) -> str:
    if name not in value:
        raise Refused("missing_field")
    text = value[name]
    if not isinstance(text, str):
        raise Refused("wrong_type")
    return text
