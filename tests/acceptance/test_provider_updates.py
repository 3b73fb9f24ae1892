"""Updates of instances over real HTTP: another name, another receiver, replays, and what is queued meanwhile."""

import asyncio
import json
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from support.provider import Answered, Caller, ReceivingEnd, provider, provider_settings
from wakegate_provider import decide
from wakegate_schema.store import queries


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with provider(provider_settings(tmp_path)) as caller:
        yield caller


@pytest.fixture
async def old() -> AsyncIterator[ReceivingEnd]:
    async with ReceivingEnd().serving() as end:
        yield end


@pytest.fixture
async def new() -> AsyncIterator[ReceivingEnd]:
    async with ReceivingEnd().serving() as end:
        yield end


async def update(caller: Caller, instance_id: str, body: object, key: str = "u") -> Answered:
    """Update an instance."""
    return await caller.call("PATCH", f"/v1/instances/{instance_id}", key=key, body=body)


async def test_a_new_receiver_proves_itself_and_is_shown_without_its_secret(
    caller: Caller, old: ReceivingEnd, new: ReceivingEnd
) -> None:
    made = (await caller.provision(old)).body["instance"]
    updated = await update(caller, made["id"], {"delivery": new.delivery()})
    assert updated.status == 200
    assert updated.body == {
        **made,
        "delivery": {"type": "webhook", "url": new.url, "registration_id": new.registration_id},
    }
    assert [challenge["instance_id"] for challenge in new.challenges] == [made["id"]]
    assert len(old.challenges) == 1


async def test_what_is_queued_goes_to_the_new_receiver_under_its_secret(
    tmp_path: Path, old: ReceivingEnd, new: ReceivingEnd
) -> None:
    settings = provider_settings(tmp_path)
    old.statuses = [503] * 100
    async with provider(settings) as caller:
        made = (await caller.provision(old)).body
        decide(settings, await caller.request_id(made["credential"]["token"]), "deny")
        await old.received(1)
        await update(caller, made["instance"]["id"], {"delivery": new.delivery()})
        await new.received(1)  # the public SDK has verified it with the new secret
    assert new.messages[0][0]["id"] == old.messages[0][0]["id"]


@pytest.mark.parametrize("status", [403, 500, 302])
async def test_a_receiver_that_does_not_prove_itself_changes_nothing(
    caller: Caller, old: ReceivingEnd, new: ReceivingEnd, status: int
) -> None:
    made = (await caller.provision(old)).body["instance"]
    proves_itself, new.answer_challenge = new.answer_challenge, lambda challenge: (status, {"challenge": challenge})
    refused = await update(caller, made["id"], {"instance_name": "other", "delivery": new.delivery()})
    assert (refused.status, refused.code) == (422, "webhook_verification_failed")
    assert (await caller.call("GET", f"/v1/instances/{made['id']}")).body == made
    new.answer_challenge = proves_itself
    assert (await update(caller, made["id"], {"instance_name": "other", "delivery": new.delivery()})).status == 200


async def test_a_replay_returns_the_first_result_and_overwrites_nothing_later(
    tmp_path: Path, old: ReceivingEnd, new: ReceivingEnd
) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        made = (await caller.provision(old)).body["instance"]
        first = await update(caller, made["id"], {"delivery": new.delivery()})
        later = await update(caller, made["id"], {"instance_name": "later"}, key="v")
    async with provider(settings) as caller:
        again = await update(caller, made["id"], {"delivery": new.delivery()})
        assert (again.status, again.body) == (200, first.body)
        assert (await caller.call("GET", f"/v1/instances/{made['id']}")).body == later.body
    assert later.body["name"] == "later"
    assert len(new.challenges) == 1


async def test_the_same_key_with_other_fields_conflicts(caller: Caller, old: ReceivingEnd, new: ReceivingEnd) -> None:
    made = (await caller.provision(old)).body["instance"]
    await update(caller, made["id"], {"delivery": new.delivery()})
    for other in (
        {"instance_name": "x", "delivery": new.delivery()},
        {"delivery": None},
        {"delivery": new.delivery(signing_secret=ReceivingEnd().secret)},
    ):
        refused = await update(caller, made["id"], other)
        assert (refused.status, refused.code) == (409, "idempotency_conflict")


async def test_submissions_of_one_key_at_the_same_time_are_one_update(
    caller: Caller, old: ReceivingEnd, new: ReceivingEnd
) -> None:
    made = (await caller.provision(old)).body["instance"]
    new.pause = 0.2
    body = {"delivery": new.delivery()}
    answers = await asyncio.gather(*(update(caller, made["id"], body) for _ in range(5)))
    assert {answer.status for answer in answers} == {200}
    assert len(new.challenges) == 1


