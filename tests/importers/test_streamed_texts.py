from __future__ import annotations

from itertools import pairwise

import pytest

from rightful import limits
from rightful.errors import InvalidEventError
from rightful.importers.shared.line_times import LineTimes
from rightful.importers.shared.record_parts import numbers, without, word
from rightful.importers.shared.streamed_texts import Streamed


def test_a_word_is_a_text_that_an_event_can_hold() -> None:
    longest = "x" * limits.WORD_CHARS

    assert [word(one, "other") for one in (longest, longest + "x", "", None, 7)] == [longest, *["other"] * 4]


def test_numbers_are_what_can_be_counted() -> None:
    assert numbers({"a": 1, "b": 0.5, "c": True, "d": "1", "e": None, "f": [1]}) == {"a": 1, "b": 0.5}
    assert numbers([1]) == {}


def test_what_is_null_says_nothing() -> None:
    assert without({"a": None, "b": 0, "c": "", "d": 1}, "d") == {"b": 0, "c": ""}


def test_which_states_of_a_text_are_told_rests_on_its_pieces_alone() -> None:
    whole = Streamed("x")
    told = [whole.told for _ in range(200) if whole.grow("ab")]

    assert told[:8] == [2, 4, 6, 8, 10, 14, 18, 24]
    assert all(4 * later >= 5 * earlier for earlier, later in pairwise(told))


def test_the_end_of_a_text_tells_what_was_not_told_and_nothing_twice() -> None:
    text = Streamed("x", "abc", 2)

    assert [text.tell(), text.tell(), text.grow("")] == [True, False, False]


def test_a_time_is_the_lines_else_the_last_one_else_the_files() -> None:
    line_times = LineTimes(1_785_600_000_000_000)
    of_file = {"at": "2026-08-01T16:00:00Z", "at_basis": "file"}

    assert line_times.of(None) == line_times.of("no time") == of_file
    assert line_times.of("2026-08-01T10:00:00+02:00") == {"at": "2026-08-01T08:00:00Z"}
    assert line_times.of(7) == line_times.of("9999-99-99") == {"at": "2026-08-01T08:00:00Z"}


def test_a_pipe_without_any_time_gives_none() -> None:
    with pytest.raises(InvalidEventError, match="Expected a time"):
        LineTimes(None).of("no time")
