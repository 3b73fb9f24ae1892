"""AAP's objects: strict in form, consistent in themselves, exact in what is free-form, silent about secrets."""

import json
import uuid
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from agentapprovalprotocol import _wire as sdk
from agentapprovalprotocol.testing import FakeProvider
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from support.tables import each_row
from wakegate_schema import ids, strict_json
from wakegate_schema.signing import SigningSecret
from wakegate_schema.wire import (
    ApprovalRequest,
    Challenge,
    Consumption,
    ConsumptionOutcome,
    Credential,
    Decision,
    Delivery,
    DeliveryView,
    ErrorBody,
    ErrorDetail,
    Instance,
    InstanceUpdate,
    MalformedObject,
    NewInstance,
    NewOutcome,
    NewRequest,
    ProvisionedInstance,
    ResolvedEvent,
    VerificationEvent,
    WireModel,
    object_bytes,
    object_from,
    parse_object,
)

A = "f4b96ac4-404d-4f6a-9a03-a0565edc4922"
B = "b29a43a7-1949-4b9f-9d61-b7ae66f85d31"
T1 = "2026-09-16T12:00:00Z"
T2 = "2026-09-16T12:02:00.25Z"
T3 = "2026-09-16T12:07:00Z"
SECRET = SigningSecret(bytes(range(200, 232)))
DELIVERY = {
    "type": "webhook",
    "url": "https://hooks.example/aap/events",
    "registration_id": A,
    "signing_secret": SECRET.reveal(),
}
VIEW = {name: value for name, value in DELIVERY.items() if name != "signing_secret"}
PENDING: dict[str, Any] = {
    "id": A,
    "tool": "issue_refund",
    "arguments": {"amount": 4900, "tags": [None, True, "\0"]},
    "timeout": "30m",
    "status": "pending",
    "created_at": T1,
    "deadline_at": T3,
}
OUTCOME = {"status": "succeeded", "note": "done", "reported_at": T3}
APPROVED: dict[str, Any] = {
    **PENDING,
    "agent_reasoning": "charged twice",
    "context": {"call_id": "c", "resume": {"framework": "langgraph", "thread_id": "t"}},
    "server": "payments",
    "status": "approved",
    "decision": {"status": "approved", "decided_at": T2, "note": "fine", "expires_at": T3},
    "consumption": {"consumed_at": T2, "outcome": OUTCOME},
}
DENIED: dict[str, Any] = {**PENDING, "status": "denied", "decision": {"status": "denied", "decided_at": T2}}
RESOLVED = {"id": A, "type": "request.resolved", "instance_id": B, "request_id": A, "created_at": T1}
VERIFICATION = {
    "id": A,
    "type": "webhook.verification",
    "registration_id": A,
    "instance_id": B,
    "created_at": T1,
    "challenge": B,
}

WHOLE: list[tuple[type[WireModel], dict[str, Any]]] = [
    (VerificationEvent, VERIFICATION),
    (ResolvedEvent, RESOLVED),
    (Challenge, {"challenge": A}),
    (ApprovalRequest, PENDING),
    (ApprovalRequest, APPROVED),
    (ApprovalRequest, DENIED),
    (Decision, APPROVED["decision"]),
    (Consumption, APPROVED["consumption"]),
    (ConsumptionOutcome, OUTCOME),
    (NewOutcome, {"status": "failed", "note": "no funds"}),
    (NewRequest, {"tool": "t", "arguments": {}, "timeout": "1s"}),
    (
        NewRequest,
        {
            "tool": "t",
            "arguments": {"a": {}},
            "timeout": "24h",
            "agent_reasoning": "",
            "context": {},
            "server": "s",
        },
    ),
    (NewInstance, {}),
    (NewInstance, {"instance_name": "refund-desk", "delivery": DELIVERY}),
    (InstanceUpdate, {"instance_name": "refund-desk"}),
    (InstanceUpdate, {"delivery": DELIVERY}),
    (InstanceUpdate, {"delivery": None}),
    (Delivery, DELIVERY),
    (DeliveryView, VIEW),
    (Instance, {"id": A, "name": "refund-desk"}),
    (Instance, {"id": A, "name": "refund-desk", "delivery": VIEW}),
    (Credential, {"token": "opaque"}),
    (Credential, {"token": "opaque", "expires_at": T3}),
    (ProvisionedInstance, {"instance": {"id": A, "name": "n"}, "credential": {"token": "opaque"}}),
    (
        ErrorDetail,
        {"type": "conflict", "code": "idempotency_conflict", "message": "m", "param": "tool", "request_id": A},
    ),
    (
        ErrorBody,
        {"error": {"type": "not_found", "code": "not_found", "message": "no such request", "request_id": A}},
    ),
]
NAMES = [f"{model.__name__}-{number}" for number, (model, _) in enumerate(WHOLE)]
FREE_FORM = {"arguments", "context"}