async def test_null_removes_the_delivery_and_ends_what_is_queued(tmp_path: Path, old: ReceivingEnd) -> None:
    settings = provider_settings(tmp_path)
    old.statuses = [503] * 100
    async with provider(settings) as caller:
        made = (await caller.provision(old)).body
        decide(settings, await caller.request_id(made["credential"]["token"]), "deny")
        await old.received(1)
        updated = await update(caller, made["instance"]["id"], {"delivery": None})
        seen = len(old.messages)
        await asyncio.sleep(0.8)
        assert "delivery" not in updated.body
        assert len(old.messages) <= seen + 1  # one may have been in flight


async def test_a_name_alone_challenges_nobody(caller: Caller, old: ReceivingEnd) -> None:
    made = (await caller.provision(old)).body["instance"]
    updated = await update(caller, made["id"], {"instance_name": "renamed"})
    assert updated.body == {**made, "name": "renamed"}
    assert len(old.challenges) == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_field"),
        ({"instance_name": None}, "null"),
        ({"name": "x"}, "unknown_field"),
        ({"instance_name": "x" * 201}, "too_long"),
    ],
)
async def test_a_body_that_changes_nothing_known_is_refused(
    caller: Caller, old: ReceivingEnd, body: object, code: str
) -> None:
    made = (await caller.provision(old)).body["instance"]
    refused = await update(caller, made["id"], body)
    assert (refused.status, refused.code) == (400, code)


async def test_only_the_provisioner_updates_and_only_with_a_key(caller: Caller, old: ReceivingEnd) -> None:
    made = (await caller.provision(old)).body
    path, body = f"/v1/instances/{made['instance']['id']}", {"instance_name": "x"}
    refused = await caller.call("PATCH", path, token=made["credential"]["token"], key="u", body=body)
    assert (refused.status, refused.code) == (403, "not_the_provisioner")
    assert (await caller.call("PATCH", path, body=body)).code == "missing_idempotency_key"


async def test_a_deleted_or_unknown_instance_is_not_found_replays_included(
    caller: Caller, old: ReceivingEnd, new: ReceivingEnd
) -> None:
    made = (await caller.provision(old)).body["instance"]
    await update(caller, made["id"], {"delivery": new.delivery()})
    await caller.call("DELETE", f"/v1/instances/{made['id']}")
    for instance_id in (made["id"], str(uuid.uuid4()), "no-uuid"):
        answered = await update(caller, instance_id, {"delivery": new.delivery()})
        assert (answered.status, answered.code) == (404, "not_found")


async def test_a_creation_is_replayed_after_an_update(caller: Caller, old: ReceivingEnd, new: ReceivingEnd) -> None:
    made = (await caller.provision(old, key="k")).body
    await update(caller, made["instance"]["id"], {"instance_name": "renamed", "delivery": new.delivery()})
    again = await caller.provision(old, key="k")
    assert again.status == 200
    assert again.body["credential"] == made["credential"]
    assert (await caller.provision(new, key="k")).code == "idempotency_conflict"


async def test_no_secret_of_an_update_is_in_clear_in_the_store(
    tmp_path: Path, old: ReceivingEnd, new: ReceivingEnd
) -> None:
    async with provider(provider_settings(tmp_path)) as caller:
        made = (await caller.provision(old)).body["instance"]
        await update(caller, made["id"], {"delivery": new.delivery()})
    for file in tmp_path.glob("provider.db*"):
        assert new.secret.removeprefix("whsec_").encode() not in file.read_bytes()


async def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path: Path, old: ReceivingEnd) -> None:
    path, tables = tmp_path / "provider.db", queries.load("wakegate_provider", "sql/schema")
    with closing(sqlite3.connect(path)) as raw:
        for name, statement in tables.items():
            if name != "create_updates":
                raw.execute(statement.replace("    created_with BLOB,\n", ""))
        raw.execute("PRAGMA user_version = 1")
    async with provider(provider_settings(tmp_path)) as caller:
        made = (await caller.provision(old, key="k")).body
        with closing(sqlite3.connect(path)) as raw:  # as one that the first version has made
            raw.execute("UPDATE instances SET created_with = NULL")
            raw.commit()
        assert (await caller.provision(old, key="k")).body == made
        assert (await update(caller, made["instance"]["id"], {"instance_name": "renamed"})).status == 200
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (2,)
        assert json.loads(raw.execute("SELECT result FROM updates").fetchone()[0])["name"] == "renamed"
