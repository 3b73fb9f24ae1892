"""docs/doctor.md lists exactly the checks there are, and says of each verdict of each what it means."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from support.tables import each_row
from wakegate_console.doctor import (
    certificates,
    clock,
    instances,
    keys,
    postgresql,
    provider,
    public_url,
    queue,
    settings,
    store,
    users,
    work,
)
from wakegate_console.doctor.catalogue import CHECKS
from wakegate_console.doctor.check import Check
from wakegate_receiver.answers import ANSWERS

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+\.\w+)` \| (.+?) \| (.+) \|$", PAGE, flags=re.MULTILINE)
AREAS = {
    "settings": settings, "keys": keys, "users": users, "clock": clock, "store": store, "postgresql": postgresql,
    "queue": queue, "instances": instances,
    "provider": provider, "url": public_url,
}  # fmt: skip
VERDICTS = {"note", "warning", "problem"}


def said_by(module: ModuleType, name: str, seen: set[str] | None = None) -> Iterator[str]:
    """The verdicts that a function may give, by itself and by what it calls in its own module or of certificates."""
    seen = set() if seen is None else seen
    if (
        name in seen
        or not inspect.isfunction(found := getattr(module, name, None))
        or found.__module__ != module.__name__
    ):
        return
    seen.add(name)
    for node in ast.walk(ast.parse(inspect.getsource(found))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from {node.func.id} & VERDICTS
        if isinstance(node, ast.Name):
            yield from said_by(module, node.id, seen)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "certificates":
            yield from said_by(certificates, node.attr, seen)


def test_the_page_lists_exactly_the_checks_in_their_order() -> None:
    assert [name for name, _, _ in ROWS] == [check.name for check in CHECKS]
    assert len({check.name for check in CHECKS}) == len(CHECKS) > 40


def test_every_check_stands_under_its_area() -> None:
    sections = re.split(r"^## (\w+)$", PAGE, flags=re.MULTILINE)
    for area, text in zip(sections[1::2], sections[2::2], strict=True):
        assert {name.partition(".")[0] for name in re.findall(r"^\| `(\w+\.\w+)` \|", text, re.MULTILINE)} == {area}
    assert sections[1::2] == list(AREAS)


JUDGED = [check for check in CHECKS if check.name != settings.LOAD]


@each_row("check", JUDGED, ids=lambda each: each.name)
def test_every_verdict_of_a_check_is_explained_and_none_that_it_cannot_give(check: Check) -> None:
    module = work if check in work.CHECKS else AREAS[check.name.partition(".")[0]]
    (text,) = [f"{told}" for name, _, told in ROWS if name == check.name]
    given = set(said_by(module, check.look.__name__))
    if check.name == "keys.worker":
        assert text == "the same"
        return
    if check.name == "url.tls":
        assert text == "as `provider.certificate`"
        return
    if check.name in ("store.file", "postgresql.reach"):
        given |= {"problem"}  # what the look at the store has found
    assert set(re.findall(r"\*\*(note|warning|problem)\*\*", text)) == given


def test_what_is_left_out_offline_is_said() -> None:
    left = {name for name, looks, told in ROWS if "Not with `--offline`" in looks + told}
    assert left == {check.name for check in CHECKS if check.network}


def test_the_causes_are_of_reasons_that_the_receiver_gives() -> None:
    assert set(work.CAUSES) < set(ANSWERS)
    assert set(public_url._CHANGED) < set(ANSWERS)
    assert set(public_url._OF_REGISTRATIONS) < set(ANSWERS)
