"""The quick way to read an object takes exactly what the wire type takes, and gives the same."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakegate_schema import ids, timestamps
from wakegate_schema.wire import (
    ApprovalRequest,
    MalformedObject,
    ResolvedEvent,
    VerificationEvent,
    WireModel,
    object_from,
)
from wakegate_schema.wire.quick import quick

KINDS: tuple[type[WireModel], ...] = (ResolvedEvent, VerificationEvent)
UUIDS = st.uuids().flatmap(lambda found: st.sampled_from([str(found), str(found).upper(), found.hex, f"{{{found}}}"]))
TIMES = st.from_regex(timestamps.PATTERN, fullmatch=True) | st.just("2026-02-30T00:00:00Z")
OTHER = st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False) | st.text() | st.lists(st.integers())
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "id": UUIDS | OTHER,
        "type": st.sampled_from(["request.resolved", "webhook.verification"]) | OTHER,
        "instance_id": UUIDS | OTHER,
        "request_id": UUIDS | OTHER,
        "registration_id": UUIDS | OTHER,
        "created_at": TIMES | OTHER,
        "challenge": UUIDS | OTHER,
        "more": OTHER,
    },
)
ALMOST = st.fixed_dictionaries(
    {"id": UUIDS, "instance_id": UUIDS, "request_id": UUIDS, "created_at": TIMES, "type": st.just("request.resolved")}
)
READERS = {kind: quick(kind) for kind in KINDS}


@given(st.sampled_from(KINDS), VALUES | ALMOST)
def test_it_takes_what_the_type_takes_and_gives_the_same(kind: type[WireModel], value: dict[str, Any]) -> None:
    try:
        event = object_from(kind, value)
    except MalformedObject:
        assert READERS[kind](value) is None
        return
    expected = {name: getattr(event, name) for name in kind.model_fields}
    assert READERS[kind](value) == expected | {"created_at": timestamps.parse(expected["created_at"])}


def test_a_type_with_other_fields_is_not_read_quickly() -> None:
    with pytest.raises(TypeError):
        quick(ApprovalRequest)


@given(st.uuids().map(str) | st.from_regex(ids.PATTERN, fullmatch=True) | st.text() | st.from_regex(ids.PATTERN))
def test_an_id_is_what_its_pattern_says(text: str) -> None:
    try:
        assert ids.parse(text) == text.lower()
        found = True
    except ids.MalformedId:
        found = False
    assert found == (re.fullmatch(ids.PATTERN, text) is not None)
