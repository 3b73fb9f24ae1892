"""A call is exactly what is saved, or it is refused by name."""

import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables import each_row
from wakegate_adapter import Call, CallRefused
from wakegate_schema import strict_json
from wakegate_schema.calls.call import ARGUMENTS_LIMIT, CONTEXT_LIMIT, REASONING_LIMIT
from wakegate_schema.calls.exact_json import MAX_DEPTH, NotJson, encode
from wakegate_schema.calls.outcomes import failed, succeeded, untold
from wakegate_schema.outcome_texts import MESSAGE_LIMIT


class Colour(StrEnum):
    """A str that is more than a str."""

    RED = "red"


class Size(IntEnum):
    """An int that is more than an int."""

    LARGE = 3


class Twin(str):
    """A string that claims to be different from one with the same text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def nested(levels: int) -> Any:
    """A list inside a list, so many levels of them."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> list[Any]:
    """A list that contains itself."""
    loop: list[Any] = []
    loop.append(loop)
    return loop


def shared(levels: int) -> list[Any]:
    """A small structure that would be 2**levels long when written."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return value


def test_a_call_is_saved_as_compact_json() -> None:
    call = Call("issue_refund", {"amount": 4900, "currency": "€", "lines": [1, None, True]})
    assert call.arguments_json == '{"amount":4900,"currency":"€","lines":[1,null,true]}'.encode()


def test_every_call_gets_a_key_of_its_own() -> None:
    first, second = Call("t", {}), Call("t", {})
    assert first.key != second.key
    assert str(UUID(first.key)) == first.key


def test_a_call_is_fixed_once_it_is_made() -> None:
    arguments = {"lines": [1]}
    call = Call("t", arguments, key="k")
    arguments["lines"].append(2)
    call.arguments["lines"].append(3)
    assert call.arguments_json == b'{"lines":[1]}'
    with pytest.raises(FrozenInstanceError):
        call.tool = "other"  # type: ignore[misc]


def test_a_call_keeps_arguments_and_reasoning_out_of_its_repr() -> None:
    call = Call("t", {"iban": "DE02"}, reasoning="charged twice", context={"who": "Ann"})
    assert "DE02" not in repr(call)
    assert "charged" not in repr(call)
    assert "Ann" not in repr(call)


def test_equal_calls_are_equal_and_can_be_in_a_set() -> None:
    one, same = Call("t", {"a": 1}, key="k"), Call("t", {"a": 1}, key="k")
    assert {one, same} == {one}
    assert one != Call("t", {"a": 1.0}, key="k")


def test_no_context_and_an_empty_context_are_told_apart() -> None:
    assert Call("t", {}).context_json is None
    assert Call("t", {}, context={}).context_json == b"{}"


@each_row("number", [0, 1, -1, 2**53 + 1, 10**29 + 7, -(10**29), 1.0, 0.1, 1e300, 5e-324, -0.0, 1e22])
def test_a_number_survives_exactly(number: float) -> None:
    saved = Call("t", {"n": number}).arguments_json
    back = json.loads(saved)["n"]
    assert type(back) is type(number)
    assert repr(back) == repr(number)
    assert strict_json.equal(strict_json.parse(saved), strict_json.parse(strict_json.dumps({"n": number})))


def test_one_and_one_point_zero_and_true_stay_three_things() -> None:
    assert Call("t", {"a": 1, "b": 1.0, "c": True}).arguments_json == b'{"a":1,"b":1.0,"c":true}'


def test_what_the_standard_library_writes_as_plain_json_is_taken_as_such() -> None:
    arguments = {"t": (1, 2), "o": OrderedDict(a=1), "c": Colour.RED, "s": Size.LARGE}
    assert Call("t", arguments).arguments_json == b'{"t":[1,2],"o":{"a":1},"c":"red","s":3}'


@each_row(
    ("arguments", "path", "reason"),
    [
        ({"items": [0, 1, 2, {"price": float("nan")}]}, "arguments.items[3].price", "non_finite_number"),
        ({"a": float("inf")}, "arguments.a", "non_finite_number"),
        ({"a": [float("-inf")]}, "arguments.a[0]", "non_finite_number"),
        ({"a": Decimal("1.10")}, "arguments.a", "not_json"),
        ({"a": {1, 2}}, "arguments.a", "not_json"),
        ({"a": b"bytes"}, "arguments.a", "not_json"),
        ({"a": object()}, "arguments.a", "not_json"),
        ({"a": Path("/tmp")}, "arguments.a", "not_json"),
        ({"a": 1j}, "arguments.a", "not_json"),
        ({"a": {1: "x"}}, "arguments.a", "not_json"),
        ({None: "x"}, "arguments", "not_json"),
        ({"a": {True: "x"}}, "arguments.a", "not_json"),
        ({"a": "\ud800"}, "arguments.a", "lone_surrogate"),
        ({"a": {"\udfff": 1}}, "arguments.a (a key)", "lone_surrogate"),
        ({"a": 10**600}, "arguments.a", "number_too_long"),
        ({"a": -(10**600)}, "arguments.a", "number_too_long"),
        ({"a": 1 << 100_000}, "arguments.a", "number_too_long"),
        ({"odd key": [1.5, {"b": set()}]}, 'arguments["odd key"][1].b', "not_json"),
        ({Twin("k"): 1, Twin("k"): 2}, "arguments.k", "duplicate_key"),
    ],
)
def test_what_is_not_json_is_refused_where_it_stands(arguments: dict[Any, Any], path: str, reason: str) -> None:
    with pytest.raises(CallRefused) as refused:
        Call("t", arguments)
    assert refused.value.path == path
    assert refused.value.reason == reason
    assert str(refused.value).startswith(path)


@each_row("arguments", [None, [], "{}", 1, ()])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    with pytest.raises(CallRefused, match=r"^arguments: it must be a dict$"):
        Call("t", arguments)


def test_context_is_held_to_the_same_rules() -> None:
    with pytest.raises(CallRefused) as refused:
        Call("t", {}, context={"a": [float("nan")]})
    assert refused.value.path == "context.a[0]"


def test_nesting_is_taken_up_to_the_limit_and_refused_beyond() -> None:
    assert Call("t", {"a": nested(MAX_DEPTH - 1)}).arguments_json
    with pytest.raises(CallRefused, match="nested deeper than 60 levels") as refused:
        Call("t", {"a": nested(MAX_DEPTH)})
    assert refused.value.reason == "too_deep"


def test_a_structure_that_contains_itself_is_refused() -> None:
    with pytest.raises(CallRefused, match=re.escape("arguments.a[0]: it contains itself")):
        Call("t", {"a": cyclic()})


def test_a_small_structure_that_writes_endlessly_is_refused_soon() -> None:
    with pytest.raises(CallRefused) as refused:
        Call("t", {"a": shared(50)})
    assert refused.value.reason == "too_large"


@pytest.mark.parametrize(
    ("make", "limit", "around"),
    [
        (lambda text: Call("t", {"a": text}), ARGUMENTS_LIMIT, len('{"a":""}')),
        (lambda text: Call("t", {}, context={"a": text}), CONTEXT_LIMIT, len('{"a":""}')),
        (lambda text: Call("t", {}, reasoning=text), REASONING_LIMIT, 0),
    ],
)
def test_each_part_is_taken_up_to_its_size_and_refused_beyond(
    make: Callable[[str], Call], limit: int, around: int
) -> None:
    make("x" * (limit - around))
    with pytest.raises(CallRefused, match="longer than"):
        make("x" * (limit - around + 1))
    with pytest.raises(CallRefused, match="longer than"):
        make("é" * ((limit - around) // 2 + 1))


@each_row(
    ("part", "value"),
    [
        ("tool", ""),
        ("tool", "a\nb"),
        ("tool", "x" * 256),
        ("tool", None),
        ("key", ""),
        ("key", "with space"),
        ("key", "schlüssel"),
        ("key", "x" * 256),
        ("key", None),
        ("key", "k\n"),
        ("instance", ""),
        ("instance", 7),
        ("timeout", "0m"),
        ("timeout", "30"),
        ("timeout", "30M"),
        ("timeout", "1.5h"),
        ("timeout", 1800),
        ("timeout", None),
        ("reasoning", b"x"),
        ("reasoning", "\ud800"),
        ("group", ""),
        ("version", "two words"),
    ],
)
def test_a_part_in_another_form_is_refused_by_name(part: str, value: Any) -> None:
    with pytest.raises(CallRefused) as refused:
        Call(**{"tool": "t", "arguments": {}, part: value})
    assert refused.value.path == part
    assert refused.value.reason == f"bad_{part}"


def test_a_refusal_never_shows_the_value() -> None:
    with pytest.raises(CallRefused) as refused:
        Call("t", {"card": Decimal(4111111111111111)})
    assert "4111" not in str(refused.value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_whatever_json_goes_in_comes_out_the_same_and_can_be_read_strictly(arguments: dict[str, Any]) -> None:
    saved = Call("t", arguments).arguments_json
    assert json.loads(saved) == arguments
    assert strict_json.equal(strict_json.parse(saved), strict_json.parse(strict_json.dumps(arguments)))


def test_a_result_may_be_any_json() -> None:
    values: list[Any] = [None, "text", 1, 1.5, True, [], {}]
    for value in values:
        assert succeeded(value).result == encode(value, "result", max_bytes=100)


def test_a_result_that_is_no_json_still_counts_as_happened() -> None:
    outcome = succeeded({"ok": {1}})
    assert (outcome.kind, outcome.reason, outcome.result) == ("succeeded", "result_not_json", None)
    assert outcome.error == "the result is not kept: result.ok: a set is not JSON"


def test_a_result_whose_own_methods_raise_still_counts_as_happened() -> None:
    class Hostile(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("secret")

    outcome = succeeded(Hostile())
    assert (outcome.kind, outcome.reason) == ("succeeded", "result_not_json")
    assert "secret" not in str(outcome.error)


def test_a_failure_is_one_bounded_line() -> None:
    outcome = failed("card\ndeclined\x00 " + "x" * 1000)
    assert outcome.error is not None
    assert outcome.error.startswith("card declined x")
    assert len(outcome.error) == MESSAGE_LIMIT


def test_an_exception_leaves_its_type_and_place_but_not_its_message() -> None:
    try:
        raise ValueError("token=abc")  # noqa: TRY301
    except ValueError as error:
        outcome = untold(error)
    assert outcome.kind == "in_doubt"
    assert outcome.error is not None
    assert outcome.error.startswith("ValueError at test_call.py:")
    assert "abc" not in outcome.error


def test_encoding_names_the_whole_when_it_is_too_long() -> None:
    with pytest.raises(NotJson, match=r"^result: it is longer than 10 bytes of JSON$"):
        encode("x" * 20, "result", max_bytes=10)
