"""`wakegate init`: a folder to develop in, with settings that load as they are, and nothing overwritten."""

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from support.console import Console, run
from wakegate_schema.settings import Settings, load_settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that `init` has made."""
    folder = tmp_path / "desk"
    made = run(tmp_path, "init", str(folder))
    assert made.code == 0, made.err
    return folder


def test_it_has_two_files_and_says_what_comes_next(tmp_path: Path) -> None:
    made = run(tmp_path, "init", "desk")
    assert made.code == 0
    assert {path.name for path in (tmp_path / "desk").iterdir()} == {"wakegate.toml", ".gitignore"}
    assert [line.split()[0] for line in made.out.splitlines()[1:4]] == ["made"] * 3
    assert "  cd desk\n" in made.out
    for command in ("provider ", "up ", "instance provision ", "provider decide "):  # as it can be called, on no PATH
        assert f"/wakegate {command}" in made.out


def test_without_a_name_it_is_the_working_directory(tmp_path: Path) -> None:
    assert run(tmp_path, "init").code == 0
    assert (tmp_path / "wakegate.toml").is_file()


def test_the_settings_load_as_they_are_and_say_nothing_but_the_defaults(folder: Path) -> None:
    assert load_settings(folder / "wakegate.toml", {}).model_dump() == Settings().model_dump()


def test_the_settings_load_with_every_line_in_force_and_have_them_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / "wakegate.toml").read_text()
    path = folder / "all.toml"
    path.write_text(re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE))
    monkeypatch.chdir(folder)
    for name in ("policy.toml", "server.pem", "server.key"):
        (folder / name).touch(mode=0o600)
    settings = load_settings(path, {})
    assert settings.model_fields_set == set(Settings.model_fields)
    changed = {name for name in Settings.model_fields if getattr(settings, name) != Settings.model_fields[name].default}
    told = {name for name in changed if (Settings.model_fields[name].json_schema_extra or {}).get("words")}  # type: ignore[union-attr]
    assert changed == told, "a line shows another value than the default"


def test_what_the_services_make_there_is_never_committed(folder: Path, tmp_path: Path) -> None:
    patterns = (folder / ".gitignore").read_text().split()
    paths = {getattr(Settings(), name) for name in dir(Settings) if name.endswith("_path") and name != "events_path"}
    names = {path.name for path in paths} | {f"{Settings().database_path}{end}" for end in ("-wal", "-shm", "-open")}
    for name in names | {"wakegate.sock", "wakegate.sock.lock", "receiver.key.old", "wakegate.db-replaced-2026"}:
        assert any(fnmatchcase(name, pattern) for pattern in patterns), name
    assert not any(fnmatchcase("wakegate.toml", pattern) for pattern in patterns)


def test_again_it_changes_nothing(folder: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    again = run(folder, "init", "--json")
    assert (again.code, {step["state"] for step in again.json}) == (0, {"was there"})
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["wakegate.toml", ".gitignore"])
@pytest.mark.parametrize("odd", ["folder", "pipe", "device", "nothing"])
def test_what_is_no_file_is_said_to_be_in_the_way_and_not_read(tmp_path: Path, name: str, odd: str) -> None:
    path = tmp_path / name
    if odd in ("folder", "pipe"):
        path.mkdir() if odd == "folder" else os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if odd == "device" else "/nothing/there")
    done = run(tmp_path, "init", "--json")
    said = {Path(step["name"]).name: (step["state"], step["detail"]) for step in done.json}[name]
    assert (done.code, said[0], "move it away" in said[1]) == (1, "differs", True)


def test_what_is_there_is_kept_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "wakegate.toml").write_text('log_level = "debug"\n')
    (tmp_path / ".gitignore").write_text("*.db\n*.key\n")
    done = run(tmp_path, "init")
    assert done.code == 1
    assert "add to it: *.db-* *.key.old" in done.out
    assert (tmp_path / "wakegate.toml").read_text() == 'log_level = "debug"\n'
    assert (tmp_path / ".gitignore").read_text() == "*.db\n*.key\n"


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "init", "desk", "--dry-run", "--json")
    assert (done.code, {step["state"] for step in done.json}) == (0, {"would be made"})
    assert not (tmp_path / "desk").exists()


def test_a_link_to_nothing_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "wakegate.toml").symlink_to(tmp_path / "elsewhere" / "wakegate.toml")
    done = run(tmp_path, "init")
    assert (done.code, "a link to nothing" in done.out) == (1, True)


@pytest.mark.parametrize("arguments", [("--root", "."), ("--system", "desk"), ("wakegate.toml",)])
def test_what_does_not_go_together_is_refused(console: Console, arguments: tuple[str, ...]) -> None:
    (console.directory / "wakegate.toml").touch()
    assert console("init", *arguments).code == 2


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "init", "no/such/parent")
    assert done.code == 1
    assert "no/such/parent: No such file or directory" in done.err
