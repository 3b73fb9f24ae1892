"""docs/conformance.md has every requirement once, and every test it names; every conformance test is in it."""

import ast
import re
from pathlib import Path
from typing import Final

from support.tables import each_row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
PARTS: Final = {"Adapter": 8, "Asynchronous adapter": 7, "Provider": 12, "Asynchronous provider": 8}
"""How many requirements AAP's page "Security and conformance" numbers for each."""
NAMED: Final = {
    "adapter": "Adapter",
    "async": "Asynchronous adapter",
    "provider": "Provider",
    "async_provider": "Asynchronous provider",
}
"""The part that a test's name says."""
LINK = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")


def rows(part: str) -> list[tuple[int, str]]:
    """The numbers of a part's table, each with its row."""
    _, _, rest = PAGE.partition(f"\n## {part}\n")
    section = rest.partition("\n## ")[0]
    return [(int(number), row) for number, row in re.findall(r"^\| (\d+) (\|.*\|)$", section, flags=re.MULTILINE)]


def cases_of(path: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: node for node in found if node.name.startswith("test_")}


def conformance_tests() -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The tests of the folder, all of them."""
    return {
        name: test for path in (ROOT / "tests/conformance").glob("test_*.py") for name, test in cases_of(path).items()
    }


@each_row(("part", "count"), PARTS.items())
def test_every_number_is_there_once(part: str, count: int) -> None:
    assert [number for number, _ in rows(part)] == list(range(1, count + 1))


def test_every_row_says_how_and_names_a_test_that_is_there() -> None:
    for part in PARTS:
        for number, row in rows(part):
            requirement, how, shown = (cell.strip() for cell in row.strip("|").split(" | "))
            assert requirement
            assert how.endswith("."), (part, number)
            links = LINK.findall(shown)
            assert links, (part, number)
            assert shown.count("](") == len(links)
            for name, path in links:
                assert name in cases_of(ROOT / path), (part, number, name)


def test_every_conformance_test_is_named_after_its_requirement_and_stands_in_its_row() -> None:
    found = conformance_tests()
    assert len(found) > 30
    for name in found:
        named = re.fullmatch(r"test_(adapter|async|provider|async_provider)_(\d+)_[a-z_]+", name)
        assert named, name
        assert f"[`{name}`]" in dict(rows(NAMED[named[1]]))[int(named[2])], name


def test_every_requirement_of_an_adapter_has_a_test_of_its_own() -> None:
    named = [re.match(r"test_(adapter|async)_(\d+)_", name) for name in conformance_tests()]
    found = {(NAMED[each[1]], int(each[2])) for each in named if each}
    assert found == {(part, number) for part, count in list(PARTS.items())[:2] for number in range(1, count + 1)}


def test_an_asynchronous_call_is_shown_in_the_worker_and_in_a_harness() -> None:
    both = {
        int(name.split("_")[2])
        for name, test in cases_of(ROOT / "tests/conformance/test_asynchronous_adapter.py").items()
        if any(ast.unparse(decorator) == "RUNS" for decorator in test.decorator_list)
    }
    assert both == {1, 2, 4, 5, 6, 7}, "a challenge comes before there is any call"


def test_a_synchronous_call_is_held_in_every_form() -> None:
    for name, test in cases_of(ROOT / "tests/conformance/test_adapter.py").items():
        assert {"hold", "holds"} & {argument.arg for argument in test.args.args}, name
