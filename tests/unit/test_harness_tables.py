"""Harness tables: what they may say, and that the file counts as it is now."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from wakegate_receiver.control.identity import Identities
from wakegate_schema import harness_tables
from wakegate_schema.calls import Scope
from wakegate_schema.harness_tables import Harness, Harnesses, HarnessesUnreadable, token_sha256
from wakegate_schema.setting_sources import ConfigFile, read_settings_file
from wakegate_schema.settings import Settings, SettingsError, load_settings

TOKEN = "a-token-of-more-than-thirty-two-characters"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
REFUNDS = '[harness.refunds]\nuid = 1200\ninstances = ["refund-desk"]\n'
ID = "1cd9d99c-5961-4ae7-8d49-4758c27b5dec"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder; give the path of the settings file there, which is not there yet."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "wakegate.toml"


def settings(file: Path, text: str) -> Settings:
    file.write_text(text)
    return load_settings(environ={})


def watched(file: Path, text: str) -> Harnesses:
    """The harnesses as a receiver asks for them that was started with this file."""
    found = settings(file, text)
    return Harnesses(found.config_file, found.harness)


def test_a_harness_has_a_name_proofs_and_instances(file: Path) -> None:
    text = f'{REFUNDS}[harness.other]\ntoken_sha256 = "{DIGEST.upper()}"\ninstances = ["{ID.upper()}", "second"]\n'
    assert watched(file, text).current() == {
        "refunds": Harness("refunds", frozenset({"refund-desk"}), uid=1200),
        "other": Harness("other", frozenset({ID, "second"}), token_sha256=DIGEST),
    }


def test_its_scope_is_its_instances_under_its_name(file: Path) -> None:
    visitor = Identities(watched(file, REFUNDS)).of(CIMultiDictProxy(CIMultiDict()), 1200)
    assert visitor.scope == Scope("harness:refunds", frozenset({"refund-desk"}))


WRONG = [
    ("[harness]\nuid = 1\n", "harness.uid: must be a table, [harness.NAME]"),
    ("harness = 3\n", "harness: must be tables, each [harness.NAME]"),
    ('[harness.Refunds]\nuid = 1\ninstances = ["a"]\n', "harness.Refunds: must be a name"),
    (f'[harness.{"a" * 64}]\nuid = 1\ninstances = ["a"]\n', "must be a name"),
    ('[harness.a]\ninstances = ["a"]\n', "harness.a: needs a uid or a token_sha256"),
    ("[harness.a]\nuid = 1\n", "harness.a.instances: is missing"),
    ('[harness.a]\nuid = 1\ninstances = ["a"]\nname = "x"\n', "harness.a.name: unknown setting"),
    ('[harness.a]\nuid = 65534\ninstances = ["a"]\n', "harness.a.uid: must not be 65534"),
    ('[harness.a]\nuid = -1\ninstances = ["a"]\n', "harness.a.uid: must be a user's number"),
    ('[harness.a]\nuid = 4294967295\ninstances = ["a"]\n', "harness.a.uid: must be a user's number"),
    ('[harness.a]\nuid = "1"\ninstances = ["a"]\n', "harness.a.uid: must be a user's number"),
    ('[harness.a]\nuid = true\ninstances = ["a"]\n', "harness.a.uid: must be a user's number"),
    (f'[harness.a]\ntoken_sha256 = "{DIGEST[1:]}"\ninstances = ["a"]\n', "harness.a.token_sha256: must be the SHA-256"),
    (f'[harness.a]\ntoken_sha256 = "{TOKEN}"\ninstances = ["a"]\n', "harness.a.token_sha256: must be the SHA-256"),
    ("[harness.a]\nuid = 1\ninstances = []\n", "harness.a.instances: must be a list of 1 to 100"),
    ('[harness.a]\nuid = 1\ninstances = "a"\n', "harness.a.instances: must be a list of 1 to 100"),
    (f"[harness.a]\nuid = 1\ninstances = {[str(n) for n in range(101)]}\n", "must be a list of 1 to 100"),
    ('[harness.a]\nuid = 1\ninstances = ["a", "a"]\n', "harness.a.instances: names an instance twice"),
    (f'[harness.a]\nuid = 1\ninstances = ["{ID}", "{ID.upper()}"]\n', "names an instance twice"),
    ('[harness.a]\nuid = 1\ninstances = [""]\n', "harness.a.instances: is empty"),
    (f'[harness.a]\nuid = 1\ninstances = ["{"x" * 256}"]\n', "more than 255 characters"),
    (f'{REFUNDS}[harness.b]\nuid = 1200\ninstances = ["b"]\n', "harness: refunds and b have one uid"),
    (
        f'[harness.a]\ntoken_sha256 = "{DIGEST}"\ninstances = ["a"]\n'
        f'[harness.b]\ntoken_sha256 = "{DIGEST.upper()}"\ninstances = ["a"]\n',
        "harness: a and b have one token",
    ),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_a_wrong_table_stops_the_start_and_refuses_harnesses_that_run(file: Path, text: str, expected: str) -> None:
    harnesses = watched(file, REFUNDS)
    assert harnesses.by_uid(1200) is not None
    with pytest.raises(SettingsError) as at_the_start:
        settings(file, text)
    assert expected in str(at_the_start.value)
    with pytest.raises(HarnessesUnreadable) as meanwhile:
        harnesses.by_uid(1200)
    assert expected in str(meanwhile.value)
    for shown in (str(at_the_start.value), str(meanwhile.value)):
        assert TOKEN not in shown
        assert DIGEST[1:] not in shown


def test_a_uid_or_a_token_says_whose_it_is(file: Path) -> None:
    harnesses = watched(file, f'{REFUNDS}[harness.other]\ntoken_sha256 = "{DIGEST}"\ninstances = ["b"]\n')
    assert [each and each.name for each in (harnesses.by_uid(1200), harnesses.by_token(TOKEN))] == ["refunds", "other"]
    assert [harnesses.by_uid(0), harnesses.by_uid(65534)] == [None, None]
    for wrong in ("", DIGEST, TOKEN[:-1], TOKEN + "\n", "é", "\udcff"):
        assert harnesses.by_token(wrong) is None


def test_nothing_that_is_shown_has_a_digest(file: Path) -> None:
    harnesses = watched(file, f'[harness.a]\ntoken_sha256 = "{DIGEST}"\ninstances = ["b"]\n')
    assert token_sha256(TOKEN) == DIGEST
    assert DIGEST not in repr(harnesses.by_token(TOKEN))


def test_a_change_counts_at_once(file: Path) -> None:
    harnesses = watched(file, REFUNDS)
    for uid in range(100, 120):  # of the same length, and perhaps within one tick of the file system's clock
        file.write_text(REFUNDS.replace("1200", f"{uid:04}".lstrip("0")))
        assert (harnesses.by_uid(uid), harnesses.by_uid(uid - 1)) == (harnesses.current()["refunds"], None)


def test_a_change_counts_that_kept_time_and_size(file: Path) -> None:
    harnesses = watched(file, REFUNDS)
    long_ago = 1_700_000_000_000_000_000
    os.utime(file, ns=(long_ago, long_ago))
    assert harnesses.by_uid(1200) is not None
    draft = file.with_name("draft")
    draft.write_text(REFUNDS.replace("1200", "1300"))
    os.utime(draft, ns=(long_ago, long_ago))
    draft.replace(file)
    assert harnesses.by_uid(1200) is None


def test_what_is_wrong_with_a_file_is_found_out_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harnesses = watched(file, REFUNDS)
    file.write_text(REFUNDS + "[harness.x]\n")
    with pytest.raises(HarnessesUnreadable) as first:
        harnesses.current()
    with monkeypatch.context() as patch:
        patch.setattr(harness_tables, "_tables", None)
        with pytest.raises(HarnessesUnreadable) as again:
            harnesses.current()
    assert str(first.value) == str(again.value)
    file.write_text(REFUNDS)
    assert list(harnesses.current()) == ["refunds"]


def test_a_file_that_has_not_changed_is_not_read_again_and_one_that_is_new_always(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New is what was changed lately, whatever time a copy has given it (`cp -p`)."""
    harnesses = watched(file, REFUNDS)
    long_ago = 1_700_000_000_000_000_000
    os.utime(file, ns=(long_ago, long_ago))
    read: list[Path] = []

    def counting(path: Path) -> tuple[bytes, os.stat_result]:
        read.append(path)
        return read_settings_file(path)

    monkeypatch.setattr(harness_tables, "read_settings_file", counting)
    monkeypatch.setattr(harness_tables, "_SETTLED_NS", 3_600_000_000_000)
    for _ in range(3):
        assert harnesses.by_uid(1200) is not None
    assert read == [file] * 3
    monkeypatch.setattr(harness_tables, "_SETTLED_NS", 0)
    for _ in range(5):
        assert harnesses.by_uid(1200) is not None
    assert read == [file] * 4


