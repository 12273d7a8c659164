from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import limits
from rightful.importers.sources.text_files import Digested, Found, Problem, objects_of, opened

CUT_SHORT = "Expected JSON, got a truncated line"


def read(data: bytes, limit: int = limits.EVENT_BYTES) -> list[Found | Problem]:
    return list(objects_of(io.BytesIO(data), limit=limit))


def glued(found: int) -> str:
    return f"several objects share this line; read from it: {found}"


A, B = Found(1, {"a": 1}), Found(2, {"b": 2})


@pytest.mark.parametrize(
    ("data", "items"),
    [
        (b'{"a": 1}\n{"b": 2}\n', [A, B]),
        (b'{"a": 1}\n{"b": 2}', [A, B]),
        (b'{"a": 1}\r\n{"b": 2}\r\n', [A, B]),
        (b'\xef\xbb\xbf{"a": 1}\n{"b": 2}\n', [A, B]),
        (b'{"a": 1}\n\xef\xbb\xbf{"b": 2}\n', [A, B]),
        (b'  {"a": 1}  \n\n \t\n', [A]),
        (b'\n\n{"c": 3}\n', [Found(3, {"c": 3})]),
    ],
)
def test_lines_are_read_however_they_are_ended_and_begun(data: bytes, items: list[Found]) -> None:
    assert read(data) == items


def test_only_a_newline_byte_ends_a_line() -> None:
    text = '{"a": "x\u2028y\u2029z\u0085"}\n{"b": 2}\n'

    assert read(text.encode()) == [Found(1, {"a": "x\u2028y\u2029z\u0085"}), B]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_wide_encodings_are_read_with_and_without_a_mark(encoding: str) -> None:
    text = '{"a": "Ċ\u0a0a\U0001f980"}\n{"b": 2}\n'  # U+0A0A and U+010A hold newline bytes in UTF-16

    assert read(text.encode(encoding)) == [Found(1, {"a": "Ċ\u0a0a\U0001f980"}), B]


def test_bytes_that_are_no_utf8_are_kept_as_lone_surrogates() -> None:
    assert read(b'{"a": "caf\xe9"}\n') == [Found(1, {"a": "caf\udce9"})]


