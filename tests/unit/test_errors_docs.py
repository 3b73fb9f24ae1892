"""Every error's reason is documented."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from support.tables import each_row
from wakegate_schema.errors import WakegateError

ROOT = Path(__file__).parents[2]
PACKAGES = ("schema", "receiver", "worker", "adapter", "provider", "console")
PROGRAMS = {"wakegate_console.__main__", "wakegate_provider.__main__"}
"""Modules that run when they are imported."""
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
PAGES = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))


def errors(kind: type[WakegateError]) -> Iterator[type[WakegateError]]:
    """A kind of error and all kinds of it."""
    yield kind
    for each in kind.__subclasses__():
        yield from errors(each)


def classes() -> list[type[WakegateError]]:
    """Every error there is, once every module was read."""
    for name in PACKAGES:
        package = importlib.import_module(f"wakegate_{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name not in PROGRAMS:
                importlib.import_module(module.name)
    return [each for each in errors(WakegateError) if each.__module__.startswith("wakegate_")]


def literals() -> set[str]:
    """Every reason that is given where an error is raised."""
    sources = [path for name in PACKAGES for path in (ROOT / name / f"wakegate_{name}").rglob("*.py")]
    return {word for path in sources for word in re.findall(r'reason="([a-z_]+)"', path.read_text(encoding="utf-8"))}


def test_every_class_of_error_is_on_the_page() -> None:
    reasons = {each.reason for each in classes()} - {WakegateError.reason, "unforeseen"}
    assert len(reasons) > 50
    assert {reason for reason in reasons if f"| `{reason}` |" not in PAGE} == set()


def test_every_reason_an_error_is_raised_with_is_documented() -> None:
    found = literals()
    assert len(found) > 50
    assert {reason for reason in found if f"`{reason}`" not in PAGES} == set()


@each_row("row", re.findall(r"^\| `([a-z_]+)` \|", PAGE, flags=re.MULTILINE))
def test_nothing_on_the_page_is_gone(row: str) -> None:
    assert row in {each.reason for each in classes()} | literals()
