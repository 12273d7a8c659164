from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.log.facts import exposure, fact

from rightful.encoding import wire
from rightful.encoding.envelope import encode_body
from rightful.log.refine import GROWING, PLACEHOLDERS, is_placeholder, refines

CALL, RESULT, MESSAGE, USAGE = "tool_call.snapshotted", "tool_result.snapshotted", "message.recorded", "usage.recorded"


def body(kind: str, fields: dict[str, Any]) -> bytes:
    return encode_body(wire.check(fact(kind, **fields)).event)


def judged(kind: str, newer: dict[str, Any], older: dict[str, Any]) -> bool:
    return refines(kind, body(kind, newer), body(kind, older))


GROWN: list[tuple[Any, Any]] = [
    (None, "x"),
    (None, ""),
    (None, {}),
    ("", {}),
    ({}, []),
    (None, 0),
    ("", "x"),
    ("", {"a": 1}),
    ({}, {"command": "ls"}),
    ({}, "text"),
    ("fi", "find ."),
    ({"command": "fi"}, {"command": "find ."}),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": None}, {"a": 5}),
    ([], ["x"]),
    (["a"], ["a", "b"]),
    ([{"text": "he"}], [{"text": "hello"}, {"text": "you"}]),
    ("cut \ud83d", "cut \U0001f600 here"),
    ({"a": {"b": [1, None]}}, {"a": {"b": [1, {"c": 2}]}}),
]

OTHER: list[tuple[Any, Any]] = [
    ("x", None),
    ("x", ""),
    ("find", "grep"),
    ("ab", "a"),
    (1, 2),
    (1, 1.0),
    (1, True),
    (0, "x"),
    (False, "x"),
    ("1", 1),
    ({"a": 1, "b": 2}, {"a": 1}),
    ({"a": 1}, {"a": 2, "b": 2}),
    ({"a": 1}, [1]),
    ([], "x"),
    ([], {"a": 1}),
    (["a", "b"], ["a"]),
    (["a"], ["b", "a"]),
    ("cut \ud83d", "cut elsewhere"),
]


@pytest.mark.parametrize(("older", "newer"), GROWN)
def test_content_with_all_of_another_and_more_refines_it_and_not_reversed(older: Any, newer: Any) -> None:
    assert judged(CALL, {"call": "c", "arguments": newer}, {"call": "c", "arguments": older})
    assert not judged(CALL, {"call": "c", "arguments": older}, {"call": "c", "arguments": newer})


@pytest.mark.parametrize(("older", "newer"), OTHER)
def test_other_content_refines_nothing(older: Any, newer: Any) -> None:
    assert not judged(CALL, {"call": "c", "arguments": newer}, {"call": "c", "arguments": older})


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        (MESSAGE, {"role": "user", "content": "he"}, {"role": "user", "content": "hello"}),
        ("thought.recorded", {"content": "he"}, {"content": "hello"}),
        (USAGE, {"counts": {"input": 1}}, {"counts": {"input": 1, "output": 2}}),
        ("error.recorded", {}, {"message": "boom"}),
        ("error.recorded", {"message": "bo"}, {"message": "boom"}),
        (CALL, {"call": "c"}, {"call": "c", "name": "bash"}),
        (CALL, {"call": "c", "name": ""}, {"call": "c", "name": "bash"}),
        (CALL, {"call": "c", "arguments": "x"}, {"call": "c", "arguments": "x", "complete": True}),
        (RESULT, {"call": "c"}, {"call": "c", "output": "x"}),
        (RESULT, {"call": "c", "output": "x"}, {"call": "c", "output": "xy", "is_error": True}),
        (RESULT, {"call": "c", "output": "x"}, {"call": "c", "output": "x", "complete": True}),
        (MESSAGE, {"role": "user", "content": "x"}, {"role": "user", "content": "x", "extra": {"a": 1}}),
    ],
)
def test_each_growing_type_grows_in_its_own_fields(kind: str, older: dict[str, Any], newer: dict[str, Any]) -> None:
    assert judged(kind, newer, older)
    assert not judged(kind, older, newer)


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        (MESSAGE, {"role": "user", "content": "he"}, {"role": "user2", "content": "hello"}),
        (MESSAGE, {"role": "user", "content": "he"}, {"role": "user", "content": "hello", "alias": True}),
        (MESSAGE, {"role": "u", "content": "a", "extra": {"x": 1}}, {"role": "u", "content": "ab", "extra": {"x": 2}}),
        (CALL, {"call": "c", "arguments": "a"}, {"call": "c2", "arguments": "ab"}),
        (CALL, {"call": "c", "name": "ba", "arguments": "a"}, {"call": "c", "name": "bash", "arguments": "ab"}),
        (CALL, {"call": "c", "name": "bash", "arguments": "a"}, {"call": "c", "arguments": "ab"}),
        (RESULT, {"call": "c", "output": "a"}, {"call": "c2", "output": "ab"}),
        (RESULT, {"call": "c", "output": "a", "is_error": True}, {"call": "c", "output": "ab"}),
        (USAGE, {"counts": {"input": 1}}, {"counts": {"input": 2}}),
    ],
)
def test_what_names_the_fact_must_stay_as_it_was(kind: str, older: dict[str, Any], newer: dict[str, Any]) -> None:
    assert not judged(kind, newer, older)