@pytest.mark.parametrize(
    ("line", "items"),
    [
        (b'{"torn": "x', [Problem(1, CUT_SHORT)]),
        (b'{"torn": ', [Problem(1, CUT_SHORT)]),
        (b'{"a": 1}{"b": 2}', [A, Found(1, {"b": 2}), Problem(1, glued(2), lost=False)]),
        (b'{"a": 1} {"b": 2} ', [A, Found(1, {"b": 2}), Problem(1, glued(2), lost=False)]),
        (b'{"a": 1}{"b": ', [A, Problem(1, CUT_SHORT), Problem(1, glued(1), lost=False)]),
        (
            b'{"session_id": "torn", "harn{"b": 2}',
            [
                Problem(1, "Expected JSON: Expecting ':' delimiter, column 31"),
                Found(1, {"b": 2}),
                Problem(1, glued(1), lost=False),
            ],
        ),
        (
            b'{"torn": "val{"b": 2}{"c": 3}',
            [
                Problem(1, "Expected JSON: Expecting ',' delimiter, column 16"),
                Found(1, {"b": 2}),
                Found(1, {"c": 3}),
                Problem(1, glued(2), lost=False),
            ],
        ),
        (
            b'{"torn": tru{"b": 2}',
            [
                Problem(1, "Expected JSON: Expecting value, column 10"),
                Found(1, {"b": 2}),
                Problem(1, glued(1), lost=False),
            ],
        ),
        (
            b'{"torn": 12{"b": 2}',
            [
                Problem(1, "Expected JSON: Expecting ',' delimiter, column 12"),
                Found(1, {"b": 2}),
                Problem(1, glued(1), lost=False),
            ],
        ),
        (b"nonsense", [Problem(1, "Expected JSON: Expecting value, column 1")]),
        (b"\x00\x00\x00\x00\x00", [Problem(1, "Expected JSON: Expecting value, column 1")]),
        *(
            (
                garbage + b'{"a": 1}{"b": 2}',
                [Problem(1, f"Expected JSON: {why}"), A, Found(1, {"b": 2}), Problem(1, glued(2), lost=False)],
            )
            for garbage, why in (
                (b"\x00" * 99, "Expecting value, column 1"),
                (b"\x00\xff nonsense", "Expecting value, column 1"),
                (b"]} : 5}", "Expecting value, column 1"),
                (b'{"torn": "x\x00\x00\x00', "Invalid control character at, column 12"),
                (b'{"torn": \x00\x00', "Expecting value, column 10"),
            )
        ),
        (
            b'{"a": 1}\x00\x00{"b": 2}',
            [
                A,
                Problem(1, "Expected JSON: Expecting value, column 9"),
                Found(1, {"b": 2}),
                Problem(1, glued(2), lost=False),
            ],
        ),
        (b"[1, 2]", [Problem(1, "Expected `object`, got `array`")]),
        (b'"text"', [Problem(1, "Expected `object`, got `str`")]),
        (b"7", [Problem(1, "Expected `object`, got `int`")]),
        (b"7.5", [Problem(1, "Expected `object`, got `float`")]),
        (b"true", [Problem(1, "Expected `object`, got `bool`")]),
        (b"null", [Problem(1, "Expected `object`, got `null`")]),
        (b'{"a": 1, "a": 2}', [Problem(1, "Expected each key once, got 'a' twice")]),
        (b'{"a":' * 60_000, [Problem(1, f"Expected JSON nested at most {limits.NESTING_DEPTH} levels deep")]),
    ],
    ids=range(25),
)
def test_a_broken_line_is_reported_and_what_is_whole_on_it_is_read(line: bytes, items: list[Found | Problem]) -> None:
    assert read(line + b"\n") == items


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": {"b": 1}',
        b'{"a": [{"b": 1}, {"c": 2}',
        b'{"a": {"x": 1} {"b": 2}}',
        b'x": {"b": 1}}',
        b', "x": [{"b": 1}',
        b'x", {"b": 1}',
        b': {"b": 1}',
        b'5, {"b": 1}',
        b',{"b": 1}',
        b': [{"b": 1}',
    ],
)
def test_a_part_of_a_broken_object_is_never_taken_for_an_object_of_its_own(line: bytes) -> None:
    assert [item for item in read(line + b"\n") if isinstance(item, Found)] == []


def test_the_lines_beside_a_broken_one_are_read_with_their_own_numbers() -> None:
    assert read(b'{"a": 1}\n{"torn\n{"c": 3}\n') == [A, Problem(2, CUT_SHORT), Found(3, {"c": 3})]


def test_an_empty_file_is_worth_a_note() -> None:
    assert read(b"") == [Problem(None, "the file is empty", lost=False)]


def test_a_line_may_be_as_long_as_the_limit_and_no_longer() -> None:
    line = b'{"a": "xxxxxxxxxx"}'

    assert read(line + b'\n{"b": 2}\n', limit=len(line)) == [Found(1, {"a": "xxxxxxxxxx"}), B]
    assert read(b" " + line + b'\n{"b": 2}\n', limit=len(line)) == [
        Problem(1, f"longer than {len(line)} bytes; not read"),
        B,
    ]
    assert read(line * 30 + b'\n{"b": 2}\n', limit=len(line)) == [
        Problem(1, f"longer than {len(line)} bytes; not read"),
        B,
    ]


def test_the_limit_of_a_line_is_that_of_an_event() -> None:
    whole = b'{"a": "' + b"x" * (limits.EVENT_BYTES - 9) + b'"}'

    assert [type(item) for item in read(whole)] == [Found]
    assert read(b" " + whole) == [Problem(1, f"longer than {limits.EVENT_BYTES} bytes; not read")]


def test_an_indented_document_is_one_object() -> None:
    document = {"a": {"b": [1, 2]}, "c": "d"}

    assert read(json.dumps(document, indent=2).encode()) == [Found(1, document)]


