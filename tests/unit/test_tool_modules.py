"""Modules of tools are imported by name; what is wrong with one is said in one line, with its file and line."""

import functools
import shlex
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wakegate_worker import Attempt, tool
from wakegate_worker.registry import RegistryError
from wakegate_worker.tool_modules import load_tools


@pytest.fixture
def make_module() -> Iterator[Callable[..., str]]:
    """Make an importable module that holds the given values."""
    made = []

    def make(name: str, **values: object) -> str:
        module = types.ModuleType(name)
        vars(module).update(values)
        sys.modules[name] = module
        made.append(name)
        return name

    yield make
    for name in made:
        del sys.modules[name]


def refund(attempt: Attempt, payment_id: str, amount: int = 1) -> None:
    """Do nothing; a function of the usual form."""


def fresh(function: Callable[..., Any] = refund) -> Callable[..., Any]:
    """Return a new function of the same form, so that decorating it changes no other test's."""
    return types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def test_modules_give_their_tools_by_name(make_module: Callable[..., str]) -> None:
    one, two = fresh(), fresh()
    tool(name="one")(one)
    tool(name="two")(two)
    tools = load_tools([make_module("shop_a", one=one), make_module("shop_b", two=two, one=one)])
    assert sorted(tools) == ["one", "two"]
    with pytest.raises(TypeError):
        tools["three"] = tools["one"]  # type: ignore[index]


def test_no_modules_give_no_tools() -> None:
    assert dict(load_tools([])) == {}


def test_two_functions_of_one_name_are_refused(make_module: Callable[..., str]) -> None:
    one, two = tool()(fresh()), tool()(fresh())
    with pytest.raises(RegistryError, match="'refund' is registered twice") as caught:
        load_tools([make_module("shop_a", one=one), make_module("shop_b", two=two)])
    assert caught.value.reason == "tool_registered_twice"


def test_a_missing_module_is_refused_by_name() -> None:
    for name in ("wakegate_no_such_module", "wakegate_worker.no_such_module", "wakegate_no_such.tools"):
        with pytest.raises(RegistryError, match=f"WAKEGATE_TOOLS: there is no module '{name}'"):
            load_tools([name])


def test_a_module_that_lacks_something_itself_is_told_apart(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_lacking.py").write_text("import wakegate_no_such_module\n")
    (tmp_path / "shop_broken.py").write_text("raise RuntimeError('s3cr3t')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("shop_lacking", "shop_broken"):
        with pytest.raises(RegistryError, match="cannot be imported") as caught:
            load_tools([name])
        assert name in str(caught.value)
        assert "s3cr3t" not in str(caught.value)


def test_a_module_without_tools_is_refused(make_module: Callable[..., str]) -> None:
    with pytest.raises(RegistryError, match="'shop_empty' has no tool"):
        load_tools([make_module("shop_empty", refund=fresh())])


def test_a_tool_inside_another_decorator_is_refused(make_module: Callable[..., str]) -> None:
    inner = tool()(fresh())

    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    with pytest.raises(RegistryError, match="outermost"):
        load_tools([make_module("shop_wrapped", refund=wrapper)])


BROKEN = [
    ("syntax error here\n", "SyntaxError: invalid syntax (shop.py, line 1)"),
    ("\nimport wakegate_no_such\n", "ModuleNotFoundError: No module named 'wakegate_no_such' (shop.py, line 2)"),
    ("from wakegate_worker import tol\n", "ImportError: cannot import name 'tol' from 'wakegate_worker'"),
    ("\n\ntol()\n", "NameError: name 'tol' is not defined (shop.py, line 3)"),
    ("import os\nos.environ['SHOP_s3cr3t']\n", "KeyError (shop.py, line 2)"),
    ("import helper\nhelper.fail()\n", "RuntimeError (shop.py, line 2)"),
    ("def fail():\n    raise ValueError('s3cr3t')\nfail()\n", "ValueError (shop.py, line 2)"),
    ("raise SystemExit('s3cr3t')\n", "SystemExit (shop.py, line 1)"),
    (
        "from wakegate_worker import tool\n@tool\ndef pay(attempt): ...\n",
        "imported: shop.pay: @tool is written with its",
    ),
]


@pytest.mark.parametrize(("source", "named"), BROKEN, ids=[named.partition(" ")[0] for _, named in BROKEN])
def test_a_broken_module_is_told_with_its_error_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, named: str
) -> None:
    (tmp_path / "shop.py").write_text(source)
    (tmp_path / "helper.py").write_text("def fail():\n    raise RuntimeError('s3cr3t')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    with pytest.raises(RegistryError) as caught:
        load_tools(["shop"])
    text = str(caught.value)
    assert text.startswith("WAKEGATE_TOOLS: the module 'shop' cannot be imported: ")
    assert named in text
    assert "s3cr3t" not in text
    assert "\n" not in text


def test_the_hint_can_be_pasted_and_has_the_python_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_hint.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RegistryError) as caught:
        load_tools(["shop_hint"])
    _, _, command = str(caught.value).partition("to see more: ")
    assert shlex.split(command) == [sys.executable, "-c", "import shop_hint"]


def test_a_missing_dependency_is_to_be_installed_for_the_python_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_needy.py").write_text("import wakegate_no_such.part\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RegistryError, match="No module named 'wakegate_no_such'") as caught:
        load_tools(["shop_needy"])
    assert str(caught.value).endswith(f"; install it for {sys.executable}")
