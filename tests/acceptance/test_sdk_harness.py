"""The harness written for the public SDK alone: as it is, and after the change of docs/adopting-from-the-sdk.md."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console import run
from support.pages import ROOT, blocks
from support.processes import clean_environment

EXAMPLE = ROOT / "examples" / "sdk_harness"
PAGE = ROOT / "docs" / "adopting-from-the-sdk.md"
COMMANDS = [line for block in blocks(EXAMPLE / "README.md", "sh") for line in block.text.splitlines()]
PAID = {"before": ["pay-1", "pay-3"], "after": ["pay-1", "pay-3"], "moved": ["pay-1"]}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, because sockets lie in it."""
    made = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("command", COMMANDS)
def test_it_plays_to_its_end_by_the_commands_of_its_readme(command: str, folder: Path) -> None:
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
    name = command.split()[-1]
    ledger = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert [each["order"]["payment_id"] for each in ledger] == PAID[name]
    original = (EXAMPLE / "refund_desk.py").read_text(encoding="utf-8")
    copy = (folder / "desk" / "refund_desk.py").read_text(encoding="utf-8")
    if name == "before":
        assert copy == original
    else:
        assert copy == changed(original, diff())
        assert run(folder, "execution", "list", "--json").json == []


def test_every_way_to_play_it_is_tested() -> None:
    assert [command.split() for command in COMMANDS] == [["examples/sdk_harness/run", name] for name in PAID]


def test_the_page_shows_the_change_that_is_applied() -> None:
    assert diff() == (EXAMPLE / "adopt.diff").read_text(encoding="utf-8")
    lines = [line for line in diff().splitlines() if re.match(r"[+-](?![+-])", line)]
    assert sum(line.startswith("-") for line in lines) <= 10
    assert sum(line.startswith("+") for line in lines) <= 10
    assert "wakegate_" not in changed((EXAMPLE / "refund_desk.py").read_text(encoding="utf-8"), diff())


def test_the_harness_knows_nothing_of_wakegate() -> None:
    for file in EXAMPLE.glob("*.py"):
        imported = {
            name.partition(".")[0]
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        }
        assert "agentapprovalprotocol" in imported
        assert not {name for name in imported if name.startswith("wakegate")}


def test_every_recipe_names_a_function_that_it_has() -> None:
    recipes = [block.text for block in blocks(PAGE, "py")]
    assert len(recipes) == 5
    for recipe in recipes:
        functions = {node.name for node in ast.walk(ast.parse(recipe)) if isinstance(node, ast.FunctionDef)}
        [named] = re.findall(r"WAKEGATE_RESUMERS=[a-z-]+=refund_desk:(\w+)", recipe)
        assert named in functions


def diff() -> str:
    """The page's diff."""
    [block] = blocks(PAGE, "diff")
    return block.text


def changed(text: str, change: str) -> str:
    """Apply a unified diff, whose every hunk must be found as it stands."""
    for hunk in re.split(r"^@@ .*\n", change, flags=re.MULTILINE)[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text
