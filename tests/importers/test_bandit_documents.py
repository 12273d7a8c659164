from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import content
from rightful.encoding import envelope, wire
from rightful.events import BalanceOpened
from rightful.importers.bandits.bandit_documents import ParsedState, document
from rightful.importers.bandits.bandit_formats import form_of

SIX = {
    "arm_id": "x",
    "alpha": 2.5,
    "beta": 1.5,
    "total_selections": 2,
    "total_rewards": 1,
    "last_updated": "2026-08-01",
}
LEGACY = {"lesson_path": "x", **{name: value for name, value in SIX.items() if name != "arm_id"}}
PM = {"alpha": 2.0, "beta": 1.0, "total_selections": 1}
Json = dict[str, Any]


def stored(value: Json) -> BalanceOpened:
    """The event of a file as the ledger gives it back: through the wire, the stored body and the escapes."""
    opened = ParsedState(value)
    event = wire.check(
        {
            "type": "balance.opened", "producer": "bandit-state", "key": "k", "at": "2026-08-01T10:00:00Z",
            "source": "s", "sha256": "0" * 64, "arms": opened.arms, "contexts": opened.contexts,
            "judge": opened.judge or None, "sessions": opened.sessions, "extra": opened.extra,
        }
    ).event  # fmt: skip
    assert isinstance(event, BalanceOpened)
    body = json.loads(envelope.encode_body(event))
    common = {"producer": "bandit-state", "key": "k", "at": "2026-08-01T10:00:00Z", "type": "balance.opened"}
    again = wire.from_wire({**body, **common, "extra": content.restore(body["extra"])})
    assert isinstance(again, BalanceOpened)
    return again


def said(value: object) -> str:
    """JSON in one form in which 2 and 2.0 are the same number, and NaN is itself."""

    def plain(one: object) -> object:
        if isinstance(one, dict):
            return {name: plain(item) for name, item in one.items()}
        if isinstance(one, list):
            return [plain(item) for item in one]
        return int(one) if isinstance(one, float) and one.is_integer() else one

    return json.dumps(plain(value), sort_keys=True)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("gptme-sessions", {"arms": {"x": SIX}, "total_sessions": 3, "created": "a", "last_updated": "b"}),
        ("lesson-path", {"arms": {"x": LEGACY}, "total_sessions": 3}),
        ("lesson-thompson", {"arms": {"x": SIX | {"confounded": True}}}),
        ("hybrid-matcher", {"arms": {"x": {"helpful": 4, "noop": 2}, "y": {"alpha": 2.0, "beta": 1.5}}}),
        ("hybrid-matcher", {"arms": {"x": {"alpha": 2.0, "beta": 1.5}}}),
        ("pm-dispatch", {"arms": {"pm-model:ci-fix:opus": PM}}),
        ("empty", {"arms": {}, "total_sessions": 0}),
        ("empty", {"arms": None}),
    ],
)
def test_a_form_is_recognised_by_what_an_arm_has(form: str, value: Json) -> None:
    assert form_of(value) == form
    assert ParsedState(value).extra["form"] == form


def test_what_has_a_field_does_not_stand_in_extra_too() -> None:
    contexts = {"x": {'["code", "opus"]': SIX, '["code", null]': SIX}}
    opened = ParsedState({"arms": {"x": SIX}, "total_sessions": 3, "created": "a", "contextual_arms": contexts})

    state = {"alpha": 2.5, "beta": 1.5, "n": 2, "rewards": 1, "last_updated": "2026-08-01"}
    assert opened.arms == {"x": state}
    assert opened.contexts == [
        {"arm": "x", "context": ["code", "opus"], **state},
        {"arm": "x", "context": ["code", None], **state},
    ]
    assert opened.sessions == 3
    assert opened.extra == {"form": "gptme-sessions", "named_by": "arm_id", "document": {"created": "a"}}


def test_what_has_no_field_stands_in_extra_at_its_level() -> None:
    arm = SIX | {"arm_id": "another", "confounded": True}
    contexts = {"x": {'["code"]': SIX | {"note": 1}, '["a","b"]': SIX}}
    opened = ParsedState({"arms": {"x": arm, "y": PM}, "version": 2, "contextual_arms": contexts})

    assert opened.extra == {
        "form": "lesson-thompson",
        "named_by": "arm_id",
        "document": {"version": 2},
        "arms": {"x": {"arm_id": "another", "confounded": True}},
        "contexts": {"x": {'["code"]': {"note": 1}}},
        "keys": {"x": {'["a", "b"]': '["a","b"]'}},
        "absent": {"arms": {"y": ["arm_id"]}},
    }


