"""docs/control.md says what the control API's code says: every verb, refusal, limit and word."""

import re
from pathlib import Path
from typing import get_args

from support.tables import each_row
from wakegate_receiver.binding import CONTROL_CONNECTIONS
from wakegate_receiver.control import app, openapi, parameters, places, requests, sending, stream, verbs, visits
from wakegate_receiver.control.answers import ANSWERS, ControlRefused, raw_refusal, refusal
from wakegate_receiver.control.errors import refused_by
from wakegate_receiver.control.routes import ROUTES
from wakegate_schema.calls.calls import LEASE_S
from wakegate_schema.calls.outcomes import Kind
from wakegate_schema.harness_tables import HarnessesUnreadable
from wakegate_schema.outcome_texts import RESULT_LIMIT
from wakegate_schema.states import State
from wakegate_schema.store import (
    InvariantViolated,
    NotAllowed,
    StoreIsBackup,
    StoreOutdated,
    StoreUnavailable,
    UnstorableValue,
)

TEXT = (Path(__file__).parents[2] / "docs" / "control.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.+) \|$", TEXT, flags=re.MULTILINE)


def test_the_page_has_exactly_the_refusals_of_the_code_in_their_order() -> None:
    assert [(str(answer.status), reason, answer.situation) for reason, answer in ANSWERS.items()] == ROWS


def test_every_verb_has_an_example() -> None:
    examples = "\n".join(re.findall(r"^```sh\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL))
    for route in ROUTES:
        path = re.escape(route.path).replace(r"\{execution_id\}", r"\$ID").replace(r"\{group\}", "turn-1")
        assert re.search(rf"http://control{path}(?![/\w])", examples), route.path


def test_the_limits_are_those_of_the_code() -> None:
    for said in (
        f"| a body | {requests.MAX_BODY_BYTES // 1024 // 1024} MiB |",
        f"| {app.REQUEST_S:g} s, and what it waits |",
        f"| a wait | {parameters.LONGEST_WAIT_S} s |",
        f"| a client that does not read what it is sent | {sending.SEND_S:g} s |",
        f"| {places.RATE} a second, {places.REQUESTS} at once (those that wait included) |",
        f"| a harness's streams | {places.STREAMS} |",
        f"| connections | {CONTROL_CONNECTIONS}; idle ones make room |",
        f"| a page | {parameters.MOST_LISTED} calls, {verbs.PAGE_BYTES // 1024 // 1024} MiB |",
        f"(at most {parameters.MOST_LISTED})",
        f"up to {parameters.LONGEST_WAIT_S} s",
        f"every {stream.HEARTBEAT_S:g} seconds of silence",
        f"up to {RESULT_LIMIT // 1024} KiB",
    ):
        assert said in TEXT, said
    assert visits.LOOK_S * 2 <= 2, "waits and streams end within two seconds"
    assert LEASE_S >= 3


def test_every_field_of_a_suspension_and_every_outcome_is_explained() -> None:
    for name in requests.SuspendRequest.model_fields:
        assert f"`{name}`" in TEXT, name
    for outcome in get_args(Kind):
        assert f"| `{outcome}` |" in TEXT, outcome


def test_every_reason_is_that_of_a_verb_or_of_all() -> None:
    named = set().union(*(openapi.reasons_of(route) for route in ROUTES))
    assert named == set(ANSWERS)


def test_a_claim_can_be_refused_for_every_state_that_permits_none() -> None:
    (claim,) = (route for route in ROUTES if route.name == "claim")
    states = {state.value for state in State} - {"permitted", "started"}
    assert states | {"runs_in_worker", "older_epoch", "too_late", "clock_behind", "already_started"} <= {
        *claim.refusals
    }


@each_row("reason", ANSWERS)
def test_every_refusal_has_the_one_shape(reason: str) -> None:
    answer, row = refusal(ControlRefused(reason)), ANSWERS[reason]
    assert answer.status == row.status
    assert isinstance(answer.body, bytes)
    assert answer.body.startswith(f'{{"reason":"{reason}","message":"'.encode())
    assert answer.headers.get("Retry-After") == (None if row.retry_after is None else str(row.retry_after))
    assert (row.retry_after is not None) == (row.status in (429, 503))
    assert raw_refusal(reason).endswith(answer.body)


@each_row(
    ("error", "reason", "told"),
    [
        (StoreUnavailable("/var/lib/secret cannot be written", reason="disk_full"), "store_unavailable", False),
        (StoreIsBackup("/var/lib/secret"), "store_unavailable", False),
        (StoreOutdated("secret: it has not the tables"), "store_unavailable", False),
        (HarnessesUnreadable("secret: [harness.other]"), "harnesses_unreadable", False),
        (UnstorableValue("secret"), "unstorable_value", False),
        (NotAllowed("a word of its own", reason="group_sealed"), "group_sealed", True),
        (NotAllowed("a word of its own", reason="made_later"), "not_allowed", True),
        (InvariantViolated("secret"), "unforeseen", False),
    ],
)
def test_errors_are_told_in_their_own_words_only_where_those_are_for_the_harness(
    error: Exception, reason: str, told: bool
) -> None:
    found = refused_by(error)  # type: ignore[arg-type]
    assert found.reason == reason
    assert (str(found) == str(error)) == told
    assert "secret" not in str(found)