def fault(model: type[WireModel], value: object) -> tuple[str, str]:
    with pytest.raises(MalformedObject) as refused:
        parse_object(model, strict_json.dumps(value))
    return refused.value.reason, refused.value.field


def changed(value: dict[str, Any], path: str, new: object) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    return {**value, name: changed(value[name], rest, new) if rest else new}


def without(value: dict[str, Any], path: str) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    if rest:
        return {**value, name: without(value[name], rest)}
    return {key: member for key, member in value.items() if key != name}


def paths(value: dict[str, Any], prefix: str = "") -> list[str]:
    """Every field of an object and of the objects in it; nothing inside what is free-form."""
    found = []
    for name, member in value.items():
        found.append(prefix + name)
        if isinstance(member, dict) and name not in FREE_FORM:
            found += paths(member, f"{prefix}{name}.")
    return found


FIELDS = [
    pytest.param(model, value, path, id=f"{name}-{path}")
    for name, (model, value) in zip(NAMES, WHOLE, strict=True)
    for path in paths(value)
]


# form


@each_row(("model", "value"), WHOLE, ids=NAMES)
def test_a_whole_object_is_read_and_written_back_the_same(model: type[WireModel], value: dict[str, Any]) -> None:
    written = object_bytes(parse_object(model, strict_json.dumps(value)))
    assert strict_json.equal(strict_json.parse(written), value)


@each_row(("model", "value"), WHOLE, ids=NAMES)
def test_an_unknown_field_is_refused_by_name(model: type[WireModel], value: dict[str, Any]) -> None:
    assert fault(model, {**value, "outcome_hint": "approved"}) == ("unknown_field", "outcome_hint")


@each_row(("model", "value", "path"), FIELDS)
def test_a_null_is_refused_wherever_none_is_defined(model: type[WireModel], value: dict[str, Any], path: str) -> None:
    if model is InstanceUpdate and path == "delivery":
        return
    reason, field = fault(model, changed(value, path, None))
    assert reason in ("null", "wrong_type", "unknown_value")
    assert field == path


@each_row(("model", "value", "path"), FIELDS)
@each_row("new", [1, True, Decimal("1.5"), [], ["a"]], ids=repr)
def test_another_type_is_refused_and_never_converted(
    model: type[WireModel], value: dict[str, Any], path: str, new: object
) -> None:
    reason, field = fault(model, changed(value, path, new))
    assert reason in ("wrong_type", "unknown_value")
    assert field == path


@each_row(("model", "value", "path"), FIELDS)
def test_a_repeated_key_is_refused(model: type[WireModel], value: dict[str, Any], path: str) -> None:
    name = path.rpartition(".")[2]
    text = strict_json.dumps(value).replace(f'"{name}":'.encode(), f'"{name}":0,"{name}":'.encode(), 1)
    with pytest.raises(MalformedObject) as refused:
        parse_object(model, text)
    assert refused.value.reason == "duplicate_key"


REQUIRED = {
    VerificationEvent: "id type registration_id instance_id created_at challenge",
    ResolvedEvent: "id type instance_id request_id created_at",
    Challenge: "challenge",
    ApprovalRequest: "id tool arguments timeout status created_at deadline_at decision.status decision.decided_at "
    "decision.expires_at consumption.consumed_at consumption.outcome.status consumption.outcome.reported_at",
    NewRequest: "tool arguments timeout",
    Delivery: "type url registration_id signing_secret",
    DeliveryView: "type url registration_id",
    Instance: "id name",
    Credential: "token",
    ProvisionedInstance: "instance credential instance.id instance.name credential.token",
    ErrorBody: "error error.type error.code error.message error.request_id",
}