@pytest.mark.parametrize("text", ["x =", "\xff", "a = 1\na = 2\n", "# " + "x" * 1_048_576])
def test_a_malformed_file_refuses_everybody_until_it_is_mended(file: Path, text: str) -> None:
    harnesses = watched(file, REFUNDS)
    assert harnesses.by_uid(1200) is not None
    file.write_text(text, encoding="latin-1")
    for _ in range(2):
        with pytest.raises(HarnessesUnreadable, match=r"wakegate\.toml: .*; mend it"):
            harnesses.by_token(TOKEN)
    file.write_text(REFUNDS)
    assert harnesses.by_uid(1200) is not None


def test_a_file_that_is_gone_refuses_everybody_until_it_is_back(file: Path) -> None:
    harnesses = watched(file, REFUNDS)
    file.unlink()
    for _ in range(2):
        with pytest.raises(HarnessesUnreadable, match="is gone; put it back"):
            harnesses.by_uid(1200)
    file.write_text(REFUNDS)
    assert harnesses.by_uid(1200) is not None
    file.unlink()
    with pytest.raises(HarnessesUnreadable, match="is gone"):
        harnesses.by_uid(1200)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_in_its_place_refuses_everybody(file: Path, make: Callable[[Path], None]) -> None:
    harnesses = watched(file, REFUNDS)
    file.unlink()
    make(file)
    with pytest.raises(HarnessesUnreadable, match="is no regular file"):
        harnesses.by_uid(1200)


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="root reads what others may not")
def test_a_file_that_may_not_be_read_refuses_everybody(file: Path) -> None:
    harnesses = watched(file, REFUNDS)
    for folder in [*file.parents][:-2]:
        folder.chmod(0o755)
    file.chmod(0o600)
    os.seteuid(1200)
    try:
        with pytest.raises(HarnessesUnreadable, match="cannot be read: Permission denied"):
            harnesses.by_uid(1200)
    finally:
        os.seteuid(0)
    assert harnesses.by_uid(1200) is not None