@pytest.mark.parametrize("kind", [CALL, RESULT])
def test_after_complete_nothing_refines(kind: str) -> None:
    field = "arguments" if kind == CALL else "output"
    done = {"call": "c", field: "a", "complete": True}

    assert not judged(kind, {"call": "c", field: "ab", "complete": True}, done)
    assert not judged(kind, {"call": "c", field: "ab"}, done)
    assert judged(kind, done, {"call": "c", field: "a"})


@pytest.mark.parametrize("word", PLACEHOLDERS)
@pytest.mark.parametrize("complete", [True, False])
def test_result_refines_a_placeholder_and_no_placeholder_a_result(word: str, complete: bool) -> None:
    waiting = {"call": "c", "output": f"{word}: later", "is_error": True, "complete": complete}
    real = {"call": "c", "output": "Y", "complete": True}

    assert judged(RESULT, real, waiting)
    assert not judged(RESULT, waiting, real)
    assert not judged(RESULT, waiting, {"call": "c", "output": ""})


def test_a_placeholder_does_not_refine_a_placeholder() -> None:
    first, second = ({"call": "c", "output": word, "is_error": True} for word in PLACEHOLDERS[:2])

    assert not judged(RESULT, second, first)
    assert not judged(RESULT, first, second)


def test_only_an_error_of_a_listed_word_is_a_placeholder() -> None:
    assert is_placeholder("DEFERRED_NOT_EXECUTED", is_error=True)
    assert not is_placeholder("DEFERRED_NOT_EXECUTED", is_error=False)
    assert not is_placeholder("see DEFERRED_NOT_EXECUTED", is_error=True)
    assert not is_placeholder(None, is_error=True)


def test_equal_bodies_do_not_refine() -> None:
    assert not judged(CALL, {"call": "c", "arguments": {}}, {"call": "c", "arguments": {}})


def test_facts_that_do_not_grow_are_never_refined() -> None:
    older, newer = (encode_body(wire.check(exposure(arms=arms)).event) for arms in ([], [{"arm": "a"}]))

    assert not refines("exposure.recorded", newer, older)
    assert sorted(GROWING) == sorted([CALL, RESULT, MESSAGE, USAGE, "error.recorded", "thought.recorded"])


def test_the_bodies_compared_are_canonical() -> None:
    assert body(CALL, {"call": "c", "arguments": {"b": 1, "a": 2}}) == body(
        CALL, {"call": "c", "arguments": {"a": 2, "b": 1}}
    )
    assert msgspec.json.decode(body(CALL, {"call": "c"})) == {"call": "c"}
