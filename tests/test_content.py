from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightful import content, limits
from rightful.content import escape, parse_json, restore, to_json
from rightful.errors import InvalidEventError

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None) | st.sampled_from("\x00\x1a\ud800")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(["$float", "$int", "$$int", "$"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_content_is_comes_back_as_it_was(value: Any) -> None:
    kept, escaped = escape(value)

    assert restore(kept) == value
    assert escaped or kept == value


PIECES = st.sampled_from(
    [
        b"\\ud83d",
        b"\\udc80",
        b"\\ude00",
        b"\x80",
        b"\xff",
        b"\xc3",
        b"\xa9",
        b"\xf0\x9f\x92\x80",
        b"\\u0000",
        b"x",
        b"\\\\",
        b'\\"',
    ]
)
TEXTS = st.lists(PIECES, max_size=6).map(lambda pieces: b'"' + b"".join(pieces) + b'"')
NUMBERS = st.sampled_from(
    [b"1" * 4_001, b"-" + b"9" * 9_000, b"1" * 4_000, b"NaN", b"-Infinity", b"1e999", b"-0.0", b"-0"]
)
FOUND = st.recursive(
    TEXTS | NUMBERS | JSON.map(lambda value: json.dumps(value).encode()),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: b"[" + b",".join(items) + b"]")
        | st.tuples(TEXTS, inner).map(lambda pair: b"{" + pair[0] + b":" + pair[1] + b"}")
    ),
    max_leaves=5,
)


@given(FOUND)
def test_json_that_was_read_is_written_so_that_it_is_read_again_as_it_was(raw: bytes) -> None:
    value = parse_json(b'{"v":' + raw + b"}")

    written = to_json(value)

    assert b"\n" not in written
    assert repr(escape(parse_json(written))) == repr(escape(value))  # `repr` tells NaN from NaN


@given(JSON)
def test_what_is_kept_is_json_in_utf8(value: Any) -> None:
    kept, _ = escape(value)

    assert json.loads(json.dumps(kept, ensure_ascii=False, allow_nan=False).encode()) == kept


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("\ud800", "\x1ad800"),
        ("a\x00b", "a\x1a0000b"),
        ("\x1a0000", "\x1a001a0000"),
        (float("inf"), {"$float": "inf"}),
        (float("-inf"), {"$float": "-inf"}),
        (2**64, {"$int": "18446744073709551616"}),
        (-(2**63) - 1, {"$int": "-9223372036854775809"}),
        ({"$float": 1}, {"$$float": 1}),
        ({"$$int": "x"}, {"$$$int": "x"}),
        ({"\x00": ["\x00"]}, {"\x1a0000": ["\x1a0000"]}),
    ],
    ids=str,
)
def test_each_escape_is_the_documented_one_is_flagged_and_reversed(value: Any, kept: Any) -> None:
    assert escape(value) == (kept, True)
    assert restore(kept) == value


@pytest.mark.parametrize(
    "value", [None, True, 0, 2**64 - 1, -(2**63), 0.1, "x\n\x7f\u202e", [], {}, {"$": 1}, {"$floats": 1}]
)
def test_what_json_can_hold_is_kept_unchanged_and_not_flagged(value: Any) -> None:
    assert escape(value) == (value, False)


def test_not_a_number_is_kept_too() -> None:
    assert escape([float("nan")]) == ([{"$float": "nan"}], True)
    assert math.isnan(restore({"$float": "nan"}))


@pytest.mark.parametrize("digits", [4_000, 4_001, 5_000])
def test_an_integer_of_any_length_is_kept(digits: int) -> None:
    value = 10 ** (digits - 1) + 7

    assert restore(escape(value)[0]) == value


def test_an_integer_longer_than_python_reads_comes_back_as_its_digits() -> None:
    text = "9" * 6_000

    [value] = parse_json(f"[{text}]")

    assert restore(escape(value)[0]) == text


