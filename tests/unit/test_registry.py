"""The registry takes what can be run, and refuses the rest with one line that names it."""

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wakegate_worker import Attempt, tool
from wakegate_worker.registry import ArgumentsDoNotFit, RegistryError, Tool, load_tools


class CardDeclined(Exception):
    """The bank said no."""


def tool_of(function: Callable[..., Any]) -> Tool:
    made = vars(function)["__wakegate_tool__"]
    assert isinstance(made, Tool)
    return made


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


def test_a_tool_is_named_after_its_function_and_stays_a_function() -> None:
    function = fresh()
    assert tool()(function) is function
    assert (tool_of(function).name, tool_of(function).version, tool_of(function).timeout) == (
        "refund",
        "1",
        60.0,
    )


def test_everything_can_be_said_in_the_decorator() -> None:
    def find(attempt: Attempt) -> bool | None:
        return None

    @tool(version="2.1", timeout=30, failures=(CardDeclined,), probe=find, name="issue_refund")
    async def anything(attempt: Attempt, payment_id: str) -> None: ...

    made = tool_of(anything)
    assert (made.name, made.version, made.timeout, made.failures) == (
        "issue_refund",
        "2.1",
        30.0,
        (CardDeclined,),
    )
    assert made.probe is find
    assert made.is_async


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": 86_401}, "timeout"),
        ({"timeout": "30"}, "timeout"),
        ({"version": ""}, "version"),
        ({"version": 1}, "version"),
        ({"version": "a\nb"}, "version"),
        ({"failures": (Exception,)}, "failures"),
        ({"failures": (BaseException,)}, "failures"),
        ({"failures": (KeyboardInterrupt,)}, "failures"),
        ({"failures": ("CardDeclined",)}, "failures"),
        ({"failures": CardDeclined}, "failures"),
        ({"probe": "find"}, "probe"),
        ({"probe": lambda: None}, "probe"),
        ({"name": ""}, "name"),
        ({"name": " refund"}, "name"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(RegistryError, match=named):
        tool(**options)(fresh())


def _no_parameters() -> None: ...
def _keyword_only(*, attempt: Attempt) -> None: ...
def _any_positions(attempt: Attempt, *rest: int) -> None: ...
def _positional_argument(attempt: Attempt, amount: int, /) -> None: ...
def _only_rest(*rest: int) -> None: ...
def _generator(attempt: Attempt) -> Iterator[int]:
    yield 1


async def _async_generator(attempt: Attempt) -> Any:
    yield 1


@pytest.mark.parametrize(
    "function",
    [
        _no_parameters,
        _keyword_only,
        _any_positions,
        _positional_argument,
        _only_rest,
        _generator,
        _async_generator,
        CardDeclined,
        len,
        functools.partial(refund, payment_id="p"),
    ],
)
def test_what_cannot_be_called_as_a_tool_is_refused(function: Any) -> None:
    with pytest.raises(RegistryError):
        tool()(function)


def test_a_wrapper_that_hides_an_async_function_is_refused() -> None:
    async def inner(attempt: Attempt) -> None: ...

    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    with pytest.raises(RegistryError, match="async"):
        tool()(wrapper)


def test_arguments_are_checked_against_the_signature_before_anything_runs() -> None:
    made = tool_of(tool()(fresh()))
    made.check_arguments(None, {"payment_id": "p"})
    made.check_arguments(None, {"payment_id": "p", "amount": 3})
    for arguments in ({}, {"payment_id": "p", "currency": "EUR"}, {"payment_id": "p", "attempt": "mine"}):
        with pytest.raises(ArgumentsDoNotFit):
            made.check_arguments(None, arguments)


def test_an_argument_may_be_called_attempt_when_the_first_parameter_is_positional() -> None:
    def odd(permission: Attempt, /, **arguments: object) -> None: ...

    tool_of(tool()(odd)).check_arguments(None, {"permission": 1, "attempt": 2})


def test_the_message_about_arguments_shows_no_argument() -> None:
    with pytest.raises(ArgumentsDoNotFit) as caught:
        tool_of(tool()(fresh())).check_arguments(None, {"payment_id": "p", "secret_name": "s3cr3t"})
    assert "s3cr3t" not in str(caught.value)
    assert "secret_name" not in str(caught.value)


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


def test_decorating_twice_is_refused() -> None:
    with pytest.raises(RegistryError, match="twice"):
        tool(name="again")(tool()(fresh()))


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