@each_row(("model", "path"), [(model, path) for model, names in REQUIRED.items() for path in names.split()])
def test_a_required_field_that_is_absent_is_named(model: type[WireModel], path: str) -> None:
    value = APPROVED if model is ApprovalRequest else next(value for kind, value in WHOLE if kind is model)
    assert fault(model, without(value, path)) == ("missing_field", path)


IDS = [param for param in FIELDS if str(param.values[2]).rpartition(".")[2].endswith(("id", "challenge"))]


@each_row(("model", "value", "path"), IDS)
@each_row(
    "text",
    ["", "1", A.replace("-", ""), f"{{{A}}}", f"urn:uuid:{A}", f"{A} ", f"{A}\n", A[:-1] + "g", A[1:] + "0-"],
)
def test_an_id_in_another_form_is_refused(model: type[WireModel], value: dict[str, Any], path: str, text: str) -> None:
    assert fault(model, changed(value, path, text)) == ("bad_uuid", path)


def test_an_id_in_capitals_is_the_same_id() -> None:
    event = parse_object(ResolvedEvent, strict_json.dumps({**RESOLVED, "id": A.upper()}))
    assert event.id == A
    assert ids.parse(str(uuid.UUID(A)).upper()) == A
    assert ids.parse(ids.new()) != ids.new()


TIMES = [param for param in FIELDS if str(param.values[2]).endswith("_at")]


@each_row(("model", "value", "path"), TIMES)
@each_row("text", ["", "2026-09-16T12:02:00z", "2026-09-16T12:02:00+00:00", "2026-02-30T12:02:00Z"])
def test_a_time_in_another_form_is_refused(model: type[WireModel], value: dict[str, Any], path: str, text: str) -> None:
    assert fault(model, changed(value, path, text)) == ("bad_timestamp", path)


def test_a_time_stays_the_text_that_was_sent() -> None:
    late = "2026-09-16T12:02:00.1234567890Z"
    assert parse_object(ResolvedEvent, strict_json.dumps({**RESOLVED, "created_at": late})).created_at == late


@each_row("text", ["", "0s", "30", "30M", "1.5h", "-1s", "30m "])
def test_a_timeout_in_another_form_is_refused(text: str) -> None:
    assert fault(ApprovalRequest, {**PENDING, "timeout": text}) == ("bad_duration", "timeout")
    assert fault(NewRequest, {"tool": "t", "arguments": {}, "timeout": text}) == ("bad_duration", "timeout")


@each_row("code", ["", "Conflict", "_a", "a_", "a__b", "1a", "a-b", "a b", "a\n", "a" * 101])
def test_an_error_code_in_another_form_is_refused(code: str) -> None:
    value = {"error": {"type": "conflict", "code": code, "message": "m", "request_id": A}}
    assert fault(ErrorBody, value) == ("bad_code", "error.code")


@each_row(
    ("model", "value", "path", "text"),
    [
        (ApprovalRequest, PENDING, "status", "APPROVED"),
        (ApprovalRequest, PENDING, "status", "approved "),
        (ApprovalRequest, PENDING, "status", "unknown"),
        (ApprovalRequest, PENDING, "status", "consumed"),
        (ApprovalRequest, DENIED, "decision.status", "pending"),
        (ApprovalRequest, APPROVED, "consumption.outcome.status", "unknown"),
        (ResolvedEvent, RESOLVED, "type", "webhook.verification"),
        (VerificationEvent, VERIFICATION, "type", "request.resolved"),
        (Delivery, DELIVERY, "type", "email"),
        (ErrorBody, WHOLE[-1][1], "error.type", "teapot"),
    ],
)
def test_a_word_aap_does_not_define_is_refused(
    model: type[WireModel], value: dict[str, Any], path: str, text: str
) -> None:
    assert fault(model, changed(value, path, text)) == ("unknown_value", path)


