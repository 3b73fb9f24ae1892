"""The README and the pages hold together: their links lead somewhere, their code is whole, their lists are complete."""

import ast
import builtins
import importlib
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

from support.executions import an_execution
from support.pages import FRAGMENT, PAGES, ROOT, Block, blocks
from support.tables import each_row
from wakegate_adapter import Resolution, Ticket
from wakegate_console import views
from wakegate_schema import outcome_texts
from wakegate_schema.resolution import resolution_of
from wakegate_schema.states import RESOLVED, State
from wakegate_worker import Attempt, tool, wake_message
from wakegate_worker.registry import DEFAULT_TIMEOUT

PYTHON = [block for page in PAGES for block in blocks(page, "python")]
GIVEN = {"adapter", "execution_id", "claim_id", "call"}
"""What a fragment may use without making it."""


def text(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def table(page: str, header: str) -> list[str]:
    """The words in backquotes in the first column of the table under this header."""
    rows = page.split(f"{header}\n|---|---|", 1)[1].partition("\n\n")[0].splitlines()[1:]
    return [word for row in rows for word in re.findall(r"`(\w+)`", row.split(" | ")[0])]


@each_row("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_something(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]*)(#[^)]+)?\)", page.read_text(encoding="utf-8")):
        path, anchor = target
        found = page.parent / path if path else page
        assert "://" in path or found.exists(), path
        if anchor and found.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor[1:] in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_list() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", text("README.md")))
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}


@each_row("block", PYTHON, ids=lambda block: f"{block.page}:{block.program or 'fragment'}")
def test_every_python_block_is_a_program_or_a_fragment_and_whole(block: Block) -> None:
    fragment = block.text.startswith(f"{FRAGMENT}\n")
    assert fragment or block.program
    code = block.text
    if fragment:
        code = "async def fragment():\n" + "".join(f"    {line}\n" for line in block.text.splitlines())
    tree = ast.parse(code)
    made = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    made |= {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
             for alias in node.names}  # fmt: skip
    made |= {node.name for node in ast.walk(tree) if hasattr(node, "name") and isinstance(node.name, str)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used - made - vars(builtins).keys() - {"__name__"} - (GIVEN if fragment else set()) == set()


@each_row("block", PYTHON, ids=lambda block: f"{block.page}:{block.program or 'fragment'}")
def test_every_import_in_a_block_is_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text) if block.program else ast.Module([], [])):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, alias.name) for alias in node.names)


def test_no_key_is_used_for_two_calls() -> None:
    keys = [key for block in PYTHON for key in re.findall(r'key="([^"]+)"', block.text)]
    assert len(keys) == len(set(keys)) > 0


def test_every_field_of_a_ticket_and_a_resolution_is_listed() -> None:
    page = text("harness.md")
    assert set(table(page, "| `Ticket` | |")) == {field.name for field in fields(Ticket)}
    assert set(table(page, "| `Resolution` | |")) == {field.name for field in fields(Resolution)} | {"explanation"}


def test_the_wake_in_the_document_has_the_fields_of_one() -> None:
    page = text("wakes.md")
    example, group = re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)
    assert list(json.loads(group)["data"]) == list(wake_message.GroupTold().to_json())
    whole = resolution_of(an_execution(state=State.SUCCEEDED), "id").to_json()
    assert re.findall(r'^    "(\w+)":', example, flags=re.MULTILINE) == list(whole)
    kinds = set(re.findall(r"^\| `((?:execution|group)\.\w+)` \|", page, flags=re.MULTILINE))
    assert kinds == {*wake_message.TYPES.values(), wake_message.RESOLVED, wake_message.GROUP}
    (resolved,) = re.findall(r"^\| `execution.resolved` \| (.*);", page, flags=re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", resolved)) == set(map(str, RESOLVED))


def test_the_attempt_and_the_decorator_of_a_tool_are_listed() -> None:
    page = text("tools.md")
    shown = {name for name in dir(Attempt) if not name.startswith("_")}
    assert set(table(page, "| `Attempt` | |")) == shown
    rows = re.findall(r"^\| `(\w+)` \| (?:`\"1\"`|60|none|the function's name) \|", page, flags=re.MULTILINE)
    options = inspect.signature(tool).parameters.values()
    assert rows == [option.name for option in options if option.kind is option.KEYWORD_ONLY]
    assert DEFAULT_TIMEOUT == 60
    assert f"{outcome_texts.RESULT_LIMIT:,} bytes" in page
    assert f"{outcome_texts.MESSAGE_LIMIT} characters" in page


def test_every_state_and_every_field_of_an_execution_is_explained() -> None:
    page = text("executions.md")
    assert table(page, "| state | meaning |") == list(map(str, State))
    shown = [inspect.getsource(view) for view in (views.execution, views.execution_words, views.execution_payload)]
    assert set(table(page, "| field | meaning |")) == set(re.findall(r'"(\w+)":', "".join(shown)))
