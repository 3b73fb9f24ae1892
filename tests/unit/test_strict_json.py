"""strict_json: exact numbers, own limits, and everything that is not JSON refused."""

import json
import os
import subprocess
import sys
from decimal import Context, Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import each_row
from wakegate_schema.strict_json import MAX_DIGITS, MAX_EXPONENT, MalformedJson, dumps, equal, parse


def writable(number: Decimal) -> bool:
    """Whether a number is within what is read and written."""
    return abs(number.adjusted()) <= MAX_EXPONENT and len(number.as_tuple().digits) <= MAX_DIGITS


numbers = st.one_of(
    st.integers(),
    st.integers(-(10**600) + 1, 10**600 - 1),
    st.decimals(allow_nan=False, allow_infinity=False).filter(writable),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(st.characters(exclude_categories=["Cs"]))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    ),
    max_leaves=12,
)
bounded = settings(max_examples=150, deadline=None)

REFUSED = {
    "a key twice": (b'{"a":1,"a":1}', "duplicate_key"),
    "a key twice, once escaped": (rb'{"a":1,"\u0061":2}', "duplicate_key"),
    "a key twice, deep": (b'[{"x":[{"a":1,"b":2,"a":1}]}]', "duplicate_key"),
    "NaN": (b'{"a":NaN}', "non_finite_number"),
    "Infinity": (b"[Infinity]", "non_finite_number"),
    "-Infinity": (b"-Infinity", "non_finite_number"),
    "a lone high surrogate": (rb'["\ud800"]', "lone_surrogate"),
    "a lone low surrogate": (rb'["\uDC00"]', "lone_surrogate"),
    "a lone surrogate as key": (rb'{"\ud83d":1}', "lone_surrogate"),
    "a surrogate pair the wrong way round": (rb'["\ude00\ud83d"]', "lone_surrogate"),
    "two high surrogates before a low one": (rb'["\ud83d\ud83d\ude00"]', "lone_surrogate"),
    "a lone surrogate after a backslash": (rb'["\\\ud800"]', "lone_surrogate"),
    "an encoded surrogate": (b'["\xed\xa0\x80"]', "not_utf8"),
    "an encoded surrogate pair": (b'["\xed\xa0\xbd\xed\xb8\x80"]', "not_utf8"),
    "Latin-1": (b'["\xe9"]', "not_utf8"),
    "an overlong NUL": (b'["\xc0\x80"]', "not_utf8"),
    "UTF-16 with a mark": ('{"a":1}'.encode("utf-16"), "not_utf8"),
    "UTF-16 without": ('{"a":1}'.encode("utf-16-le"), "not_json"),
    "UTF-32 without": ('{"a":1}'.encode("utf-32-be"), "not_json"),
    "a byte order mark": (b'\xef\xbb\xbf{"a":1}', "bom"),
    "two bytes that are no text": (b"\xff\xfe", "not_utf8"),
    "nothing": (b"", "not_json"),
    "only spaces": (b"  \n", "not_json"),
    "trailing data": (b"{} {}", "not_json"),
    "a trailing comma": (b"[1,]", "not_json"),
    "a raw newline in a string": (b'["a\nb"]', "not_json"),
    "a raw NUL in a string": (b'["a\x00b"]', "not_json"),
    "a NUL after the end": (b"{}\x00", "not_json"),
    "a no-break space outside": ("[1,\u00a02]".encode(), "not_json"),
    "a leading zero": (b"[01]", "not_json"),
    "a leading plus": (b"[+1]", "not_json"),
    "a bare fraction": (b"[.5]", "not_json"),
    "other digits": ("[\u0661]".encode(), "not_json"),
    "a single quote": (b"{'a':1}", "not_json"),
    "a comment": (b"[1 /* one */]", "not_json"),
    "an open string": (b'["a', "not_json"),
    "an open array": (b"[[1]", "not_json"),
    "a broken escape": (rb'["\x41"]', "not_json"),
    "a broken unicode escape": (rb'["\u12G4"]', "not_json"),
    "an HTML page": (b"<html>502</html>", "not_json"),
    "601 digits": (b"1" * 601, "number_too_long"),
    "a number of 5000 digits": (b"[" + b"9" * 5000 + b"]", "number_too_long"),
    "a fraction of 5000 digits": (b"0." + b"1" * 5000, "number_too_long"),
    "an exponent of 1001": (b"1e1001", "number_too_long"),
    "an exponent of -1001": (b"1e-1001", "number_too_long"),
    "an exponent out of reach": (b"1e999999999999999999999", "number_too_long"),
    "a zero with an exponent out of reach": (b"0E" + b"9" * 600, "number_too_long"),
    "65 arrays": (b"[" * 65 + b"]" * 65, "too_deep"),
    "65 objects": (b'{"a":' * 65 + b"1" + b"}" * 65, "too_deep"),
    "a hundred thousand arrays never closed": (b"[" * 100_000, "too_deep"),
    "too many bytes": (b" " * 1_048_577, "too_large"),
}


