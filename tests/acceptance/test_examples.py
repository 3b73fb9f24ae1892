"""The examples, each by the one command that its README gives."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console import run
from support.processes import clean_environment
from support.tables import each_row

ROOT = Path(__file__).parents[2]
EXAMPLES = ("python", "shell", "node")
WITHOUT_WAKEGATE = ("shell", "node")


def commands(name: str) -> list[str]:
    """The commands that an example's README gives, in its root folder."""
    text = (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8")
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, because sockets lie in it."""
    made = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_plays_to_its_end_by_the_command_of_its_readme(name: str, folder: Path) -> None:
    [command] = commands(name)
    needed = {"python": "python3", "shell": "curl", "node": "node"}[name]
    if shutil.which(needed) is None and not os.environ.get("CI"):
        pytest.skip(f"{needed} is not installed")
    played = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        env=clean_environment() | {"VENV": sys.prefix, "EXAMPLE_FOLDER": str(folder)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    ledger = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert [(each["order"]["payment_id"], each["order"]["amount"]) for each in ledger] == [("pay-1", 4900)]
    calls = run(folder, "execution", "list", "--json").json
    assert {(each["key"], each["state"], each["runs"]) for each in calls} == {
        ("run-7:refund-1", "succeeded", "harness"),
        ("run-7:refund-2", "denied", "harness"),
    }
    [paid] = [each["execution_id"] for each in calls if each["state"] == "succeeded"]
    passed = run(folder, "execution", "show", paid, "--json").json["transitions"]
    assert [each["to"] for each in passed].count("started") == 1
    [started] = [each for each in passed if each["to"] == "started"]
    assert started["actor"] == f"harness:{name}"
    if name in WITHOUT_WAKEGATE:
        check_that_wakegate_is_out_of_reach(folder / "bin")


def check_that_wakegate_is_out_of_reach(programs: Path) -> None:
    """All programs that the harness could find are in one folder, and neither Python nor wakegate is among them."""
    names = {each.name for each in programs.iterdir()}
    assert names
    assert not {name for name in names if name.startswith(("python", "pip", "wakegate"))}
    sh = shutil.which("sh")
    assert sh is not None
    for wanted in ("python3", "python", "wakegate", "jq"):
        found = subprocess.run([sh, "-c", f"command -v {wanted}"], env={"PATH": str(programs)}, check=False)
        assert found.returncode != 0
    for program in programs.iterdir():
        assert not program.resolve().is_relative_to(sys.prefix)


@pytest.mark.parametrize("name", WITHOUT_WAKEGATE)
def test_a_harness_without_wakegate_speaks_of_it_by_its_socket_only(name: str) -> None:
    """What is to be copied is short, and needs nothing but what its README names."""
    [harness] = [ROOT / "examples" / name / f"harness.{ending}" for ending in ({"shell": "sh", "node": "mjs"}[name],)]
    text = harness.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert "wakegate_" not in text
    if name == "node":
        assert set(re.findall(r'from "([^"]+)"', text)) <= {f"node:{each}" for each in ("crypto", "fs", "http")} | {
            "node:timers/promises"
        }


JSON = (
    r'{"a": {"b": [1, {"c": "x\u00e9\ud83d\ude00\"q\\\n\/z"}], "n": null, "t": true, "m": -4.90e1},'
    r' "e": {}, "s": "é\u0000"}'
)


@each_row(
    ("path", "expected"),
    [
        (".a.b.0", "1"),
        (".a.b.1.c", 'xé😀"q\\\n/z'),
        (".a.b", r'[1, {"c": "x\u00e9\ud83d\ude00\"q\\\n\/z"}]'),
        (".a.n", ""),
        (".a.t", "true"),
        (".a.m", "-4.90e1"),
        (".e", "{}"),
        (".a.zz", ""),
        ("", JSON),
    ],
)
def test_json_is_read_by_awk_as_it_is_written(path: str, expected: str) -> None:
    read = subprocess.run(
        ["awk", "-v", f"want={path}", "-f", str(ROOT / "examples/shell/json.awk")],
        input=JSON + "\n",
        env=os.environ | {"LC_ALL": "C"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert read.stdout == expected
