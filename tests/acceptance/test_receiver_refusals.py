"""The memory of what was refused: bounded, without secrets, and it survives."""

import asyncio
import hashlib
import io
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.deliveries import Sender
from support.log_lines import captured_log
from support.receivers import receiver_in, settings_in, until
from wakegate_receiver import read_refusals, refusals_file
from wakegate_receiver.refusals import Case, Refusals
from wakegate_schema import clock
from wakegate_schema.signing import SigningSecret


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    with captured_log() as stream:
        yield stream


async def test_a_refusal_is_in_the_file_within_seconds(tmp_path: Path) -> None:
    async with receiver_in(tmp_path) as running:
        desk = await running.register()
        delivery = desk.sender.notification().with_headers(webhook_signature="v1,AAAA")
        before = clock.now()
        await running.post(delivery)
        path = running.settings.refusals_path
        await until(path.exists)
        (entry,) = read_refusals(path)
    assert before <= entry.pop("at") <= clock.now()
    assert entry == {
        "status": 401,
        "reason": "wrong_signature",
        "bytes": len(delivery.body),
        "body_sha256": hashlib.sha256(delivery.body).hexdigest(),
        "remote": "127.0.0.1",
        "registration_id": None,
        "instance_id": desk.instance_id,
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


async def test_refusals_outlive_the_process(tmp_path: Path) -> None:
    for _ in range(2):
        async with receiver_in(tmp_path) as running:
            desk = await running.register()
            await running.post(desk.sender.raw(b"{"))
    assert [entry["reason"] for entry in read_refusals(running.settings.refusals_path)] == ["not_json"] * 2


async def test_only_the_last_thousand_are_kept(tmp_path: Path) -> None:
    refusals = Refusals(tmp_path / "refusals.jsonl", clock.now)
    for number in range(1500):
        refusals.note("not_json", Case(None, size=number))
    await refusals.flush()
    entries = read_refusals(tmp_path / "refusals.jsonl")
    assert [entry["bytes"] for entry in entries] == list(range(500, 1500))
    assert refusals.counts == {"not_json": 1500}


async def test_receivers_on_one_file_have_a_file_each_and_are_read_together(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    first, second = (Refusals(path, clock.now) for _ in range(2))
    for refusals in (first, second):
        await refusals.load()
    first.note("not_json", Case(None))
    second.note("wrong_path", Case(None))
    first.note("too_large", Case(None))
    for refusals in (first, second, first, second):
        await refusals.flush()
    assert [entry["reason"] for entry in read_refusals(path)] == ["not_json", "wrong_path", "too_large"]
    for refusals in (first, second):
        await refusals.close()
    third = Refusals(path, clock.now)
    await third.load()
    assert [entry["reason"] for entry in third.entries()] == ["not_json", "too_large"], "it goes on with the first file"
    await third.close()


async def test_a_receiver_beyond_the_last_file_only_logs(
    tmp_path: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals_file, "MOST", 1)
    path = tmp_path / "refusals.jsonl"
    first, second = (Refusals(path, clock.now) for _ in range(2))
    await first.load()
    second.note("wrong_path", Case(None))
    for refusals in (first, second, first, second):
        await refusals.flush()
    assert read_refusals(path) == []
    assert log.getvalue().count("too many receivers") == 1
    await first.close()
    await second.close()
    assert [entry["reason"] for entry in read_refusals(path)] == ["wrong_path"], "there is room for it now"


async def test_a_flood_is_told_in_few_lines_that_say_how_many_were_left_out(tmp_path: Path, log: io.StringIO) -> None:
    refusals = Refusals(tmp_path / "refusals.jsonl", clock.now)
    for _ in range(500):
        refusals.note("not_json", Case(None))
        refusals.note("wrong_path", Case(None))
    assert log.getvalue().count('"refused"') == 2
    keeping = asyncio.create_task(refusals.keep())
    await asyncio.sleep(1.2)
    keeping.cancel()
    last = [json.loads(line) for line in log.getvalue().splitlines()[-2:]]
    assert [(line["reason"], line["suppressed"]) for line in last] == [("not_json", 499), ("wrong_path", 499)]


async def test_the_file_is_written_only_when_something_has_changed(tmp_path: Path) -> None:
    refusals = Refusals(tmp_path / "refusals.jsonl", clock.now)
    await refusals.flush()
    assert not (tmp_path / "refusals.jsonl").exists()


async def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path, log: io.StringIO) -> None:
    folder = tmp_path / "later"
    refusals = Refusals(folder / "refusals.jsonl", clock.now)
    refusals.note("not_json", Case(None))
    await refusals.flush()
    await refusals.flush()
    assert log.getvalue().count("keep_refusals") == 1
    folder.mkdir()
    await refusals.flush()
    assert len(read_refusals(folder / "refusals.jsonl")) == 1


def test_there_are_no_refusals_without_a_file(tmp_path: Path) -> None:
    assert read_refusals(tmp_path / "refusals.jsonl") == []


async def test_lines_that_are_no_refusals_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    refusals = Refusals(path, clock.now)
    refusals.note("not_json", Case(None))
    await refusals.close()
    path.write_bytes(b'{"a": 1}\nnot json\n\xff\xfe\n' + b"[" * 2000 + b"\n" + path.read_bytes() + b'{"at": ')
    assert [entry["reason"] for entry in read_refusals(path)] == ["not_json"]
    again = Refusals(path, clock.now)
    await again.load()
    assert len(again.entries()) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("at", 10**400), ("at", -1), ("at", True), ("at", None), ("reason", ["x"]), ("status", {}), ("remote", 1)],
)
async def test_a_line_whose_values_are_not_a_refusals_is_left_out(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "refusals.jsonl"
    refusals = Refusals(path, clock.now)
    refusals.note("not_json", Case(None))
    await refusals.close()
    (entry,) = read_refusals(path)
    with path.open("a") as file:
        file.write(json.dumps(entry | {name: value}) + "\n")
    assert read_refusals(path) == [entry]


def test_a_pipe_in_the_files_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "refusals.jsonl")
    assert read_refusals(tmp_path / "refusals.jsonl") == []


