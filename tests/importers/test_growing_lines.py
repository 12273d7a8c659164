"""The lines of a file that grows: what is read of them, and where reading goes on."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightful import content, limits
from rightful.errors import InvalidEventError
from rightful.importers.sources.growing_files import WAITS, Lines, Place, _certain
from rightful.importers.sources.text_files import Found, Problem

TORN = Problem(1, WAITS, lost=False)


def items(data: bytes, **more: Any) -> list[Found | Problem]:
    return list(Lines(io.BytesIO(data), **more))


def values(found: list[Found | Problem]) -> list[Any]:
    return [item.value for item in found if isinstance(item, Found)]


def test_a_line_ends_at_a_newline_byte_alone() -> None:
    data = '{"a":"\u2028\u0085"}\r\n\n{"b":1}\n'.encode()

    assert items(data) == [Found(1, {"a": "\u2028\u0085"}), Found(3, {"b": 1})]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a":NaN}', {"a": pytest.approx(float("nan"), nan_ok=True)}),
        (b'{"a":"\\ud800"}', {"a": "\ud800"}),
        (b'{"a":"\xff"}', {"a": "\udcff"}),
        (b'{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        (b'{"a": 1e999 }', {"a": float("inf")}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":' + b"9" * 5_000 + b"}", {"a": "9" * 5_000}),
    ],
    ids=["nan", "surrogate", "bytes", "integer", "float", "mark", "digits"],
)
def test_what_msgspec_cannot_read_is_read_all_the_same(line: bytes, value: dict[str, Any]) -> None:
    assert values(items(line + b"\n")) == [value]
    assert values(items(line)) == [value]


def test_a_key_that_occurs_twice_is_a_problem_anywhere() -> None:
    found = items(b'{"a":{"b":1,"b":1}}\n{"a":1,"a":1}')

    assert [(type(item), item.line) for item in found] == [(Problem, 1), (Problem, 2)]


def test_a_line_of_the_limit_is_read_and_a_longer_one_is_a_problem() -> None:
    fits, longer = b'{"a":"123"}', b'{"a":"1234"}'

    found = items(b"\n".join([fits, longer, fits, longer, fits + fits, fits]), limit=len(fits))

    assert [(item.line, isinstance(item, Found)) for item in found] == [
        (1, True),
        (2, False),
        (3, True),
        (4, False),
        (5, True),
        (5, False),
        (6, True),
    ]
    assert found[1] == Problem(2, f"longer than {len(fits)} bytes; not read")


def test_the_limit_is_that_of_an_event() -> None:
    start, end = b'{"a":"', b'"}\n'
    fits = start + b"x" * (limits.EVENT_BYTES - len(start) - len(end) + 1) + end
    longer = start + b"x" * (limits.EVENT_BYTES - len(start) - len(end) + 2) + end

    assert [isinstance(item, Found) for item in items(fits + longer)] == [True, False]


def test_what_was_read_of_a_line_earlier_counts_for_its_limit() -> None:
    def rest(data: bytes) -> list[Found | Problem]:
        return items(data, place=Place(13, 1, 0), limit=20)

    assert rest(b'{"b":1}\n{"c":1}') == [Found(1, {"b": 1}), Found(2, {"c": 1})]
    assert rest(b'{"b":12}\n{"c":1}') == [Problem(1, "longer than 20 bytes; not read"), Found(2, {"c": 1})]


def test_a_line_beyond_its_limit_is_a_problem_whether_complete_or_not() -> None:
    longer = Problem(1, "longer than 20 bytes; not read")

    assert items(b"x" * (1 << 20) + b"\n{}", place=Place(20, 1, 0), limit=20) == [longer, Found(2, {})]
    assert items(b"x" * (1 << 20), place=Place(20, 1, 0), limit=20) == [longer]


def test_place_stays_before_an_incomplete_line_beyond_the_limit() -> None:
    lines = Lines(io.BytesIO(b'{"a":1}{"b":"' + b"x" * 50), limit=20)

    assert list(lines) == [Found(1, {"a": 1}), Problem(1, "longer than 20 bytes; not read")]
    assert (lines.place, lines.ends_unreadable) == (Place(7, 1, 0), True)


def test_the_place_is_behind_whole_lines_and_whole_objects() -> None:
    lines = Lines(io.BytesIO(b'{"a":1}\n{"b":2} {"c":'))

    assert [item for item in lines if isinstance(item, Found)] == [Found(1, {"a": 1}), Found(2, {"b": 2})]
    assert lines.place == Place(15, 2, 8)


def test_there_is_no_place_in_the_midst_of_a_whole_line() -> None:
    lines = Lines(io.BytesIO(b'{"a":1}{"b":2}\n'))

    assert [lines.place for _ in lines] == [None, None, Place(15, 2, 15)]


def test_what_cannot_be_read_any_more_is_a_problem_and_no_end() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(size)

    lines = Lines(Broken(b'{"a":1}\n'))

    assert list(lines) == [Found(1, {"a": 1}), Problem(2, "could not be read: Input/output error")]


def test_a_whole_object_without_newline_waits_for_nothing() -> None:
    assert items(b'{"a":1}  ') == [Found(1, {"a": 1})]
    assert items(b"") == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[1,2]", "Expected `object`, got `array`"),
        (b'"x"', "Expected `object`, got `str`"),
        (b"7 [1", "Expected `object`, got `int`"),
        (b"[1,", "Expected JSON, got a truncated line"),
        (b"\x00\x00", "Expected JSON: Expecting value, column 1"),
        (b'{"a" 1', "Expected JSON: Expecting ':' delimiter, column 6"),
        (b'{"a":1}x', "Expected JSON: Expecting value, column 1"),
        (b'{"a":"\x00', "Expected JSON: Invalid control character at, column 7"),
    ],
)
def test_incomplete_line_that_can_never_be_an_object_is_a_problem(line: bytes, why: str) -> None:
    lines = Lines(io.BytesIO(line))

    assert [item for item in lines if isinstance(item, Problem)] == [Problem(1, why)]
    assert lines.ends_unreadable


@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    ), max_size=3), st.booleans(), st.data(),
)  # fmt: skip
def test_every_start_of_an_object_waits(value: dict[str, Any], is_ascii: bool, data: st.DataObject) -> None:
    line = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    start = line[: data.draw(st.integers(1, len(line) - 1))]

    assert items(start) == [TORN]


keys = st.text("ab$\x00é\ud800", max_size=3)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))


@settings(deadline=None)
@given(st.dictionaries(keys, trees, max_size=3), st.booleans(), st.sampled_from([None, (",", ":")]))
def test_the_fast_way_reads_what_the_slow_one_reads_or_nothing(
    value: dict[str, Any], is_ascii: bool, separators: tuple[str, str] | None
) -> None:
    line = json.dumps(value, ensure_ascii=is_ascii, separators=separators).encode("utf-8", "surrogatepass")

    fast = _certain(line)

    assert fast is None or repr(fast) == repr(content.parse_json(line))


@settings(deadline=None)
@given(st.text('{}[]",:ab1 \\n', max_size=12))
def test_what_is_no_json_is_read_by_neither(text: str) -> None:
    fast = _certain(text.encode())

    try:
        slow = content.parse_json(text)
    except InvalidEventError:
        slow = None
    assert fast is None or fast == slow


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b'{"a":1}', b'{"b":"\xc3\xa9"}', b"\n", b"x", b"[1]", b'{"t":"', b" ", b"\x00"])),
    st.data(),
)
def test_reading_by_prefixes_gives_the_lines_of_one_reading(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=5))
    limit = data.draw(st.sampled_from([7, 8, 20, 1_000]))
    found: list[Any] = []
    place: Place | None = None
    for cut in [*sorted(cuts), len(whole)]:
        stream = io.BytesIO(whole[:cut])
        stream.seek(place.offset if place else 0)
        lines = Lines(stream, place, limit=limit)
        found += values(list(lines))
        place = lines.place

    assert found == values(items(whole, limit=limit))
