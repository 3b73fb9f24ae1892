"""The control API's OpenAPI document is what the routes and types say, and leads nowhere else."""

import json
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft202012Validator

from support.tables import each_row
from wakegate_receiver.control import openapi, shapes
from wakegate_receiver.control.answers import ANSWERS, ControlRefused, refusal
from wakegate_receiver.control.requests import SuspendRequest, read
from wakegate_receiver.control.routes import ROUTES

COMMITTED = Path(__file__).parents[2] / "schema" / "openapi" / "control.json"
DOCUMENT = openapi.document()
CALL: dict[str, Any] = {"tool": "t", "arguments": {"a": [1, None]}, "key": "k"}


def validator(name: str) -> Draft202012Validator:
    """A validator of one of the document's schemas."""
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]})


def test_the_committed_document_is_what_the_code_says() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == openapi.text(), "run: make schema"


def test_every_reference_leads_somewhere() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                found: Any = DOCUMENT
                for name in node["$ref"].removeprefix("#/").split("/"):
                    found = found[name]
            for member in node.values():
                walk(member)
        elif isinstance(node, list):
            for member in node:
                walk(member)

    walk(DOCUMENT)


def test_every_route_is_described() -> None:
    described = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES} | {("GET", "/v1/openapi.json")}


def test_every_status_that_a_verb_can_answer_is_described() -> None:
    for route in ROUTES:
        responses = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
        expected = {*route.statuses, *(ANSWERS[reason].status for reason in openapi.reasons_of(route))}
        assert set(map(int, responses)) == expected


@each_row("reason", ANSWERS)
def test_every_refusal_is_as_described(reason: str) -> None:
    described = DOCUMENT["components"]["responses"][f"refused-{ANSWERS[reason].status}"]
    schema = described["content"]["application/json"]["schema"] | {"components": DOCUMENT["components"]}
    answer = refusal(ControlRefused(reason, path="a"))
    assert isinstance(answer.body, bytes)
    assert Draft202012Validator(schema).is_valid(json.loads(answer.body))
    wanted = set(described.get("headers", {})) - {"Allow"}
    assert wanted <= set(answer.headers)


@each_row(
    ("changes", "good"),
    [
        ({}, True),
        ({"instance": None, "context": None, "hold": None}, True),
        ({"hold": {"id": "h", "seconds": 1.5}}, True),
        ({"context": {}, "runs": "harness", "wake": "x"}, True),
        ({"more": 1}, False),
        ({"arguments": []}, False),
        ({"arguments": None}, False),
        ({"tool": 1}, False),
        ({"runs": "x"}, False),
        ({"hold": {"id": "h"}}, False),
        ({"hold": {"id": "h", "seconds": 1, "more": 1}}, False),
        ({"key": None}, False),
    ],
)
def test_the_document_accepts_what_the_reader_accepts(changes: dict[str, Any], good: bool) -> None:
    value = CALL | changes
    try:
        read(SuspendRequest, json.dumps(value).encode())
    except ControlRefused:
        accepted = False
    else:
        accepted = True
    assert accepted == good == validator("SuspendRequest").is_valid(value)


def test_answers_are_closed_and_complete() -> None:
    for name in (shapes.StandingJson.__name__, shapes.ResolutionJson.__name__, shapes.AttemptJson.__name__):
        schema = DOCUMENT["components"]["schemas"][name]
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) == set(schema["properties"])
    standing = DOCUMENT["components"]["schemas"][shapes.StandingJson.__name__]
    assert "agent" in standing["properties"]["explanation"]["description"]