async def test_a_link_in_the_files_place_is_replaced_not_followed(tmp_path: Path) -> None:
    precious, path = tmp_path / "precious", tmp_path / "refusals.jsonl"
    precious.write_text("precious")
    path.symlink_to(precious)
    refusals = Refusals(path, clock.now)
    refusals.note("not_json", Case(None))
    await refusals.flush()
    assert precious.read_text() == "precious"
    assert not path.is_symlink()


async def test_neither_secrets_nor_what_was_sent_is_in_lines_or_file(tmp_path: Path, log: io.StringIO) -> None:
    async with receiver_in(tmp_path) as running:
        desk = await running.register()
        forger = Sender(SigningSecret.generate().reveal(), desk.instance_id)
        sent = [
            desk.sender.raw(b'{"canary": "CANARY-1"}'),
            forger.message({"type": "request.resolved", "instance_id": desk.instance_id, "note": "CANARY-2"}),
            desk.sender.notification().with_headers(content_type="CANARY-3/json"),
            desk.sender.notification().with_headers(webhook_id="CANARY-4"),
            desk.sender.message({"type": "request.resolved", "instance_id": desk.instance_id, "CANARY-5": "CANARY-6"}),
        ]
        for delivery in sent:
            reply = await running.post(delivery, path="/aap/events?CANARY-7")
            assert reply.status >= 400
            assert b"CANARY" not in reply.body
        assert (await running.post(desk.sender.notification(), path="/CANARY-8")).status == 404
    kept = settings_in(tmp_path).refusals_path.read_text() + log.getvalue()
    assert kept.count("wrong_signature") == 2
    signatures = [delivery.headers["webhook-signature"] for delivery in sent]
    for hidden in ("CANARY", desk.secret.reveal(), *signatures):
        assert hidden not in kept
