"""`wakegate harness`: what it writes, what it leaves alone, and what it refuses."""

import hashlib
import os
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support.console import Console, command, environment, prepared, run
from support.desk import Desk
from wakegate_schema.settings import load_settings

COMMENTED = """\
# the refund desk's
log_level = "debug"  # while it is new

[harness.first]  # the old one
uid = 1200  # its user
instances = ["refund-desk"]

# told when a call is resolved
[wake.desk]
kind = "http"
url = "https://harness.example/wakes"

[harness.second]
uid = 1201
instances = [
    "refund-desk",  # the one
]
"""


def harness_tables(console: Console) -> dict[str, Any]:
    """What the settings file says of harnesses."""
    document: dict[str, Any] = tomllib.loads((console.directory / "wakegate.toml").read_text())
    tables: dict[str, Any] = document.get("harness", {})
    return tables


def add(console: Console, name: str, *arguments: str) -> Any:
    """Add a harness that may use the refund desk."""
    return console("harness", "add", name, "--instance", "refund-desk", *arguments)


def test_the_first_harness_makes_the_settings_file(console: Console) -> None:
    added = add(console, "refunds", "--uid", "1200")
    assert added.code == 0
    assert added.out.splitlines()[0] == "refunds: uid 1200; may use refund-desk"
    assert harness_tables(console) == {"refunds": {"uid": 1200, "instances": ["refund-desk"]}}
    assert load_settings(environ={}).harness["refunds"].uid == 1200
    assert stat.S_IMODE((console.directory / "wakegate.toml").stat().st_mode) == 0o644


def test_a_user_may_be_named(console: Console) -> None:
    assert add(console, "refunds", "--uid", "root").code == 0
    assert console("harness", "list", "--json").json == [
        {"harness": "refunds", "uid": 0, "user": "root", "token_sha256": None, "instances": ["refund-desk"]}
    ]


def test_a_token_is_made_once_and_only_its_digest_is_written_down(console: Console) -> None:
    file = console.directory / "refunds.token"
    first = add(console, "refunds", "--token-file", str(file))
    assert first.code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().rstrip("\n")
    assert len(token) >= 43
    digest = hashlib.sha256(token.encode()).hexdigest()
    assert harness_tables(console) == {"refunds": {"token_sha256": digest, "instances": ["refund-desk"]}}
    again = add(console, "refunds", "--token-file", str(file))
    assert again.code == 0
    assert again.out.startswith("refunds is there already, just so: the token in ")
    assert file.read_text() == f"{token}\n"
    everything = [first.out, first.err, again.out, (console.directory / "wakegate.toml").read_text()]
    assert not any(token in text for text in everything)


def test_comments_order_mode_and_a_link_are_kept(console: Console) -> None:
    real = console.directory / "real.toml"
    real.write_text(COMMENTED)
    real.chmod(0o640)
    (console.directory / "wakegate.toml").symlink_to(real)
    assert add(console, "third", "--uid", "1202").code == 0
    assert real.read_text() == f'{COMMENTED}\n[harness.third]\nuid = 1202\ninstances = ["refund-desk"]\n'
    assert (stat.S_IMODE(real.stat().st_mode), (console.directory / "wakegate.toml").is_symlink()) == (0o640, True)
    assert console("harness", "remove", "third").code == 0
    assert real.read_text() == COMMENTED


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="only root may give a file away")
def test_the_owner_is_kept(console: Console) -> None:
    file = console.directory / "wakegate.toml"
    file.write_text(COMMENTED)
    os.chown(file, 1200, 1201)
    assert add(console, "third", "--uid", "1202").code == 0
    assert (file.stat().st_uid, file.stat().st_gid) == (1200, 1201)


def test_replacing_changes_values_and_keeps_comments_and_place(console: Console) -> None:
    file = console.directory / "wakegate.toml"
    file.write_text(COMMENTED)
    refused = add(console, "first", "--uid", "1300")
    assert (refused.code, file.read_text()) == (1, COMMENTED)
    assert "first is there with other values (uid 1200; may use refund-desk); see --replace" in refused.err
    assert add(console, "first", "--uid", "1300", "--replace").code == 0
    assert file.read_text() == COMMENTED.replace("1200", "1300")
    assert console("harness", "remove", "first").code == 0
    kept = COMMENTED.replace(
        '[harness.first]  # the old one\nuid = 1200  # its user\ninstances = ["refund-desk"]\n\n', ""
    )
    assert file.read_text() == kept


def test_a_refused_change_makes_no_token(console: Console) -> None:
    assert add(console, "refunds", "--uid", "1200").code == 0
    assert add(console, "refunds", "--token-file", "new.token").code == 1
    assert not (console.directory / "new.token").exists()
    assert add(console, "refunds", "--token-file", "new.token", "--replace").code == 0
    assert set(harness_tables(console)["refunds"]) == {"token_sha256", "instances"}


REFUSED = [
    (("--instance", "a"), "Give --uid, --token-file or both"),
    (("--uid", "5"), "'--instance'"),
    (("--instance", "a", "--uid", "nobody-of-that-name"), "is no user of this machine"),
    (("--instance", "a", "--uid", "65534"), "must not be 65534"),
    (("--instance", "a", "--uid", "99999999999"), "must be a user's number"),
    (("--instance", "a", "--uid", "1200"), "first and new have one uid"),
    (("--instance", "a\tb", "--uid", "5"), "control characters"),
    (("--instance", "a", "--token-file", "short.token"), "holds fewer than 32 characters"),
    (("--instance", "a", "--token-file", "open.token"), "run: chmod 600"),
    (("--instance", "a", "--token-file", "no/such/folder"), "make it first"),
    ((*[word for n in range(101) for word in ("--instance", f"i{n}")], "--uid", "5"), "a list of 1 to 100"),
]