def test_a_tool_has_a_name() -> None:
    assert fault(ApprovalRequest, {**PENDING, "tool": ""}) == ("empty", "tool")
    assert fault(NewRequest, {"tool": "", "arguments": {}, "timeout": "1s"}) == ("empty", "tool")


@each_row("value", [None, [], [PENDING], "pending", 1, True])
def test_what_is_no_object_is_refused(value: object) -> None:
    assert fault(ApprovalRequest, value) == ("wrong_type", "")


@each_row(
    ("data", "reason"),
    [
        (strict_json.dumps(APPROVED)[:-1], "not_json"),
        (b"", "not_json"),
        (b"<html>502 Bad Gateway</html>", "not_json"),
        (b"\xef\xbb\xbf{}", "bom"),
        (strict_json.dumps(APPROVED).decode().encode("utf-16"), "not_utf8"),
        (b'{"arguments":{"a":NaN}}', "non_finite_number"),
        (rb'{"decision":{"note":"\ud800"}}', "lone_surrogate"),
    ],
)
def test_what_is_no_json_is_refused_as_an_object_too(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedObject) as refused:
        parse_object(ApprovalRequest, data)
    assert refused.value.reason == reason


def test_an_objects_size_is_bounded_by_its_reader() -> None:
    data = strict_json.dumps(RESOLVED)
    parse_object(ResolvedEvent, data, max_bytes=len(data))
    with pytest.raises(MalformedObject) as refused:
        parse_object(ResolvedEvent, data, max_bytes=len(data) - 1)
    assert refused.value.reason == "too_large"


# consistency


