"""Every log line says its `action`, and docs/logs.md explains every action."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
EXPLAINED = re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE)
LEVELS = {"debug", "info", "warning", "error", "exception"}
GIVEN = {"lease", "cancel", "wake", "sweep", "mark", "prune", "warn", "wal", "in_doubt", "watch", "probe"}
"""Actions that are handed to what writes the line: the names of pumps and of periodic work (worker.py)."""


def calls() -> list[tuple[str, ast.Call]]:
    """Every call that writes a log line, with its place."""
    found = []
    for file in ROOT.glob("*/wakegate_*/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in LEVELS and re.fullmatch(r"(self\.)?_?log", ast.unparse(node.func.value)):
                found.append((f"{file.relative_to(ROOT)}:{node.lineno}", node))
    return found


def action_of(call: ast.Call) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == "action"), None)


def fixed(event: ast.expr) -> bool:
    return isinstance(event, ast.Constant) or (
        isinstance(event, ast.IfExp) and fixed(event.body) and fixed(event.orelse)
    )


def test_every_line_says_its_action() -> None:
    lacking = [place for place, call in calls() if action_of(call) is None]
    assert not lacking


def test_every_line_says_the_same_words_each_time() -> None:
    """What differs is in fields: an event's text can be searched for."""
    varying = [place for place, call in calls() if not call.args or not fixed(call.args[0])]
    assert not varying


def test_the_page_explains_every_action_and_no_other() -> None:
    written = {found.value for _, call in calls() if isinstance(found := action_of(call), ast.Constant)}
    assert set(EXPLAINED) == written | GIVEN | {"library", "log"}


def test_the_actions_are_in_the_order_of_the_alphabet_and_each_once() -> None:
    assert sorted(set(EXPLAINED)) == EXPLAINED