def test_a_judges_counters_stand_apart_and_need_no_belief() -> None:
    value = {"arms": {"x": {"helpful": 4, "harmful": 1, "false_positive": 0, "noop": 2}, "y": PM | {"helpful": 1}}}
    opened = ParsedState(value)

    assert opened.judge == {"x": {"helpful": 4, "harmful": 1, "false_positive": 0, "noop": 2}, "y": {"helpful": 1}}
    assert opened.arms == {"y": {"alpha": 2.0, "beta": 1.0, "n": 1}}
    assert opened.problems == []


BAD: list[tuple[Any, str]] = [
    (PM | {"alpha": float("nan")}, "Expected a finite number, got nan - at `$.arms['b'].alpha`"),
    (PM | {"alpha": float("inf")}, "Expected a finite number, got inf - at `$.arms['b'].alpha`"),
    (PM | {"alpha": None}, "Expected `float`, got `null` - at `$.arms['b'].alpha`"),
    (PM | {"alpha": "2.0"}, "Expected `float`, got `str` - at `$.arms['b'].alpha`"),
    (PM | {"alpha": True}, "Expected `float`, got `bool` - at `$.arms['b'].alpha`"),
    (PM | {"beta": 0}, "Expected `float` > 0.0 - at `$.arms['b'].beta`"),
    (PM | {"beta": -1.5}, "Expected `float` > 0.0 - at `$.arms['b'].beta`"),
    (PM | {"total_selections": -1}, "Expected `int` >= 0 - at `$.arms['b'].total_selections`"),
    (PM | {"total_selections": 1.5}, "Expected `int`, got `float` - at `$.arms['b'].total_selections`"),
    ({"alpha": 2.0}, "Object missing required field `beta` - at `$.arms['b']`"),
    ({}, "Object missing required field `alpha` - at `$.arms['b']`"),
    (None, "Expected `object`, got `null` - at `$.arms['b']`"),
    ([1, 2], "Expected `object`, got `array` - at `$.arms['b']`"),
    ({"helpful": -1}, "Expected a count, got `int` - at `$.arms['b'].helpful`"),
]


@pytest.mark.parametrize(("bad", "what"), BAD)
def test_invalid_arm_is_a_problem_with_its_place_and_kept_raw(bad: object, what: str) -> None:
    opened = ParsedState({"arms": {"a": PM, "b": bad, "c": PM}})

    assert [str(error) for error in opened.problems] == [what]
    assert list(opened.arms) == ["a", "c"]
    assert said(opened.extra["arms"]["b"]) == said(bad)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("", "Expected `str` of length >= 1 - at `$.arms['']`"),
        ("a\nb", "Expected an arm without control characters - at `$.arms['a\\nb']`"),
        ("caf\udce9", "Expected text in UTF-8, got other bytes - at `$.arms['caf\\udce9']`"),
    ],
)
def test_a_name_that_no_arm_can_have_is_a_problem(name: str, what: str) -> None:
    opened = ParsedState({"arms": {name: PM, "c": PM}})

    assert [str(error) for error in opened.problems] == [what]
    assert list(opened.arms) == ["c"]
    assert document(stored({"arms": {name: PM, "c": PM}})) == {"arms": {name: PM, "c": PM}}


