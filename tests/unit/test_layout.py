"""The layout of a deployment: one table, and the units and the documentation agree with it."""

import re
from pathlib import Path

import pytest

from wakegate_console import layout
from wakegate_console.installation import unit_files
from wakegate_console.installation.steps import CannotInit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
UNITS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "systemd").iterdir()}


def said(unit: str, name: str) -> list[str]:
    """What a unit says under a name."""
    return re.findall(rf"^{name}=(.*)$", UNITS[unit], flags=re.MULTILINE)


def test_the_page_has_the_table() -> None:
    rows = re.findall(r"^\| `(/[^`]+)` \| (\S+):(\S+) ([0-7]{4}) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert rows == [(str(p.path), p.owner, p.group, f"{p.mode:04o}", p.what) for p in layout.PLACES]


def test_every_place_comes_after_the_directory_it_lies_in() -> None:
    known = [place.path for place in layout.PLACES]
    for number, path in enumerate(known):
        assert path.parent not in known[number:]


def test_nothing_of_ours_is_everybodys_and_no_secret_is_a_groups() -> None:
    for place in layout.PLACES:
        ours = "wakegate" in place.path.parts
        assert not (place.mode & 0o007 and ours)
        assert place.kind != "secret" or not place.mode & 0o077


def test_the_units_are_those_of_the_project() -> None:
    assert set(UNITS) == set(layout.UNIT_NAMES)


@pytest.mark.parametrize(
    ("unit", "user", "secrets"),
    [
        ("wakegate-receiver.service", layout.RECEIVER_USER, {layout.RECEIVER_KEY}),
        ("wakegate-worker@.service", layout.WORKER_USER, {layout.WORKER_KEY, layout.WAKE_SECRET}),
    ],
)
def test_a_unit_has_the_tables_user_and_its_own_secrets_only(unit: str, user: str, secrets: set[Path]) -> None:
    assert (said(unit, "User"), said(unit, "Group")) == ([user], [layout.GROUP])
    assert said(unit, "LoadCredential") == [f"{path.name}:{path}" for path in sorted(secrets)[::-1]]
    others = {place.path for place in layout.PLACES if place.kind == "secret"} - secrets
    assert not any(str(path) in UNITS[unit] or f"/{path.name}" in UNITS[unit] for path in others)
    assert f"WAKEGATE_CONFIG={layout.SETTINGS}" in said(unit, "Environment")
    assert str(layout.STATE) in said(unit, "ReadWritePaths")[0].split()


def test_the_socket_is_the_harnesses() -> None:
    unit = "wakegate-receiver.socket"
    assert str(layout.CONTROL) in said(unit, "ListenStream")
    assert (said(unit, "SocketGroup"), said(unit, "SocketMode")) == ([layout.HARNESS_GROUP], ["0660"])


def test_the_worker_works_where_nobody_but_root_writes() -> None:
    assert said("wakegate-worker@.service", "WorkingDirectory") == [str(layout.TOOLS)]
    place = layout.place(layout.TOOLS)
    assert (place.owner, place.mode & 0o022) == ("root", 0)


def test_only_the_program_is_replaced_in_a_unit() -> None:
    for name, text in UNITS.items():
        made = unit_files.unit(name, ["/srv/w/python", "-m", "wakegate_console"])
        changed = [(a, b) for a, b in zip(text.splitlines(), made.splitlines(), strict=True) if a != b]
        assert len(changed) == len(said(name, "ExecStart"))
        assert all(b == re.sub(r"=\S+/wakegate ", "=/srv/w/python -m wakegate_console ", a) for a, b in changed)


@pytest.mark.parametrize("program", ["/srv/my programs/wakegate", "/srv/100%/wakegate", "/srv/$HOME/wakegate"])
def test_a_path_that_a_unit_would_read_another_way_is_refused(program: str) -> None:
    with pytest.raises(CannotInit, match="cannot hold plainly"):
        unit_files.unit("wakegate-receiver.service", [program])


def test_a_place_that_is_not_in_the_table_is_none() -> None:
    with pytest.raises(KeyError):
        layout.place(Path("/etc/passwd"))
