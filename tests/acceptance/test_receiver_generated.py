"""Requests generated from the OpenAPI document, given to a real receiver: unsigned, and signed with a real secret."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.deliveries import new_id
from support.hostile import Target, attacked
from wakegate_schema import ids
from wakegate_schema.ids import MalformedId
from wakegate_schema.signing import signed_headers

DOCUMENT = schemathesis.openapi.from_path(Path(__file__).parents[2] / "schema" / "openapi" / "receiver.json")
OPERATION = DOCUMENT["/aap/events"]["post"]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OF_THE_OBJECT = ("unknown_field", "missing_field", "wrong_type", "bad_uuid", "bad_timestamp")
BOUND_S = 10.0
"""Longer than a request may take."""


@dataclass
class Attack:
    """Sends generated cases and keeps the books."""

    target: Target
    session: requests.Session
    answers: Counter[int] = field(default_factory=Counter)
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    """The bodies that were acknowledged, by event id."""

    def unsigned(self, case: Case[Any]) -> requests.Response:
        """Send a case as it was generated."""
        return self._send(case, self._prepared(case))

    def signed(self, case: Case[Any]) -> requests.Response:
        """Send a case with the ids of the known desk, correctly signed; what is wrong otherwise stays."""
        desk = self.target.desk
        if isinstance(case.body, dict):
            known = {"instance_id": desk.instance_id, "registration_id": desk.registration_id}
            case.body |= {name: value for name, value in known.items() if name in case.body}
        request = self._prepared(case)
        name = event_id(case.body) or new_id()
        request.headers.update(signed_headers([desk.secret], name, int(time.time()), _body(request)))
        return self._send(case, request)

    def _prepared(self, case: Case[Any]) -> requests.PreparedRequest:
        words = case.as_transport_kwargs(base_url=self.target.url.removesuffix("/aap/events"))
        try:
            return self.session.prepare_request(requests.Request(**words))
        except (requests.exceptions.InvalidHeader, UnicodeError):
            reject()  # no client could send it either

    def _send(self, case: Case[Any], request: requests.PreparedRequest) -> requests.Response:
        began = time.monotonic()
        response = self.session.send(request, timeout=BOUND_S, allow_redirects=False)
        assert time.monotonic() - began < BOUND_S
        case.validate_response(response, checks=CHECKS)
        self.answers[response.status_code] += 1
        if response.status_code == 204:
            found = event_id(case.body)
            assert found is not None
            self.acknowledged.setdefault(found, _body(request))
        return response


def event_id(body: Any) -> str | None:
    """The id in a body, where it is one."""
    try:
        return ids.parse(body["id"]) if isinstance(body, dict) and isinstance(body.get("id"), str) else None
    except MalformedId:
        return None


def _body(request: requests.PreparedRequest) -> bytes:
    """The exact bytes that are sent."""
    body = request.body or b""
    assert isinstance(body, bytes | str)
    return body if isinstance(body, bytes) else body.encode()


def generated(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def whole_attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    with attacked(tmp_path_factory.mktemp("generated")) as target, requests.Session() as session:
        yield Attack(target, session)


@pytest.fixture
def attack(whole_attack: Attack) -> Iterator[Attack]:
    """The attack, after which what was acknowledged is on record, byte for byte, and the receiver is unharmed."""
    whole_attack.answers.clear()
    yield whole_attack
    assert whole_attack.target.rows() == whole_attack.acknowledged
    genuine = whole_attack.target.unharmed()
    whole_attack.acknowledged[genuine.headers["webhook-id"]] = genuine.body


def test_the_document_is_openapi_3_1() -> None:
    DOCUMENT.validate()
    assert DOCUMENT.specification.version.startswith("3.1")
    assert len(list(DOCUMENT.get_all_operations())) == 1


def test_valid_messages_that_nobody_signed_are_unauthenticated(attack: Attack) -> None:
    @generated(40)
    @given(case=OPERATION.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def deliver(case: Case[Any]) -> None:
        assert attack.unsigned(case).status_code in (401, 403)

    deliver()
    assert attack.answers[401] > 10
    assert attack.answers[403] > 5


def test_invalid_messages_that_nobody_signed_are_refused(attack: Attack) -> None:
    @generated(100)
    @given(case=OPERATION.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def deliver(case: Case[Any]) -> None:
        assert attack.unsigned(case).status_code >= 400

    deliver()
    assert attack.answers[400] > 30


def test_valid_signed_messages_are_acknowledged_and_on_record(attack: Attack) -> None:
    @generated(80)
    @given(case=OPERATION.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def deliver(case: Case[Any]) -> None:
        response = attack.signed(case)
        assert isinstance(case.body, dict)
        if response.status_code == 200:
            assert response.json() == {"challenge": case.body["challenge"]}
        elif response.status_code != 204:
            assert response.json()["reason"] in ("bad_timestamp", "event_conflict")

    deliver()
    assert attack.answers[204] > 15
    assert attack.answers[200] > 15


def test_invalid_signed_messages_reach_the_object_and_are_refused(attack: Attack) -> None:
    reasons: Counter[str] = Counter()

    @generated(150)
    @given(case=OPERATION.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def deliver(case: Case[Any]) -> None:
        response = attack.signed(case)
        if response.status_code >= 400:
            reasons[json.loads(response.content)["reason"]] += 1

    deliver()
    assert sum(reasons[reason] for reason in OF_THE_OBJECT) >= 5, reasons