@pytest.mark.parametrize(
    ("contexts", "what"),
    [
        ({"x": {"code": SIX}}, "Expected a JSON array of text or null as the key of a context"),
        ({"x": {"[1]": SIX}}, "Expected a JSON array of text or null as the key of a context"),
        ({"x": {'["a"]': SIX | {"beta": -1}}}, "Expected `float` > 0.0"),
        ({"x": {'["a"]': None}}, "Expected `object`, got `null`"),
        ({"x": {'["a"]': SIX, '[ "a"]': SIX}}, "Expected each context of an arm once"),
        ({"x": None}, "Expected `object`, got `null`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_invalid_context_is_a_problem_and_loses_no_neighbour(contexts: object, what: str) -> None:
    value = {"arms": {"x": SIX}, "contextual_arms": contexts}
    opened = ParsedState(value)

    assert [error.what for error in opened.problems] == [what]
    assert list(opened.arms) == ["x"]
    assert document(stored(value)) == value


def test_a_reward_total_of_another_shape_costs_nothing() -> None:
    """gptme counts a reward above 0.5; others write what they like, and nobody computes with it."""
    value = {"arms": {"x": SIX | {"total_rewards": 1.5}, "y": SIX | {"arm_id": "y", "total_rewards": None}}}
    opened = ParsedState(value)

    assert (opened.problems, opened.arms["x"].get("rewards")) == ([], None)
    assert opened.extra["arms"] == {"x": {"total_rewards": 1.5}, "y": {"total_rewards": None}}


def test_selections_may_be_written_as_a_float() -> None:
    """JavaScript and some Python writers have one kind of number."""
    per = {'["a"]': SIX | {"total_selections": 2.0}}
    judged = {"helpful": 1.0, "harmful": 0, "alpha": 2.0, "beta": 1.0, "total_selections": 1, "arm_id": "j"}
    arms = {"x": SIX | {"total_selections": 3.0, "total_rewards": 2.0}, "j": judged}
    value = {"arms": arms, "contextual_arms": {"x": per}, "total_sessions": 4.0}
    opened = ParsedState(value)

    assert (opened.arms["x"]["n"], opened.sessions, opened.problems) == (3, 4, [])
    assert json.dumps(document(stored(value)), sort_keys=True) == json.dumps(value, sort_keys=True)


def test_a_time_that_is_no_text_in_utf8_is_kept_unchanged() -> None:
    value = {"arms": {"x": PM | {"last_updated": "2026\udce9"}, "y": PM | {"last_updated": 7}}}

    assert "last_updated" not in ParsedState(value).arms["x"]
    assert document(stored(value)) == value


def test_selections_that_are_not_said_are_none() -> None:
    opened = ParsedState({"arms": {"x": {"alpha": 2.0, "beta": 1.5}}})

    assert (opened.arms["x"]["n"], opened.uncounted) == (0, 1)
    assert opened.extra["absent"] == {"arms": {"x": ["total_selections"]}}


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 4) | st.text("ab\x00", max_size=3)
loose = st.recursive(
    scalars | st.just(float("nan")) | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab$", max_size=2), inner, max_size=2),
    max_leaves=4,
)
numbers = st.floats(0.01, 1e6) | st.integers(1, 9)
fields = {
    "arm_id": st.text("xyz", max_size=2),
    "lesson_path": st.text("xyz", max_size=2),
    "alpha": numbers | loose,
    "beta": numbers | loose,
    "total_selections": st.integers(0, 9) | loose,
    "total_rewards": st.integers(0, 9) | loose,
    "last_updated": st.text("2026-08T:\udce9", max_size=9) | loose,
    "helpful": st.integers(0, 9) | loose,
    "noop": st.integers(0, 9) | loose,
    "confounded": loose,
}
arms = st.fixed_dictionaries({}, optional=fields) | st.just(SIX) | st.just(LEGACY) | st.just(PM)
names = st.text("xyz", max_size=2) | st.sampled_from(["a\nb", "caf\udce9", "$int"])
contexts = st.lists(st.none() | st.text("cé", max_size=2), max_size=2).flatmap(
    lambda one: st.sampled_from([json.dumps(one), json.dumps(one, separators=(",", ":")), json.dumps(one)[1:]])
)
documents = st.fixed_dictionaries(
    {"arms": st.dictionaries(names, arms | loose, max_size=4) | loose},
    optional={
        "contextual_arms": st.dictionaries(
            names, st.dictionaries(contexts, arms | loose, max_size=3) | loose, max_size=3
        )
        | loose,
        "total_sessions": st.integers(0, 9) | loose,
        "created": loose,
        "last_updated": loose,
        "version": loose,
    },
)


@given(documents)
def test_the_document_can_be_made_again_from_the_stored_event_alone(value: Json) -> None:
    assert said(document(stored(value))) == said(value)


@given(documents)
def test_what_cannot_be_opened_is_said_and_what_is_opened_is_counted(value: Json) -> None:
    opened = ParsedState(value)

    good = 0 if not isinstance(value["arms"], dict) else len(value["arms"])
    assert len(opened.arms.keys() | opened.judge.keys()) + len(opened.problems) >= good