@each_row(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_json_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedJson) as refused:
        parse(data)
    assert refused.value.reason == reason


@each_row(
    ("data", "value"),
    [
        (b"49", 49),
        (b"-0", 0),
        (b"18446744073709551617", 2**64 + 1),
        (b"9007199254740993", 2**53 + 1),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"9" * 600, 10**600 - 1),
        (rb'"\u0000"', "\0"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\uD83D\uDE00\\ud800"', "\U0001f600\\ud800"),
        ('"\u2028 \U0001f600"'.encode(), "\u2028 \U0001f600"),
        (b'"\x7f"', "\x7f"),
        (b' {"b": [true, false, null], "a": {}}\r\n\t', {"b": [True, False, None], "a": {}}),
    ],
)
def test_json_is_read_exactly(data: bytes, value: object) -> None:
    result = parse(data)
    assert result == value
    assert type(result) is type(value)


@each_row("text", ["49.0", "1.10", "1E+400", "1E-400", "-0.0", "0.1000000000000000000000001"])
def test_a_number_with_point_or_exponent_stays_the_decimal_that_was_written(text: str) -> None:
    number = parse(text.encode())
    assert isinstance(number, Decimal)
    assert str(number) == text
    assert dumps(number) == text.encode()


def test_nesting_is_counted_outside_strings_only() -> None:
    brackets = '"' + "[" * 500 + '"'
    assert parse(brackets.encode()) == "[" * 500
    assert parse(rb'["\"[[[[[", "\\", ["]]"]]', max_depth=2) == ['"[[[[[', "\\", ["]]"]]


def test_many_flat_arrays_are_not_deep() -> None:
    assert parse(b"[" + b",".join([b"[]"] * 500) + b"]") == [[]] * 500


def test_exactly_the_greatest_depth_is_read() -> None:
    parse(b"[" * 64 + b"]" * 64)
    with pytest.raises(MalformedJson, match="64 levels"):
        parse(b"[" * 65 + b"]" * 65)


def test_the_depth_scan_is_linear_on_hostile_text() -> None:
    hostile = b"[" * 65 + b'"' + b'\\"' * 400_000
    with pytest.raises(MalformedJson):
        parse(hostile)


def test_the_size_limit_is_inclusive() -> None:
    assert parse(b"[1]", max_bytes=3) == [1]
    with pytest.raises(MalformedJson) as refused:
        parse(b"[12]", max_bytes=3)
    assert refused.value.reason == "too_large"


