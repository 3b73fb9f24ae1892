"""The receiver's webhooks as OpenAPI 3.1, made of the types, the header rules and the answers.

`python -m wakegate_receiver.openapi` writes it; `schema/openapi/receiver.json` is a copy of what that writes.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any, Final

from wakegate_receiver.answers import ANSWERS, Answer
from wakegate_receiver.messages import NOTIFICATION, VERIFICATION
from wakegate_schema import ids, signing
from wakegate_schema.settings import Settings
from wakegate_schema.wire import Challenge, ResolvedEvent, VerificationEvent, WireModel

Node = dict[str, Any]
"""A part of the document."""


def document() -> Node:
    """Return the whole document as JSON values: one path, and the two messages as webhooks.

    The path is the settings' default.
    """
    events_path: str = Settings.model_fields["events_path"].default
    bodies = {kind: _reference("schemas", model) for kind, model in _MODELS.items()}
    either = {
        "oneOf": list(bodies.values()),
        "discriminator": {"propertyName": "type", "mapping": {kind: body["$ref"] for kind, body in bodies.items()}},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wakegate receiver",
            "version": "1",
            "summary": "Takes the signed webhooks of an approval provider (AAP version 1).",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {events_path: {"post": _operation("deliver", _DELIVER, either, _accepted(*bodies))}},
        "webhooks": {
            kind: {"post": _operation(name, summary, bodies[kind], _accepted(kind))}
            for kind, name, summary in (
                (NOTIFICATION, "notify", "Say that a request has a decision."),
                (VERIFICATION, "verify", "Ask whether a registration is expected."),
            )
        },
        "components": {
            "schemas": _schemas(),
            "parameters": {name: _parameter(name, *rule) for name, rule in _HEADERS.items()},
            "headers": {"Retry-After": _RETRY_AFTER},
            "responses": {**_acceptances(), **{_name(status): _refusals(status) for status in _refused()}},
        },
    }


def text() -> str:
    """Return the document as it is kept in a file."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


_MODELS: Final[dict[str, type[WireModel]]] = {NOTIFICATION: ResolvedEvent, VERIFICATION: VerificationEvent}
_DESCRIPTION: Final = (
    "Messages are signed as Standard Webhooks has it, with HMAC-SHA256 over `webhook-id`, a full stop,"
    " `webhook-timestamp`, a full stop, and the exact bytes of the body. The key is the base64-decoded part of the"
    f" registration's `whsec_` secret. A timestamp may be {signing.TOLERANCE_S} seconds off, either way. A refusal's"
    " body names its reason; every 401 says `unauthenticated`, whatever was wrong, and the examples' names are the"
    " reasons that the receiver's operator sees. Which refusal is given where several fit is said in docs/answers.md."
)
_DELIVER: Final = "Deliver a message; both kinds come to the same path."
_HEADERS: Final[dict[str, tuple[str, Node]]] = {
    "webhook-id": (
        "The message's id, which the body's `id` equals; retries have the same.",
        {"type": "string", "format": "uuid", "pattern": f"^{ids.PATTERN}$"},
    ),
    "webhook-timestamp": (
        "Unix seconds of this attempt.",
        {"type": "string", "pattern": f"^{signing.TIMESTAMP_PATTERN}$"},
    ),
    "webhook-signature": (
        "Signatures, separated by blanks; one `v1,` and the base64 of the right HMAC is enough.",
        {"type": "string", "minLength": 1, "maxLength": signing.MAX_SIGNATURE_HEADER, "pattern": "[^ \\t]"},
    ),
}
_RETRY_AFTER: Final[Node] = {
    "description": "Seconds after which to come again.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1, "maximum": 5},
}
_ACCEPTED: Final = {NOTIFICATION: 204, VERIFICATION: 200}


def _operation(name: str, summary: str, body: Node, accepted: Node) -> Node:
    refused = {str(status): _reference("responses", _name(status)) for status in _refused()}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [_reference("parameters", name) for name in _HEADERS],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": dict(sorted({**accepted, **refused}.items())),
    }


def _schemas() -> Node:
    """Return the JSON Schemas of the types; a title would only repeat the name."""
    models: list[type[WireModel]] = [*_MODELS.values(), Challenge]
    return {model.__name__: _untitled(model.model_json_schema()) for model in models}


def _untitled(schema: Node) -> Node:
    fields = {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in schema["properties"].items()
    }
    return {key: value for key, value in schema.items() if key != "title"} | {"properties": fields}


def _parameter(name: str, description: str, schema: Node) -> Node:
    return {"name": name, "in": "header", "required": True, "description": description, "schema": schema}


def _accepted(*kinds: str) -> Node:
    return {str(_ACCEPTED[kind]): _reference("responses", _name(_ACCEPTED[kind])) for kind in kinds}


def _acceptances() -> Node:
    challenge = {"application/json": {"schema": _reference("schemas", Challenge)}}
    return {
        _name(200): {
            "description": "The registration is expected and bound; the challenge comes back exactly as it was sent.",
            "content": challenge,
        },
        _name(204): {"description": "The notification is on disk now, was before, or is discarded on purpose."},
    }


def _refused() -> list[int]:
    return sorted({answer.status for answer in ANSWERS.values() if answer.status is not None})


def _refusals(status: int) -> Node:
    """Return the response of one status: its reasons, each with its situation and its body."""
    given = {reason: answer for reason, answer in ANSWERS.items() if answer.status == status}
    told = {reason: answer.told or reason for reason, answer in given.items()}
    schema: Node = {
        "type": "object",
        "properties": {"reason": {"type": "string", "enum": list(dict.fromkeys(told.values()))}},
        "required": ["reason"],
        "additionalProperties": False,
    }
    examples = {
        reason: {"summary": answer.situation, "value": {"reason": told[reason]}} for reason, answer in given.items()
    }
    response: Node = {
        "description": f"Refused: {', '.join(f'`{reason}`' for reason in given)}.",
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }
    if headers := _response_headers(status, given.values()):
        response["headers"] = headers
    return response


def _response_headers(status: int, answers: Iterable[Answer]) -> Node:
    if status == 405:
        return {"Allow": {"required": True, "schema": {"const": "POST"}}}
    if all(answer.retry_after is not None for answer in answers):
        return {"Retry-After": _reference("headers", "Retry-After")}
    return {}


def _name(status: int) -> str:
    return f"answer-{status}"


def _reference(kind: str, name: str | type) -> Node:
    return {"$ref": f"#/components/{kind}/{name if isinstance(name, str) else name.__name__}"}


if __name__ == "__main__":
    sys.stdout.write(text())
