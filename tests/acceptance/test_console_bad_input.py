"""Everything that is wrong stops with one line that names it and exit code 2, and nothing is left behind."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.console import Console
from support.desk import new_id

ID = new_id()
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PROVISION = {
    "--provider-url": "https://provider.example",
    "--provisioner-token-file": "token",
    "--url": "https://agents.example/aap/events",
    "--name": "desk",
    "--wait": "0",
}


@dataclass(frozen=True)
class Bad:
    """A command line that is wrong, and what its one line must name."""

    arguments: list[str]
    names: str
    settings: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{' '.join(self.arguments[:2])} {self.names}"[:60]


def provision(**changes: str | None) -> list[str]:
    """`instance provision` with some options changed or left out (None)."""
    options = PROVISION | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    given = {name: value for name, value in options.items() if value is not None}
    return ["instance", "provision", *(part for pair in given.items() for part in pair)]


def imported(*options: str) -> list[str]:
    """`instance import` with these options."""
    return ["instance", "import", "--provider-url", "https://provider.example", *options]


RESOLVE = ["execution", "resolve", ID]

BAD = [
    Bad(["nonsense"], "'nonsense'"),
    Bad(["--nonsense"], "--nonsense"),
    Bad(["execution", "nonsense"], "'nonsense'"),
    Bad(["execution", "list", "--nonsense"], "--nonsense"),
    Bad(["execution", "list", "extra"], "extra"),
    Bad(["--config", "missing.toml", "execution", "list"], "missing.toml"),
    Bad(["--config", "broken.toml", "execution", "list"], "broken.toml"),
    Bad(["execution", "list"], "WAKEGATE_NONSENSE", {"WAKEGATE_NONSENSE": "1"}),
    Bad(["execution", "list"], "WAKEGATE_DATABASE", {"WAKEGATE_DATABASE": "mysql://here"}),
    Bad(["receiver"], "WAKEGATE_LISTEN", {"WAKEGATE_LISTEN": "nowhere"}),
    Bad(["worker"], "WAKEGATE_LEASE_SECONDS", {"WAKEGATE_LEASE_SECONDS": "soon"}),
    Bad(["up"], "WAKEGATE_LOG_FORMAT", {"WAKEGATE_LOG_FORMAT": "xml"}),
    Bad(["provider"], "WAKEGATE_PROVIDER_LISTEN", {"WAKEGATE_PROVIDER_LISTEN": "0.0.0.0:1"}),
    Bad(["provider", "run"], "WAKEGATE_PROVIDER_POLICY_FILE", {"WAKEGATE_PROVIDER_POLICY_FILE": "missing.toml"}),
    Bad(["execution", "list", "--limit", "0"], "--limit"),
    Bad(["execution", "list", "--limit", "many"], "--limit"),
    Bad(["execution", "list", "--state", "lost"], "--state"),
    Bad(["execution", "show"], "EXECUTION"),
    Bad(["execution", "show", " "], "EXECUTION"),
    Bad(["execution", "show", "x" * 256], "EXECUTION"),
    Bad(["execution", "abandon", ID], "--reason"),
    Bad(["execution", "abandon", ID, "--reason", " "], "--reason"),
    Bad(["execution", "abandon", ID, "--reason", "a\x1b[2J"], "--reason"),
    Bad(["execution", "abandon", ID, "--reason", "x" * 101], "--reason"),
    Bad([*RESOLVE, "--by", "Mira", "--note", "x"], "--happened"),
    Bad([*RESOLVE, "--happened", "--did-not-happen", "--by", "Mira", "--note", "x"], "exclude each other"),
    Bad([*RESOLVE, "--happened", "--note", "x"], "--by"),
    Bad([*RESOLVE, "--happened", "--by", "Mira"], "--note"),
    Bad([*RESOLVE, "--happened", "--by", "Mira", "--note", ""], "--note"),
    Bad(["notification", "list", "--state", "lost"], "--state"),
    Bad(["notification", "show", "x"], "EVENT"),
    Bad(["notification", "show", "f4b"], "EVENT"),
    Bad(["notification", "show", ID, "--provider-url", "ftp://x"], "--provider-url"),
    Bad(["refusal", "list", "--limit", "-1"], "--limit"),
    Bad(["refusal", "list", "--reason", "wrong_signatur"], "did you mean wrong_signature?"),
    Bad(["refusal", "list", "--reason", "bogus"], "docs/answers.md"),
    Bad(provision(provider_url=None), "--provider-url"),
    Bad(provision(provider_url="http://provider.example"), "--provider-url"),
    Bad(provision(provider_url="https://u:p@provider.example"), "--provider-url"),
    Bad(provision(url=None), "--url"),
    Bad(provision(url="http://agents.example/aap/events"), "--url"),
    Bad(provision(url="https://agents.example/aap/events#x"), "--url"),
    Bad(provision(name=None), "--name"),
    Bad(provision(name=""), "--name"),
    Bad(provision(name="a\nb\x00"), "--name"),
    Bad(provision(provisioner_token_file=None), "--provisioner-token-file"),
    Bad(provision(provisioner_token_file="missing"), "missing"),
    Bad(provision(provisioner_token_file="wide"), "wide"),
    Bad(provision(provisioner_token_file="empty"), "empty"),
    Bad(provision(provisioner_token_file="two-lines"), "two-lines"),
    Bad(provision(provisioner_token_file="."), "."),
    Bad(provision(provider_url="http://127.0.0.1:9", provisioner_token_file="none"), "`wakegate provider` makes it"),
    Bad(provision(wait="-1"), "--wait"),
    Bad(provision(wait="soon"), "--wait"),
    Bad(imported(), "--registration-id"),
    Bad(imported("--registration-id", ID), "--secret-file"),
    Bad(imported("--secret-file", "secret"), "--registration-id"),
    Bad(imported("--instance-id", ID), "--credential-file"),
    Bad(imported("--credential-file", "token"), "--instance-id"),
    Bad(imported("--registration-id", "x", "--secret-file", "secret"), "--registration-id"),
    Bad(imported("--registration-id", ID, "--secret-file", "token"), "token"),
    Bad(
        imported("--registration-id", ID, "--secret-file", "secret", "--credential-expires-at", "2030-01-01T00:00:00Z"),
        "--credential-expires-at",
    ),
    Bad(
        imported("--instance-id", ID, "--credential-file", "token", "--credential-expires-at", "tomorrow"),
        "--credential-expires-at",
    ),
    Bad(["instance", "credential", "", "--credential-file", "token"], "INSTANCE"),
    Bad(["instance", "credential", ID], "--credential-file"),
    Bad(["instance", "credential", ID, "--credential-file", "missing"], "missing"),
    Bad(["instance", "show"], "INSTANCE"),
    Bad(["provider", "decide", ID, "maybe"], "Invalid value for 'DECISION'"),
    Bad(["provider", "decide", "x", "approve"], "REQUEST"),
    Bad(["provider", "decide", ID, "approve", "--expires-in", "soon"], "--expires-in"),
    Bad(["provider", "decide", ID, "deny", "--expires-in", "10m"], "--expires-in"),
    Bad(["provider", "decide", ID, "deny", "--note", "x" * 2001], "--note"),
    Bad(["provider", "requests", "--state", "lost"], "--state"),
    Bad(["provider", "requests"], "WAKEGATE_PROVIDER_DATABASE"),
    Bad(["provider", "show", "x"], "REQUEST"),
    Bad(["provider", "redeliver", "x"], "EVENT"),
    Bad(["demo", "--keep", "full"], "full"),
    Bad(["demo", "--keep", "token"], "--keep"),
    Bad(["demo", "--keep", "/proc/wakegate"], "--keep"),
    Bad(["worker"], "WAKEGATE_TOOLS", {"WAKEGATE_TOOLS": "no.such.module"}),
    Bad(["receiver"], "the key file of WAKEGATE_RECEIVER_KEY_FILE", {"WAKEGATE_RECEIVER_KEY_FILE": "bad/receiver.key"}),
]


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    made = Console(tmp_path, monkeypatch, capsys)
    made.secret_file("token", "a-provisioner-token\n")
    made.secret_file("secret", SECRET)
    made.secret_file("empty", "")
    made.secret_file("two-lines", "one\ntwo\n")
    made.secret_file("wide", "token").chmod(0o644)
    (tmp_path / "broken.toml").write_text("database = \n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "receiver.key").touch(mode=0o600)
    (tmp_path / "bad" / "receiver.key").write_text("not a key\n")
    return made


def everything(directory: Path) -> set[Path]:
    """Every file below the directory, but for locks, which hold nothing."""
    return {path for path in directory.rglob("*") if path.suffix != ".lock"}


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_what_is_wrong_is_named_in_one_line(console: Console, bad: Bad) -> None:
    for name, value in bad.settings.items():
        console.set(name, value)
    before = everything(console.directory)
    ran = console(*bad.arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("wakegate: ")
    assert ran.err.count("\n") == 1
    assert bad.names in ran.err
    assert everything(console.directory) == before


def test_each_wrong_setting_has_its_line(console: Console) -> None:
    console.set("WAKEGATE_LISTEN", "x")
    console.set("WAKEGATE_QUEUE", "x")
    ran = console("receiver")
    assert ran.code == 2
    assert sorted(line.split(":")[1].strip() for line in ran.err.splitlines()) == ["WAKEGATE_LISTEN", "WAKEGATE_QUEUE"]


def test_nothing_asked_for_is_answered_with_the_help(console: Console) -> None:
    for arguments in ([], ["execution"], ["instance"], ["db"]):
        ran = console(*arguments)
        assert ran.code == 2
        assert "Commands:" in ran.err


def test_a_wrong_token_is_not_echoed(console: Console) -> None:
    console.secret_file("odd", "planted secret with blanks")
    ran = console(*provision(provisioner_token_file="odd"))
    assert ran.code == 2
    assert "planted" not in ran.err


@pytest.mark.parametrize("command", ["execution list", "instance list", "db migrate", "receiver", "worker"])
def test_a_database_that_is_no_database_is_one_line(console: Console, command: str) -> None:
    console.set("WAKEGATE_LISTEN", "127.0.0.1:0")
    (console.directory / "wakegate.db").write_text("this is not a database, whatever its name says\n" * 100)
    ran = console(*command.split())
    assert ran.code == 2
    assert ran.err.startswith("wakegate: ")
    assert ran.err.count("\n") == 1
    assert "WAKEGATE_DATABASE" in ran.err


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        ("receiver", "WAKEGATE_DATABASE"),
        ("worker", "WAKEGATE_DATABASE"),
        ("up", "WAKEGATE_DATABASE"),
        ("db migrate", "WAKEGATE_DATABASE"),
        ("provider", "WAKEGATE_PROVIDER_DATABASE"),
    ],
)
def test_a_folder_that_is_not_there_is_said_in_the_same_words_by_all(
    console: Console, command: str, setting: str
) -> None:
    console.set(setting, f"sqlite:///{console.directory}/missing/some.db")
    ran = console(*command.split())
    assert ran.code == 2
    assert ran.err == (
        f"wakegate: the folder {console.directory}/missing of the database does not exist; make it first\n"
    )


@pytest.mark.parametrize("arguments", [["refusal", "list"], ["execution", "list"], ["instance", "list"]])
def test_a_place_without_a_store_is_said_by_its_whole_path(console: Console, arguments: list[str]) -> None:
    console.set("WAKEGATE_DATABASE", "sqlite:///wakegate.db")
    ran = console(*arguments)
    assert ran.code == 2
    assert f"there is no store at {console.directory}/wakegate.db; " in ran.err
    assert "WAKEGATE_DATABASE or --config" in ran.err