@pytest.mark.parametrize(("arguments", "expected"), REFUSED)
def test_what_would_not_load_or_prove_anything_is_refused(
    console: Console, arguments: tuple[str, ...], expected: str
) -> None:
    file = console.directory / "wakegate.toml"
    file.write_text(COMMENTED)
    console.secret_file("short.token", "too-short\n")
    console.secret_file("open.token", "x" * 43 + "\n").chmod(0o644)
    ran = console("harness", "add", "new", *arguments)
    assert (ran.code, file.read_text()) == (2, COMMENTED)
    assert expected in ran.err
    assert "too-short" not in ran.err


def test_a_malformed_name_is_refused(console: Console) -> None:
    assert add(console, "Refunds", "--uid", "5").code == 2
    assert not (console.directory / "wakegate.toml").exists()


@pytest.mark.parametrize(
    "text",
    [
        'harness = { first = { uid = 1200, instances = ["a"] } }\n',
        'harness.first.uid = 1200\nharness.first.instances = ["a"]\n',
        '[harness]\nfirst.uid = 1200\nfirst.instances = ["a"]\n',
    ],
)
def test_a_form_that_only_a_person_can_change_is_left_alone(console: Console, text: str) -> None:
    file = console.directory / "wakegate.toml"
    file.write_text(text)
    for arguments in (("add", "first", "--instance", "a", "--uid", "7", "--replace"), ("remove", "first")):
        ran = console("harness", *arguments)
        assert (ran.code, file.read_text()) == (2, text)
        assert "edit the file by hand" in ran.err
    assert [row["uid"] for row in console("harness", "list", "--json").json] == [1200]


def test_a_file_that_does_not_load_is_not_touched(console: Console) -> None:
    file = console.directory / "wakegate.toml"
    file.write_text('lisen = "x"\n')
    ran = add(console, "refunds", "--uid", "5")
    assert (ran.code, file.read_text()) == (2, 'lisen = "x"\n')
    assert "did you mean listen?" in ran.err


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(console: Console) -> None:
    file = console.directory / "wakegate.toml"
    file.write_text(COMMENTED)
    for folder in [console.directory, *console.directory.parents][:-2]:
        folder.chmod(0o755)
    os.seteuid(1200)
    try:
        ran = add(console, "third", "--uid", "1202")
    finally:
        os.seteuid(0)
    assert (ran.code, ran.err) == (2, f"wakegate: {file} cannot be written: Permission denied\n")
    assert [each.name for each in console.directory.iterdir()] == ["wakegate.toml"]
    assert file.read_text() == COMMENTED


def test_a_named_file_is_the_one_that_is_changed(console: Console) -> None:
    named = console.directory / "named.toml"
    assert console("--config", "named.toml", "harness", "add", "a", "--instance", "b", "--uid", "5").code == 2
    named.write_text("")
    assert console("--config", "named.toml", "harness", "add", "a", "--instance", "b", "--uid", "5").code == 0
    assert named.read_text() == '[harness.a]\nuid = 5\ninstances = ["b"]\n'
    assert not (console.directory / "wakegate.toml").exists()


def test_an_instance_that_is_not_there_is_warned_of(console: Console) -> None:
    assert "the store has no instance refund-desk; it has none yet" in add(console, "early", "--uid", "5").err

    async def instance_id(desk: Desk) -> str:
        return desk.instance_id

    known = prepared(console, instance_id)
    assert add(console, "by-name", "--uid", "6").err == ""
    by_id = console("harness", "add", "by-id", "--instance", known.upper(), "--uid", "7")
    assert (by_id.code, by_id.err) == (0, "")
    assert harness_tables(console)["by-id"]["instances"] == [known]
    wrong = console("harness", "add", "wrong", "--instance", "refund-dsk", "--uid", "8")
    assert (wrong.code, wrong.err) == (0, "wakegate: the store has no instance refund-dsk; it has refund-desk\n")


def test_a_uid_alone_is_warned_of_where_no_user_is_seen(console: Console) -> None:
    console.set("WAKEGATE_CONTROL", "127.0.0.1:9999")
    assert "where no user is seen; give --token-file too" in add(console, "refunds", "--uid", "5").err
    assert "no user is seen" not in add(console, "other", "--token-file", "t").err


def test_the_list_is_a_table_for_people(console: Console) -> None:
    assert console("harness", "list").out == "There are no harnesses.\n"
    add(console, "refunds", "--uid", "0", "--token-file", "t")
    add(console, "other", "--uid", "4000000000")
    assert [line.split() for line in console("harness", "list").out.splitlines()] == [
        ["HARNESS", "UID", "USER", "TOKEN", "INSTANCES"],
        ["refunds", "0", "root", "yes", "refund-desk"],
        ["other", "4000000000", "-", "-", "refund-desk"],
    ]
    assert len(console("harness", "list", "--json", "--limit", "1").json) == 1


def test_removing_what_is_not_there_is_refused(console: Console) -> None:
    ran = console("harness", "remove", "refunds")
    assert (ran.code, ran.err) == (1, "wakegate: there is no harness refunds; see `wakegate harness list`\n")


def test_commands_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "wakegate.toml").write_text(COMMENTED)
    names = [f"h{number}" for number in range(3)]
    running = [
        subprocess.Popen(
            command("harness", "add", name, "--instance", "a", "--uid", str(2000 + number)),
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number, name in enumerate(names)
    ]
    assert [process.wait(60) for process in running] == [0] * len(names)
    listed = run(tmp_path, "harness", "list", "--json").json
    assert {row["harness"] for row in listed} == {"first", "second", *names}