def test_without_a_file_there_are_none_until_one_is_made(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = load_settings(environ={})
    assert found.config_file == ConfigFile(file, found=False)
    harnesses = Harnesses(found.config_file, found.harness)
    assert harnesses.current() == {}
    monkeypatch.chdir("/")
    file.write_text(REFUNDS)
    assert harnesses.by_uid(1200) is not None
    file.unlink()
    with pytest.raises(HarnessesUnreadable, match="is gone"):
        harnesses.by_uid(1200)


def test_a_link_may_be_turned_to_another_file(file: Path, tmp_path: Path) -> None:
    """As a container platform does that swaps a whole folder."""
    (tmp_path / "one.toml").write_text(REFUNDS)
    (tmp_path / "two.toml").write_text(REFUNDS.replace("1200", "1300"))
    file.symlink_to("one.toml")
    found = load_settings(environ={})
    harnesses = Harnesses(found.config_file, found.harness)
    assert harnesses.by_uid(1200) is not None
    (tmp_path / "link").symlink_to("two.toml")
    (tmp_path / "link").replace(file)
    assert harnesses.by_uid(1200) is None


def test_tables_that_no_file_has_hold_for_good() -> None:
    found = Settings.model_validate({"harness": {"a": {"uid": 1, "instances": ["b"]}}})
    assert Harnesses(found.config_file, found.harness).by_uid(1) is not None


@pytest.mark.parametrize("named", ["option", "variable", "folder"])
def test_the_settings_know_the_file_they_were_read_from(file: Path, tmp_path: Path, named: str) -> None:
    path = file if named == "folder" else tmp_path / "other.toml"
    path.write_text(REFUNDS)
    config, environ = (Path("other.toml") if named == "option" else None), {}
    if named == "variable":
        environ = {"WAKEGATE_CONFIG": "other.toml"}
    assert load_settings(config, environ).config_file == ConfigFile(path, found=True)
