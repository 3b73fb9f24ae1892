"""What a body says before and after its signature is proved."""

import json
from typing import Any

import pytest

from support.tables import each_row
from wakegate_receiver.answers import Refused
from wakegate_receiver.messages import NOTIFICATION, VERIFICATION, complete, read
from wakegate_schema.wire import ResolvedEvent

ID = "f4b96ac4-404d-4f6a-9a03-a0565edc4922"
INSTANCE = "b29a43a7-1949-4b9f-9d61-b7ae66f85d31"
EVENT: dict[str, Any] = {
    "id": ID,
    "type": NOTIFICATION,
    "instance_id": INSTANCE,
    "request_id": "7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71",
    "created_at": "2026-09-16T12:02:00Z",
}


def body(**changes: Any) -> bytes:
    return json.dumps({name: value for name, value in (EVENT | changes).items() if value is not ...}).encode()


def test_the_instance_selects_a_notifications_secret() -> None:
    message = read(body(instance_id=INSTANCE.upper()))
    assert (message.kind, message.selector) == (NOTIFICATION, INSTANCE)


def test_the_registration_selects_a_verifications_secret() -> None:
    message = read(body(type=VERIFICATION, registration_id=ID))
    assert (message.kind, message.selector) == (VERIFICATION, ID)


@each_row(
    ("text", "reason"),
    [
        (b"", "not_json"),
        (b"\xff\xfe", "not_utf8"),
        (b"\xef\xbb\xbf" + body(), "bom"),
        (body().decode().encode("utf-16-le"), "not_json"),
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (body(instance_id=None), "wrong_type"),
        (body(instance_id=...), "missing_field"),
        (body(instance_id="b29a43a719494b9f9d61b7ae66f85d31"), "bad_uuid"),
        (body(instance_id=[[]]), "wrong_type"),
        (body(type=...), "missing_field"),
        (body(type=1), "wrong_type"),
        (body(type="request.pending"), "unknown_type"),
        (body(type=VERIFICATION), "missing_field"),
        (body()[:-1] + b',"id":"x"}', "duplicate_key"),
        (body(x=float("nan")), "non_finite_number"),
        (body(x="\ud800"), "lone_surrogate"),
        (b"[" * 100 + b"]" * 100, "too_deep"),
        (body()[:-1] + b',"x":' + b"9" * 5000 + b"}", "number_too_long"),
    ],
)
def test_what_cannot_select_a_secret_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        read(text)
    assert refused.value.reason == reason


def test_nothing_else_is_looked_at_before_the_signature() -> None:
    read(body(request_id=1, created_at=None, id="x", more={}))


@each_row(
    ("changes", "reason"),
    [
        ({"more": 1}, "unknown_field"),
        ({"request_id": ...}, "missing_field"),
        ({"request_id": None}, "wrong_type"),
        ({"request_id": "7"}, "bad_uuid"),
        ({"created_at": "2026-09-16T12:02:00+00:00"}, "bad_timestamp"),
        ({"created_at": 1}, "wrong_type"),
        ({"id": "b29a43a7-1949-4b9f-9d61-b7ae66f85d31"}, "id_mismatch"),
    ],
)
def test_the_whole_object_is_strict(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused) as refused:
        complete(ResolvedEvent, read(body(**changes)), ID)
    assert refused.value.reason == reason


def test_a_whole_object_is_returned() -> None:
    assert complete(ResolvedEvent, read(body()), ID).request_id == EVENT["request_id"]


def test_a_message_does_not_show_its_content() -> None:
    assert "request_id" not in repr(read(body()))
