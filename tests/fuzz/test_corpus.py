"""Every kept input and some thousands of mutations go through the same targets that `make fuzz` feeds."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fuzz.__main__ import with_mutations
from fuzz.corpus import FOLDER, LONGEST, kept, new_ones
from fuzz.mutation import TOKENS, mutations
from fuzz.targets import LONGEST as LONGEST_BODY
from fuzz.targets import MESSAGE_ID, TARGETS, bounded, check_json, check_signature
from support.cpu import TookTooLong, cpu_bound
from support.tables import each_row

MUTATIONS = 20_000
EVENT = json.dumps(
    {
        "id": MESSAGE_ID,
        "type": "request.resolved",
        "instance_id": MESSAGE_ID,
        "request_id": MESSAGE_ID,
        "created_at": "2026-09-16T12:02:00Z",
    }
).encode()
SECURITY = b"webhook-id: %b\nwebhook-timestamp: 1\nwebhook-signature: " % MESSAGE_ID.encode()
TYPE = b"/aap/events\ncontent-type: application/json"


def repeated(unit: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """As many of a unit as the longest body has room for."""
    return before + unit * ((LONGEST_BODY - len(before) - len(after)) // len(unit)) + after


HUGE: Mapping[str, tuple[str, bytes]] = {
    "brackets": ("json", repeated(b"[")),
    "braces": ("json", repeated(b'{"a":')),
    "closed brackets": ("json", b"[" * 30_000 + b"]" * 30_000),
    "flat arrays": ("json", repeated(b"[],", b"[", b"[]]")),
    "quotes": ("json", repeated(b'"')),
    "backslashes": ("json", repeated(b"\\", b'"')),
    "escapes": ("json", repeated(b"\\u0041", b'"', b'"')),
    "half pairs": ("json", repeated(b"\\ud800\\", b'"')),
    "brackets in strings that do not end": ("json", repeated(b'"[\\"')),
    "digits": ("json", repeated(b"9")),
    "a fraction": ("json", repeated(b"9", b"0.")),
    "an exponent": ("json", repeated(b"9", b"1e")),
    "many numbers": ("json", repeated(b"9" * 600 + b",", b"[", b"0]")),
    "keys": ("json", b"{" + b",".join(b'"%d":%d' % (number, number) for number in range(5000)) + b"}"),
    "the same key": ("json", repeated(b'"a":0,', b"{", b'"a":0}')),
    "blanks": ("json", repeated(b" ", b"", b"1")),
    "blanks in an event": ("message", repeated(b" ", EVENT[:-1], b"}")),
    "a fraction of a second": ("message", EVENT.replace(b"00Z", b"00." + b"1" * 60_000 + b"Z")),
    "fields": ("message", EVENT[:-1] + b"".join(b',"a%d":0' % number for number in range(5000)) + b"}"),
    "signatures": ("headers", repeated(b"v1," + b"A" * 43 + b"= ", SECURITY)),
    "signatures within the limit": ("headers", SECURITY + b" ".join([b"v1," + b"A" * 43 + b"="] * 170)),
    "blanks in a signature": ("headers", SECURITY + b" " * 8000 + b"v1,x"),
    "commas": ("headers", SECURITY + b"v1," * 2700),
    "header lines": ("headers", repeated(b"webhook-id: x\n")),
    "tokens and a right one": ("signature", b"v1,x " * 1500 + b"{good}\n" + EVENT),
    "parameters": ("screening", TYPE + b"; a=b" * 6_000),
    "blanks between semicolons": ("screening", TYPE + b"; " * 15_000 + b"@"),
    "blanks in a type": ("screening", TYPE + b" " * 30_000 + b"x"),
    "quotes in a type": ("screening", TYPE + b';a="' * 7_000),
    "a length": ("screening", TYPE + b"\ncontent-length: " + b"9" * 30_000),
    "a target": ("screening", b"http://" + b"a" * 30_000),
}


@each_row("name", TARGETS)
def test_every_kept_input_holds(name: str) -> None:
    for data in kept(name).values():
        bounded(TARGETS[name])(data)


@each_row("name", TARGETS)
def test_every_mutation_holds(name: str) -> None:
    for data in mutations([*kept(name).values(), *TOKENS], MUTATIONS, seed=1):
        try:
            bounded(TARGETS[name])(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is shown with its input
            pytest.fail(f"{type(error).__name__}: {error} with {data!r}")


@each_row("name", HUGE)
def test_the_largest_input_takes_bounded_time(name: str) -> None:
    target, data = HUGE[name]
    assert len(data) <= LONGEST_BODY
    bounded(TARGETS[target])(data)


@each_row("name", TARGETS)
def test_the_corpus_has_inputs_that_pass_and_inputs_that_are_refused(name: str) -> None:
    results = {TARGETS[name](data) not in (None, False) for data in kept(name).values()}
    assert results == {True, False}


def test_the_corpus_is_small() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert len(files) < 300
    assert sum(path.stat().st_size for path in files) < 200_000
    assert max(path.stat().st_size for path in files) <= LONGEST


def test_only_inputs_that_take_a_new_step_are_kept() -> None:
    known = [b'{"a":1}']
    assert new_ones(check_json, known, [b'{"b":2}', b'{"b":1,"b":2}', b'{"ab":1,"ab":2}']) == [b'{"b":1,"b":2}']


def test_a_target_sees_a_reader_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    check_json(b'{"a":1}')
    monkeypatch.setattr("wakegate_schema.strict_json.parse", lambda *_, **__: {"a": True})
    with pytest.raises(AssertionError):
        check_json(b'{"a":1}')


def test_a_target_sees_a_pattern_that_never_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    _, data = HUGE["blanks between semicolons"]
    monkeypatch.setattr("wakegate_receiver.screening._MEDIA_TYPE", re.compile(r"(a\S+)((?:[ \t]*;[ \t]*)*)"))
    with pytest.raises(TookTooLong), cpu_bound(0.2):
        TARGETS["screening"](data)


def test_what_is_found_by_mutations_is_saved_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert with_mutations("json", seconds=0, seed=1)
    monkeypatch.setattr("wakegate_schema.strict_json._DECODER", json.JSONDecoder())
    assert not with_mutations("json", seconds=0, seed=1)
    (path,) = tmp_path.iterdir()
    with pytest.raises(AssertionError):
        check_json(path.read_bytes())
    assert f"see {path.name}" in capsys.readouterr().out


def test_a_target_sees_a_verification_that_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not check_signature(b"v1,AAAA\n{}")
    monkeypatch.setattr("wakegate_schema.signing._signed", lambda *_: True)
    with pytest.raises(AssertionError):
        check_signature(b"v1,AAAA\n{}")