@each_row(
    ("value", "reason", "field"),
    [
        (without(APPROVED, "decision"), "missing_field", "decision"),
        (without(DENIED, "decision"), "missing_field", "decision"),
        (without(APPROVED, "decision.expires_at"), "missing_field", "decision.expires_at"),
        (changed(APPROVED, "decision.expires_at", T2), "not_later", "decision.expires_at"),
        (changed(APPROVED, "decision.expires_at", T1), "not_later", "decision.expires_at"),
        (
            changed(APPROVED, "decision.expires_at", "2026-09-16T12:02:00.2500009Z"),
            "not_later",
            "decision.expires_at",
        ),
        (changed(DENIED, "decision.expires_at", T3), "unexpected_field", "decision.expires_at"),
        (changed(PENDING, "decision", DENIED["decision"]), "unexpected_field", "decision"),
        (changed(DENIED, "status", "approved"), "mismatch", "decision.status"),
        (changed(without(APPROVED, "consumption"), "status", "denied"), "mismatch", "decision.status"),
        (changed(APPROVED, "status", "pending"), "unexpected_field", "decision"),
        (changed(DENIED, "status", "expired"), "mismatch", "decision.status"),
        (changed(DENIED, "consumption", {"consumed_at": T2}), "unexpected_field", "consumption"),
        (changed(PENDING, "consumption", {"consumed_at": T2}), "unexpected_field", "consumption"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(value: dict[str, Any], reason: str, field: str) -> None:
    assert fault(ApprovalRequest, value) == (reason, field)


@pytest.mark.parametrize("status", ["denied", "expired", "cancelled"])
def test_every_other_end_has_a_decision_without_expiry(status: str) -> None:
    value = {**PENDING, "status": status, "decision": {"status": status, "decided_at": T2, "note": "no"}}
    request = parse_object(ApprovalRequest, strict_json.dumps(value))
    assert request.decision is not None
    assert request.decision.status == status


def test_an_update_that_changes_nothing_is_refused() -> None:
    assert fault(InstanceUpdate, {})[0] == "missing_field"


def test_an_update_tells_absent_null_and_object_apart() -> None:
    keeps = parse_object(InstanceUpdate, b'{"instance_name":"a"}')
    removes = parse_object(InstanceUpdate, b'{"delivery":null}')
    replaces = parse_object(InstanceUpdate, strict_json.dumps({"delivery": DELIVERY}))
    assert (keeps.changes_delivery, keeps.delivery) == (False, None)
    assert (removes.changes_delivery, removes.delivery) == (True, None)
    assert replaces.changes_delivery
    assert replaces.delivery is not None
    assert object_bytes(keeps) == b'{"instance_name":"a"}'
    assert object_bytes(removes) == b'{"delivery":null}'


@each_row(
    "url",
    [
        "",
        "http://hooks.example/",
        "https://user@hooks.example/",
        "https://hooks.example/#a",
        "hooks.example",
        "https://a b",
    ],
)
def test_a_delivery_goes_to_a_usable_url(url: str) -> None:
    assert fault(NewInstance, {"delivery": {**DELIVERY, "url": url}}) == ("bad_url", "delivery.url")


@each_row(
    "secret", ["", "whsec_", "whsec_AA==", SECRET.reveal()[:-1], SECRET.reveal() + "\n", "whsec_" + "A" * 43 + "="]
)
def test_a_delivery_is_signed_with_a_usable_secret(secret: str) -> None:
    value = {"delivery": {**DELIVERY, "signing_secret": secret}}
    assert fault(InstanceUpdate, value) == ("bad_secret", "delivery.signing_secret")


# what is free-form


def test_free_form_values_keep_their_kind_and_digits() -> None:
    text = (
        b'{"tool":"t","arguments":{"i":49,"d":49.0,"e":1e400,"n":-0.0,"big":123456789012345678901234567890,'
        b'"t":1.10,"b":true,"z":null,"s":"49","nul":"\\u0000","deep":[{"":[1,1.0]}]},"timeout":"1s"}'
    )
    arguments = parse_object(NewRequest, text).arguments
    assert type(arguments["i"]) is int
    assert arguments["b"] is True
    assert arguments["z"] is None
    assert arguments["nul"] == "\0"
    kept = {key: str(arguments[key]) for key in ("d", "e", "n", "t")}
    assert kept == {"d": "49.0", "e": "1E+400", "n": "-0.0", "t": "1.10"}
    written = strict_json.parse(object_bytes(parse_object(NewRequest, text)))
    assert strict_json.equal(written, strict_json.parse(text))


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.decimals(allow_nan=False, allow_infinity=False).filter(lambda number: abs(number.adjusted()) <= 1000),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab\u00e9\0", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), json_values, max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_arguments_survive_the_wire(arguments: dict[str, Any]) -> None:
    sent = NewRequest(tool="t", arguments=arguments, timeout="1s")
    assert strict_json.equal(parse_object(NewRequest, object_bytes(sent)).arguments, arguments)


@each_row(
    "arguments", [{"a": float("nan")}, {"a": Decimal("Infinity")}, {"a": "\ud800"}, {1: 2}, {"a": (1,)}, {"a": b"b"}]
)
def test_arguments_that_are_no_json_make_no_request(arguments: Any) -> None:
    with pytest.raises(ValidationError):
        NewRequest(tool="t", arguments=arguments, timeout="1s")


def test_what_the_maker_changes_later_does_not_reach_the_request() -> None:
    arguments: dict[str, Any] = {"amounts": [1]}
    request = NewRequest(tool="t", arguments=arguments, timeout="1s")
    arguments["amounts"].append(2)
    assert request.arguments == {"amounts": [1]}


def test_a_request_as_deep_as_can_be_made_can_be_read() -> None:
    deep: list[Any] = []
    for _ in range(61):
        deep = [deep]
    request = NewRequest(tool="t", arguments={"a": deep}, timeout="1s")
    parse_object(NewRequest, object_bytes(request))
    with pytest.raises(ValidationError):
        NewRequest(tool="t", arguments={"a": [deep]}, timeout="1s")


def test_an_object_is_frozen() -> None:
    with pytest.raises(ValidationError):
        parse_object(ResolvedEvent, strict_json.dumps(RESOLVED)).id = B


def test_none_means_absent_to_python_only() -> None:
    request = NewRequest(tool="t", arguments={}, timeout="1s", context=None, agent_reasoning=None)
    assert object_bytes(request) == b'{"tool":"t","arguments":{},"timeout":"1s"}'


def test_an_object_is_made_from_a_value_already_parsed() -> None:
    value = strict_json.parse(strict_json.dumps(RESOLVED))
    assert object_from(ResolvedEvent, value) == parse_object(ResolvedEvent, strict_json.dumps(RESOLVED))


# secrets


def test_a_delivery_does_not_show_its_secret() -> None:
    made = parse_object(NewInstance, strict_json.dumps({"delivery": DELIVERY}))
    assert SECRET.reveal()[6:] not in f"{made} {made!r} {made.delivery} {made.model_dump()}"
    assert made.delivery is not None
    assert made.delivery.signing_secret == SECRET


def test_a_credential_does_not_show_its_token() -> None:
    answer = ProvisionedInstance(
        instance=Instance(id=A, name="n"), credential=Credential(token="s3cret-token", expires_at=T3)
    )
    assert "s3cret" not in f"{answer} {answer!r} {answer.credential} {answer.credential!r}"
    assert answer.credential.token == "s3cret-token"


def test_a_request_does_not_show_its_arguments() -> None:
    value = {**PENDING, "arguments": {"a": "s3cret"}, "context": {"b": "s3cret"}, "agent_reasoning": "s3cret"}
    assert "s3cret" not in repr(parse_object(ApprovalRequest, strict_json.dumps(value)))


BAD_SECRETS: list[dict[str, Any]] = [
    {"delivery": {**DELIVERY, "signing_secret": "whsec_s3cret"}},
    {"delivery": {**DELIVERY, "signing_secret": ["s3cret"]}},
    {"delivery": {**DELIVERY, "url": "https://user:s3cret@hooks.example"}},
    {"delivery": {**DELIVERY, "s3cret": 1}},
    {"delivery": "s3cret"},
    {"instance_name": {"s3cret": "s3cret"}},
    {"S3CRET s3cret": 1},
]


@each_row("value", BAD_SECRETS)
def test_a_refusal_shows_nothing_that_was_sent(value: dict[str, Any]) -> None:
    with pytest.raises(MalformedObject) as refused:
        parse_object(NewInstance, strict_json.dumps(value))
    seen: BaseException | None = refused.value
    while seen is not None:
        shown = f"{seen} {seen!r} {vars(seen)}".replace("delivery.s3cret", "")
        assert "s3cret" not in shown
        assert SECRET.reveal()[6:] not in shown
        seen = seen.__cause__ or seen.__context__


def test_the_validators_own_errors_show_nothing_either() -> None:
    for value in BAD_SECRETS:
        with pytest.raises(ValidationError) as refused:
            NewInstance.model_validate(value)
        assert "whsec_" not in str(refused.value)
        assert SECRET.reveal()[6:] not in f"{refused.value!r}"


def test_the_name_of_an_unknown_field_is_shown_only_if_it_looks_like_one() -> None:
    assert fault(NewInstance, {"provider_hint": 1}) == ("unknown_field", "provider_hint")
    assert fault(NewInstance, {"Bearer abc\n": 1}) == ("unknown_field", "?")
    assert fault(NewInstance, {"a" * 41: 1}) == ("unknown_field", "?")


# the public SDK


def test_the_public_sdk_reads_what_we_write() -> None:
    for value in (PENDING, APPROVED, DENIED):
        written = object_bytes(parse_object(ApprovalRequest, strict_json.dumps(value)))
        assert sdk.parse_request(sdk.loads(written)).status == value["status"]


@each_row("status", ["approved", "denied", "expired", "cancelled"])
def test_we_read_what_the_public_sdk_writes(status: str) -> None:
    provider = FakeProvider(auto=None)
    with closing(provider.client()) as client:
        client.create({"tool": "t", "arguments": {"amount": 1}, "timeout": "30m"}, key=str(uuid.uuid4()))
    stored = provider.only()
    assert parse_object(ApprovalRequest, json.dumps(stored.wire()).encode()).status == "pending"
    provider.decide(stored.id, status, note="seen")
    request = parse_object(ApprovalRequest, json.dumps(stored.wire()).encode())
    assert request.decision is not None
    assert (request.status, request.decision.note) == (status, "seen")