def test_limits_do_not_move_with_the_interpreters_own() -> None:
    script = (
        "import sys; sys.set_int_max_str_digits(640); from wakegate_schema.strict_json import dumps, parse\n"
        "number = parse(b'-' + b'9' * 600); assert dumps(number) == b'-' + b'9' * 600\n"
        "for text in (b'9' * 601, b'9' * 641, b'9' * 700):\n"
        "    try: parse(text)\n"
        "    except Exception as error: assert error.reason == 'number_too_long', error\n"
        "    else: raise SystemExit('accepted')\n"
    )
    environment = {**os.environ, "PYTHONINTMAXSTRDIGITS": "640"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_reading_and_writing_ignore_the_decimal_context() -> None:
    with localcontext(Context(prec=3, capitals=0, traps=[])):
        number = parse(b"123456789.123456789e400")
        assert parse(dumps(number)) == number
        assert equal(number, Decimal("123456789.123456789e400"))
        with pytest.raises(MalformedJson):
            parse(b"1e999999999999999999999")


def test_a_refusal_carries_nothing_of_the_text() -> None:
    with pytest.raises(MalformedJson) as refused:
        parse(b'{"token": "s3cret", oops')
    seen: BaseException | None = refused.value
    while seen is not None:
        assert "s3cret" not in f"{seen!r} {vars(seen)}"
        seen = seen.__cause__ or seen.__context__


@each_row(
    ("value", "reason"),
    [
        (float("nan"), "non_finite_number"),
        (float("-inf"), "non_finite_number"),
        (Decimal("NaN"), "non_finite_number"),
        (Decimal("sNaN"), "non_finite_number"),
        (Decimal("Infinity"), "non_finite_number"),
        ("\ud800", "lone_surrogate"),
        ({"\udfff": 1}, "lone_surrogate"),
        ({1: "a"}, "not_json"),
        ({None: "a"}, "not_json"),
        ({True: "a"}, "not_json"),
        ((1, 2), "not_json"),
        (b"bytes", "not_json"),
        ({1, 2}, "not_json"),
        (1j, "not_json"),
        (10**600, "number_too_long"),
        (Decimal("1e1001"), "number_too_long"),
        (Decimal("1e-1001"), "number_too_long"),
    ],
    ids=repr,
)
def test_what_is_not_json_is_not_written(value: object, reason: str) -> None:
    with pytest.raises(MalformedJson) as refused:
        dumps([value])
    assert refused.value.reason == reason


def test_a_loop_is_not_written() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(MalformedJson) as refused:
        dumps(loop)
    assert refused.value.reason == "too_deep"


def test_text_is_written_compact_and_unescaped() -> None:
    assert dumps({"b": [1, Decimal("1.10"), 0.1, True, None], "é": "\U0001f600\n\0", "c": {}, "d": []}) == (
        '{"b":[1,1.10,0.1,true,null],"é":"\U0001f600\\n\\u0000","c":{},"d":[]}'.encode()
    )


DIFFERENT = [
    (49, "49"),
    (1, True),
    (0, False),
    (Decimal("1.0"), True),
    (None, False),
    (None, 0),
    ("", None),
    (1, Decimal("1.0000000000000000000000001")),
    (2**53, 2**53 + 1),
    (Decimal("0.1"), Decimal("0.1000000000000000055511151231257827")),
    (Decimal("1e400"), Decimal("1e401")),
    ([1, 2], [2, 1]),
    ([], {}),
    ({"a": 1}, {"a": 1, "b": None}),
    ({"a": 1}, {"b": 1}),
    ([[1]], [[True]]),
    ({"a": [1]}, {"a": ["1"]}),
    ("é", "e\u0301"),
    (0.1, Decimal("0.1")),
    (0.5, 0.5),
    (Decimal("NaN"), Decimal("NaN")),
    (Decimal("sNaN"), 1),
]


@each_row(("a", "b"), DIFFERENT, ids=repr)
def test_different_values_are_not_equal(a: object, b: object) -> None:
    assert not equal(a, b)
    assert not equal(b, a)


@each_row(
    ("a", "b"),
    [
        (b"49", b"49.0"),
        (b"0", b"-0"),
        (b"-0.0", b"0"),
        (b"1.10", b"1.1"),
        (b"100", b"1e2"),
        (b"0.3", b"3e-1"),
        (b'{"a":1,"b":[{"c":2.0}]}', b'{"b":[{"c":2}],"a":1.0}'),
        (rb'"\u00e9"', '"é"'.encode()),
    ],
)
def test_one_value_in_two_spellings_is_equal(a: bytes, b: bytes) -> None:
    assert equal(parse(a), parse(b))
    assert equal(parse(b), parse(a))


@given(values)
@bounded
def test_what_is_written_reads_back_equal(value: object) -> None:
    again = parse(dumps(value))
    assert equal(again, value)
    assert dumps(again) == dumps(value)


@given(values)
@bounded
def test_equality_is_reflexive(value: object) -> None:
    assert equal(value, value)


@given(values, values)
@bounded
def test_equality_is_symmetric_and_agrees_with_the_text(a: object, b: object) -> None:
    assert equal(a, b) == equal(b, a)
    if dumps(a) == dumps(b):
        assert equal(a, b)


@given(st.text('[]{}"\\,:0123456789eE+-.nulltrfasedD8cC\n\u00e9', max_size=60))
@settings(max_examples=400, deadline=None)
def test_whatever_is_accepted_the_standard_library_reads_alike(text: str) -> None:
    try:
        value = parse(text.encode())
    except MalformedJson:
        return
    assert equal(value, json.loads(text, parse_float=Decimal))


@given(st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    reason = None
    try:
        parse(data)
    except MalformedJson as error:
        reason = error.reason
    assert reason in {None, *(reason for _, reason in REFUSED.values())}