@pytest.mark.parametrize(
    ("value", "what", "place"),
    [
        (b"x", "Expected JSON content, got `bytes`", "$.content"),
        ({"a": [1, {2}]}, "Expected JSON content, got `set`", "$.content.a[1]"),
        ({1: 2}, "Expected `str` keys, got `int`", "$.content"),
        ([object()], "Expected JSON content, got `object`", "$.content[0]"),
    ],
    ids=["bytes", "set", "integer-key", "object"],
)
def test_what_is_no_json_is_refused_at_its_place(value: Any, what: str, place: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        escape(value, "$.content")
    assert (caught.value.what, caught.value.place) == (what, place)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["list", "dict"])
def test_content_nests_as_deep_as_the_limit_says_and_not_one_deeper(wrap: Any) -> None:
    value: Any = 0
    for _ in range(limits.NESTING_DEPTH):
        value = wrap(value)

    assert escape(value) == (value, False)
    with pytest.raises(InvalidEventError, match="Expected content nested at most 64 levels deep"):
        escape(wrap(value))


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        ('{"a":1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        ('{"a":"é"}'.encode("utf-16"), {"a": "é"}),
        ('{"a":"é"}'.encode("utf-32-le"), {"a": "é"}),
        (b"[Infinity,-Infinity]", [math.inf, -math.inf]),
        (b'["\\ud800"]', ["\ud800"]),
        (b'["\xff"]', ["\udcff"]),
        (b"[1e400]", [math.inf]),
    ],
    ids=str,
)
def test_json_is_read_as_found_in_real_files(text: bytes | str, value: Any) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "Expected JSON: Expecting value, line 1 column 1"),
        (b'{"a":1', "Expected JSON: Expecting ',' delimiter, line 1 column 7"),
        (b'{"a":1}x', "Expected JSON: Extra data, line 1 column 8"),
        (b'{"a":"\n"}', "Expected JSON: Invalid control character at, line 1 column 7"),
        (b'{"a":1,"b":2,"a":3}', "Expected each key once, got 'a' twice"),
        (b'[{"x":{"b":2,"b":3}}]', "Expected each key once, got 'b' twice"),
        (b"\x00\x00\xff", "Expected JSON: "),
    ],
    ids=str,
)
def test_what_cannot_be_read_says_what_and_where(text: bytes, what: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        parse_json(text)
    assert caught.value.what.startswith(what)
    assert caught.value.place == "$"


def test_json_too_deep_to_read_is_refused_and_exhausts_nothing() -> None:
    with pytest.raises(InvalidEventError, match="Expected JSON nested at most 64 levels deep"):
        parse_json(b"[" * 100_000)


odd = st.sampled_from(
    ["$", "$float", "$$int", "\x00", "\x1a", "\ud800", "é", "a", 2**64, 2**64 - 1, -(2**63), -(2**63) - 1]
)
trees = st.recursive(
    odd | st.none() | st.booleans() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(odd.filter(lambda key: isinstance(key, str)), inner, max_size=3)
    ),
)


def the_long_way(value: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "is_plain", lambda _: False)
        return escape(value)


@settings(deadline=None)
@given(trees)
def test_what_is_taken_unchanged_needs_no_escape_and_nothing_else_is(value: Any) -> None:
    kept, escaped = the_long_way(value)

    assert repr(escape(value)) == repr((kept, escaped))
    assert not (content.is_plain(value) and escaped)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "objects"])
def test_the_short_way_nests_as_deep_as_the_long_one(wrap: Any) -> None:
    value: Any = "leaf"
    for _ in range(limits.NESTING_DEPTH):
        value = wrap(value)

    assert content.is_plain(value)
    assert the_long_way(value) == (value, False)
    assert not content.is_plain(wrap(value))


@pytest.mark.parametrize("value", [b"x", {1: 2}, {"a": {1, 2}}, [object()], (1,)])
def test_what_is_no_json_is_never_taken_unchanged(value: Any) -> None:
    assert not content.is_plain(value)
