"""The control API as OpenAPI 3.1, made of the routes, the types of bodies and answers, and the table of refusals.

`python -m wakegate_receiver.control` writes it; `schema/openapi/control.json` is a copy of what that writes.
"""

import functools
import json
from http import HTTPStatus
from typing import Any, Final

from pydantic import TypeAdapter

from wakegate_receiver.control import shapes
from wakegate_receiver.control.answers import ANSWERS
from wakegate_receiver.control.parameters import Parameter
from wakegate_receiver.control.routes import ROUTES, Route

Node = dict[str, Any]
"""A part of the document."""


def document() -> Node:
    """Return the whole document as JSON values."""
    paths: Node = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths["/v1/openapi.json"] = {"get": _own()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wakegate control API",
            "version": "1",
            "summary": "Harnesses save calls, claim them, and hear what became of them.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
            "headers": {
                "Retry-After": {
                    "description": "Seconds after which to come again.",
                    "schema": {"type": "integer", "minimum": 1, "maximum": 5},
                }
            },
            "responses": {_name(status): _refusals(status) for status in _statuses(ANSWERS)},
        },
    }


@functools.cache
def text() -> str:
    """Return the document as it is kept in a file."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


_DESCRIPTION: Final = (
    "On the control socket the user of the connecting process says which harness asks; a bearer token says it on either"
    " listener. A harness sees its own instances' calls and nothing else: what is not its own is answered as what does"
    " not exist. Every verb may be repeated as it is when its answer was lost. docs/control.md says more."
)
_COMMON: Final = (
    "malformed_http", "unauthenticated", "harness_unknown", "harnesses_unreadable", "wrong_path", "wrong_method",
    "rate_limit", "too_many_requests", "malformed_path", "unknown_parameter", "repeated_parameter", "bad_parameter",
    "request_timeout", "draining", "too_many_connections", "store_unavailable", "store_timeout", "unforeseen",
)  # fmt: skip
_OF_A_BODY: Final = (
    "unsupported_expectation", "body_too_large", "wrong_content_encoding", "wrong_content_type", "wrong_charset",
    "not_json", "bom", "not_utf8", "too_deep", "lone_surrogate", "duplicate_key", "non_finite_number",
    "number_too_long", "not_an_object", "unknown_field", "missing_field", "wrong_type", "unknown_value",
)  # fmt: skip


def reasons_of(route: Route) -> set[str]:
    """Return every reason that a verb may be refused for."""
    of_body = ("unexpected_body",) if route.body is None else _OF_A_BODY
    return {*_COMMON, *of_body, *route.refusals}


def _operation(route: Route) -> Node:
    holders = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [_holder(name) for name in holders] + [_parameter(each) for each in route.query]
    node: Node = {"operationId": route.name, "summary": route.summary}
    if route.refusals:
        node["description"] = f"Refused also for: {', '.join(f'`{reason}`' for reason in route.refusals)}."
    if route.streams:
        parameters.append(_LAST_EVENT_ID)
    if parameters:
        node["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": _reference("schemas", route.body.__name__)}}
        node["requestBody"] = {"required": route.body_required, "content": content}
    refused = {str(status): _reference("responses", _name(status)) for status in _statuses(reasons_of(route))}
    node["responses"] = dict(sorted({**_good(route), **refused}.items()))
    return node


def _good(route: Route) -> Node:
    if route.streams:
        stream = {"text/event-stream": {"schema": {"type": "string", "description": _STREAM}}}
        return {"200": {"description": _STREAM, "content": stream}}
    content = {"application/json": {"schema": _reference("schemas", route.answer.__name__)}}
    return {
        str(status): {"description": "Saved now." if status == HTTPStatus.CREATED else "Done.", "content": content}
        for status in route.statuses
    }


def _own() -> Node:
    refused = {str(status): _reference("responses", _name(status)) for status in _statuses(_COMMON)}
    good = {"description": "This document.", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {
        "operationId": "document",
        "summary": "Return this document.",
        "responses": dict(sorted({"200": good, **refused}.items())),
    }


_STREAM: Final = (
    "Server-sent events: first `ready` (its id is where the stream begins, its data `{}`), then `resolution` (its id is"
    " the cursor to resume after, its data a ResolutionJson), and comments as heartbeats."
)
_LAST_EVENT_ID: Final[Node] = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The cursor to resume after, as browsers and SSE clients send it by themselves.",
    "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}-[0-9]{1,18}$"},
}


def _holder(name: str) -> Node:
    described: dict[str, tuple[str, Node]] = {
        "execution_id": ("The call's id, as `suspend` answers it.", {"type": "string", "format": "uuid"}),
        "group": (
            "The group, percent-encoded.",
            {"type": "string", "pattern": "^[!-~]{1,255}$"},
        ),
    }
    description, schema = described[name]
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _parameter(parameter: Parameter) -> Node:
    node: Node = {"name": parameter.name, "in": "query", "required": False, "description": parameter.description}
    if parameter.name == "after":
        node["allowEmptyValue"] = True
    return node | {"schema": dict(parameter.schema)}


def _schemas() -> Node:
    """Return the JSON Schemas of the types; a title would only repeat the name."""
    bodies = [route.body for route in ROUTES if route.body is not None]
    answers = [route.answer for route in ROUTES]
    wanted = [(kind, "validation", TypeAdapter(kind)) for kind in dict.fromkeys(bodies)] + [
        (kind, "serialization", TypeAdapter(kind)) for kind in dict.fromkeys(answers)
    ]
    made, defined = TypeAdapter.json_schemas(wanted, ref_template="#/components/schemas/{model}")
    found = dict(defined.get("$defs", {}))
    for (kind, _), schema in made.items():
        if "$ref" not in schema:
            found[kind.__name__] = schema
    return {name: _untitled(found[name]) for name in sorted(found)} | {"Refusal": _REFUSAL, "Attempted": _ATTEMPTED}


_REFUSAL: Final[Node] = {
    "type": "object",
    "description": "Why a request is refused.",
    "properties": {
        "reason": {"type": "string", "description": "A machine word.", "enum": list(ANSWERS)},
        "message": {"type": "string", "description": "One or two sentences that say what to do."},
        "path": {"type": "string", "description": "The part of the request at fault."},
    },
    "required": ["reason", "message"],
    "additionalProperties": False,
}
_ATTEMPTED: Final[Node] = {
    **_REFUSAL,
    "description": "Why a request is refused; a claim's refusal says where the call stands.",
    "properties": {
        **_REFUSAL["properties"],
        "execution": {"$ref": f"#/components/schemas/{shapes.StandingJson.__name__}"},
    },
}


def _untitled(node: Any) -> Any:
    """Return a schema without the titles that pydantic gives; a field may be called `title` all the same."""
    if isinstance(node, list):
        return [_untitled(member) for member in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _untitled(field) for name, field in value.items()} if key == "properties" else _untitled(value)
        for key, value in node.items()
        if key != "title"
    }


def _statuses(reasons: Any) -> list[int]:
    return sorted({ANSWERS[reason].status for reason in reasons})


def _refusals(status: int) -> Node:
    """Return the response of one status: its reasons, each with its situation."""
    given = {reason: answer for reason, answer in ANSWERS.items() if answer.status == status}
    kind = "Attempted" if status == HTTPStatus.CONFLICT else "Refusal"
    schema = {
        "allOf": [_reference("schemas", kind)],
        "properties": {"reason": {"enum": list(given)}},
    }
    response: Node = {
        "description": "Refused: "
        + "; ".join(f"`{reason}` ({answer.situation})" for reason, answer in given.items())
        + ".",
        "content": {"application/json": {"schema": schema}},
    }
    if all(answer.retry_after is not None for answer in given.values()):
        response["headers"] = {"Retry-After": {"required": True, "$ref": "#/components/headers/Retry-After"}}
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        response["headers"] = {"Allow": {"required": True, "schema": {"type": "string"}}}
    if status == HTTPStatus.UNAUTHORIZED:
        response["headers"] = {"WWW-Authenticate": {"required": True, "schema": {"const": "Bearer"}}}
    return response


def _name(status: int) -> str:
    return f"refused-{status}"


def _reference(kind: str, name: str) -> Node:
    return {"$ref": f"#/components/{kind}/{name}"}
