"""Requests generated from the control API's OpenAPI document, given to a real receiver over real calls."""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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

from support.control import by_token, control_site, token_of
from support.desk import Desk, approved
from wakegate_receiver.control.routes import ROUTES
from wakegate_schema import clock

DOCUMENT = schemathesis.openapi.from_path(Path(__file__).parents[2] / "schema" / "openapi" / "control.json")
VERBS: list[Any] = [DOCUMENT[route.path][route.method] for route in ROUTES if not route.streams]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
BOUND_S = 15.0


@dataclass
class Attack:
    """Sends generated cases, with the ids of real calls in the place of some that were generated."""

    url: str
    session: requests.Session
    calls: list[str]
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def send(self, case: Case[Any], turn: int) -> requests.Response:
        """Send a case and check that the answer is as the document says."""
        if "execution_id" in (case.path_parameters or {}) and turn % 3:
            case.path_parameters["execution_id"] = self.calls[turn % len(self.calls)]
        if case.query and "wait" in case.query:
            case.query["wait"] = 0.05
        words = case.as_transport_kwargs(base_url=self.url)
        try:
            request = self.session.prepare_request(requests.Request(**words))
        except (requests.exceptions.InvalidHeader, UnicodeError):
            reject()  # no client could send it either
        request.headers["Authorization"] = f"Bearer {token_of('desk')}"
        response = self.session.send(request, timeout=BOUND_S, allow_redirects=False)
        case.validate_response(response, checks=CHECKS)
        self.answers[case.operation.definition.raw["operationId"], response.status_code] += 1
        return response


@contextmanager
def attacked() -> Iterator[Attack]:
    """Run a receiver with calls in several states in a thread of its own."""
    ready: list[Attack] = []
    up, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with control_site({"desk": by_token("desk", "refund-desk")}, tcp=True) as site:
            desk = await Desk(site.store, name="refund-desk").open()
            calls = [(await desk.save(runs="harness")).execution_id, (await desk.waiting()).execution_id]
            calls += [(await desk.permitted(approved(clock.HOUR))).execution_id for _ in range(20)]
            calls += [(await desk.started()).execution_id, (await desk.in_doubt()).execution_id]
            await desk.save(group="turn-1")
            with requests.Session() as session:
                ready.append(Attack(site.base, session, calls))
                up.set()
                while not over.is_set():
                    await asyncio.sleep(0.05)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert up.wait(20)
        yield ready[0]
    finally:
        over.set()
        thread.join()


def generated(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


def test_the_document_is_openapi_3_1() -> None:
    DOCUMENT.validate()
    assert DOCUMENT.specification.version.startswith("3.1")


def test_every_answer_is_as_described_and_what_is_valid_reaches_the_verbs() -> None:
    with attacked() as attack:
        for operation in VERBS:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.path_parameters:
                    ask(attack, operation, mode)
    done = {name for name, status in attack.answers if status < 300}
    assert done == {operation.definition.raw["operationId"] for operation in VERBS} - {"finish", "seal"}, attack.answers
    assert sum(count for (_, status), count in attack.answers.items() if status in (400, 404)) > 40
    assert {status for _, status in attack.answers} <= {200, 201, 400, 404, 405, 409, 413, 415, 429}


def ask(attack: Attack, operation: Any, mode: GenerationMode) -> None:
    """Ask one verb again and again."""
    turns = itertools.count()

    @generated(12)
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Case[Any]) -> None:
        attack.send(case, next(turns))

    send()
