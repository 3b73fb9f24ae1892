"""The registry takes what can be run, and refuses the rest with one line that names it."""

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import wakegate_worker
from support.tables import each_row
from wakegate_worker import Attempt, registry, tool
from wakegate_worker.registry import ArgumentsDoNotFit, RegistryError, Tool


class CardDeclined(Exception):
    """The bank said no."""


def tool_of(function: Callable[..., Any]) -> Tool:
    made = registry.tool_of(function)
    assert made is not None
    return made


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


@each_row(
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
def _without_attempt(payment_id: str, amount: int) -> None: ...
def _without_annotations(payment_id, amount): ...  # type: ignore[no-untyped-def]
def _generator(attempt: Attempt) -> Iterator[int]:
    yield 1


async def _async_generator(attempt: Attempt) -> Any:
    yield 1


@each_row(
    "function",
    [
        _no_parameters,
        _keyword_only,
        _any_positions,
        _positional_argument,
        _only_rest,
        _without_attempt,
        _without_annotations,
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


def test_decorating_twice_is_refused() -> None:
    with pytest.raises(RegistryError, match="twice"):
        tool(name="again")(tool()(fresh()))


def _unannotated(attempt, payment_id): ...  # type: ignore[no-untyped-def]
def _unused(_, payment_id): ...  # type: ignore[no-untyped-def]
def _anything(permission: Any, payment_id: str) -> None: ...
def _in_quotes(permission: "Attempt", payment_id: str) -> None: ...
def _optional(permission: Attempt | None, payment_id: str) -> None: ...
def _by_module(permission: wakegate_worker.Attempt, payment_id: str) -> None: ...


@each_row("function", [_unannotated, _unused, _anything, _in_quotes, _optional, _by_module])
def test_the_attempt_is_known_by_its_annotation_or_its_name(function: Any) -> None:
    tool_of(tool()(function)).check_arguments(None, {"payment_id": "p"})


def test_a_tool_without_the_attempt_is_told_how_to_take_it() -> None:
    with pytest.raises(RegistryError, match=r"must take the attempt as its first parameter.*\(attempt: Attempt, "):
        tool()(_without_attempt)


def test_the_decorator_without_its_parentheses_is_told_to_have_them() -> None:
    without: Any = tool
    with pytest.raises(RegistryError, match=r"test_registry\.refund: @tool is written with its parentheses: @tool\(\)"):
        without(refund)
    with pytest.raises(RegistryError, match="by keyword"):
        without("1")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "missing payment_id;"),
        ({"payment": "p"}, "missing payment_id;"),
        ({"payment_id": "p", "currency": "EUR", "rate": 1}, "2 that it does not take"),
    ],
)
def test_the_message_about_arguments_names_what_is_missing(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentsDoNotFit, match=f"do not fit tool 'refund': {named}"):
        tool_of(tool()(fresh())).check_arguments(None, arguments)