def test_file_that_only_begins_like_an_indented_document_is_read_by_line() -> None:
    assert read(b'{\n{"b": 2}\n') == [Problem(1, CUT_SHORT), B]


def test_a_broken_document_is_one_problem_with_its_place() -> None:
    whole = json.dumps({"a": {"b": [1, 2]}, "c": "d"}, indent=2)

    assert read(whole[:-6].encode()) == [Problem(1, CUT_SHORT)]
    assert read(whole.replace('"c": "d"', '"c": d').encode()) == [
        Problem(1, "Expected JSON: Expecting value, line 8 column 8")
    ]
    assert read(whole.replace('"c"', '"a"').encode()) == [Problem(1, "Expected each key once, got 'a' twice")]


def test_two_documents_in_one_file_are_two_objects() -> None:
    whole = json.dumps({"a": {"b": 1}}, indent=2).encode()

    items = [Found(1, {"a": {"b": 1}}), Found(1, {"a": {"b": 1}}), Problem(1, glued(2), lost=False)]
    assert read(whole + b"\n" + whole) == items


def test_an_array_with_a_row_on_each_line_is_one_document() -> None:
    assert read(b'[\n{"a": 1},\n{"b": 2}\n]\n') == [Problem(1, "Expected `object`, got `array`")]


def test_a_document_may_be_as_long_as_the_limit_and_no_longer() -> None:
    whole = b'{\n "a": 1\n}'

    assert read(whole, limit=len(whole)) == [A]
    assert read(whole + b" ", limit=len(whole)) == [Problem(1, f"longer than {len(whole)} bytes; not read")]


@pytest.mark.parametrize(
    "data", [b"", b"x", b'{"a": 1}\n', b"\xef\xbb\xbf{\n}", b'{"a": "' + b"x" * 200_000 + b'"}\n{}']
)
def test_a_digest_is_taken_of_every_byte_that_is_read(data: bytes) -> None:
    stream = Digested(io.BytesIO(data))

    list(objects_of(io.BufferedReader(stream)))

    assert stream.sha256 == hashlib.sha256(data).hexdigest()


@given(
    rows=st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers(), max_size=3), max_size=6),
    part=st.floats(0, 1),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_wherever_a_file_is_cut_no_complete_line_is_lost(
    rows: list[dict[str, str | int]], part: float, end: bytes
) -> None:
    lines = [json.dumps(row).encode() for row in rows]
    whole = b"".join(line + end for line in lines)
    cut = whole[: int(part * len(whole))]
    complete = cut.count(b"\n")

    items = read(cut)

    assert [item for item in items if isinstance(item, Found)][:complete] == [
        Found(number, row) for number, row in enumerate(rows[:complete], 1)
    ]
    assert all(item.line == complete + 1 for item in items[complete:] if item.line is not None)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    lines = data.count(b"\n") + 1

    assert all(item.line is None or item.line <= 2 * lines for item in read(data))


@given(st.text(st.sampled_from('{}[]":,\\ab1 tn'), max_size=60))
def test_every_line_gives_something_unless_it_is_blank(text: str) -> None:
    line = text.replace("\n", "")

    assert bool(read(line.encode() + b"\n")) or not line.strip()


def test_many_torn_objects_on_one_line_cost_no_stack() -> None:
    items = read(b'{"' * 50_000 + b"\n")

    assert [item.line for item in items] == [1]


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.json"
    os.mkfifo(fifo)

    with pytest.raises(OSError, match="not a regular file"), opened(str(fifo)):
        pass


def test_a_device_is_refused() -> None:
    with pytest.raises(OSError, match="not a regular file"), opened("/dev/zero"):
        pass


def test_a_link_is_followed_only_where_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"{}")
    (tmp_path / "link").symlink_to("real")

    with opened(str(tmp_path / "link")) as file:
        assert file.size == 2
    with pytest.raises(OSError, match="symbolic"), opened(str(tmp_path / "link"), follow=False):
        pass


def test_an_open_file_knows_its_own_time(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"")
    os.utime(path, ns=(0, 1_785_579_331_250_000_999))

    with opened(str(path)) as file:
        assert file.mtime_us == 1_785_579_331_250_000
