"""The OpenAPI document is what the types and the answers say, and says all of it."""

import json
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft202012Validator

from support.tables import each_row
from wakegate_receiver import openapi
from wakegate_receiver.answers import ANSWERS, RECEIVED, refusal
from wakegate_schema import strict_json
from wakegate_schema.wire import MalformedObject, ResolvedEvent, VerificationEvent, WireModel, parse_object

COMMITTED = Path(__file__).parents[2] / "schema" / "openapi" / "receiver.json"
DOCUMENT = openapi.document()
POST: dict[str, Any] = DOCUMENT["paths"]["/aap/events"]["post"]
ID = "f4b96ac4-404d-4f6a-9a03-a0565edc4922"
EVENT = {
    "id": ID,
    "type": "request.resolved",
    "instance_id": ID.upper(),
    "request_id": ID,
    "created_at": "2026-09-16T12:02:00.5Z",
}
CHALLENGE = {**EVENT, "type": "webhook.verification", "registration_id": ID, "challenge": ID}
del CHALLENGE["request_id"]


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """What a reference leads to."""
    found: Any = DOCUMENT
    for name in node["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return dict(found)


def test_the_committed_document_is_what_the_types_say() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == openapi.text(), "run: make schema"


def test_every_reference_leads_somewhere() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                assert resolved(node)
            for member in node.values():
                walk(member)
        elif isinstance(node, list):
            for member in node:
                walk(member)

    walk(DOCUMENT)


def test_every_answer_is_described_with_its_reason_and_its_body() -> None:
    described: dict[str, Any] = {}
    for status, reference in POST["responses"].items():
        for content in resolved(reference).get("content", {}).values():
            described |= {
                reason: (int(status), example["value"], example["summary"])
                for reason, example in content.get("examples", {}).items()
            }
    assert described == {
        reason: (answer.status, json.loads(str(_body(reason))), answer.situation)
        for reason, answer in ANSWERS.items()
        if answer.status is not None
    }


def _body(reason: str) -> str:
    body = refusal(reason).body
    assert isinstance(body, bytes)
    return body.decode()


@each_row("reason", [reason for reason, answer in ANSWERS.items() if answer.status is not None])
def test_every_answer_is_as_described(reason: str) -> None:
    answer = refusal(reason)
    described = resolved(POST["responses"][str(answer.status)])
    schema = described["content"]["application/json"]["schema"]
    assert Draft202012Validator(schema).is_valid(json.loads(_body(reason)))
    assert set(described.get("headers", {})) <= set(answer.headers)


def test_an_acknowledgement_has_no_body() -> None:
    assert (RECEIVED.status, RECEIVED.body) == (204, b"")
    assert "content" not in resolved(POST["responses"]["204"])


def test_both_webhooks_have_the_answers_of_the_path() -> None:
    answers: dict[str, Any] = {}
    for kind, item in DOCUMENT["webhooks"].items():
        answers |= item["post"]["responses"]
        assert resolved(item["post"]["requestBody"]["content"]["application/json"]["schema"])["properties"]["type"] == {
            "const": kind,
            "type": "string",
        }
    assert dict(sorted(answers.items())) == POST["responses"]


@each_row("event", [EVENT, CHALLENGE])
@each_row(
    ("field", "value"),
    [
        (None, None),
        ("id", "x"),
        ("id", 7),
        ("id", None),
        ("instance_id", ID.replace("-", "")),
        ("created_at", "2026-09-16T12:02:00+00:00"),
        ("created_at", "2026-09-16 12:02:00Z"),
        ("created_at", "2026-09-16T24:00:00Z"),
        ("type", "request.pending"),
        ("note", ""),
        ("challenge", None),
    ],
)
def test_the_document_accepts_what_the_reader_accepts(event: dict[str, Any], field: str | None, value: Any) -> None:
    changed = event if field is None else {**event, field: value}
    model: type[WireModel] = VerificationEvent if "challenge" in event else ResolvedEvent
    schema = DOCUMENT["components"]["schemas"][model.__name__]
    try:
        parse_object(model, strict_json.dumps(changed))
    except MalformedObject:
        read = False
    else:
        read = True
    assert Draft202012Validator(schema).is_valid(changed) == read == (field is None)
