"""How a fact enters: the place of every fault, every limit at its value and one past it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.log.facts import call, exposure, fact, grade, message

from rightful import limits
from rightful.encoding import wire
from rightful.errors import InvalidEventError
from rightful.events import EventWithdrawn, ExposureRecorded, GradeRecorded, HistoryAppended, HistoryPopped
from rightful.field_types import ArmShown, HistoryRead, ItemRange
from rightful.identity import event_id
from rightful.times import at_of

AT = datetime(2026, 8, 1, 10, 15, tzinfo=UTC)
SHA = "0" * 64
UUID = "f52332eb-feab-51fb-a00d-00340a9b5b6d"


def opened(**fields: Any) -> dict[str, Any]:
    event = fact("balance.opened", arms={}, source="bandit.json", sha256=SHA)
    del event["session"]
    return event | fields


def published(**fields: Any) -> dict[str, Any]:
    event = fact("posterior.published", policy=SHA, through=1, digest=SHA, target="t", new_sha256=SHA)
    del event["session"]
    return event | fields


def linked(**fields: Any) -> dict[str, Any]:
    event = fact("session.linked", other="u:b", evidence="pointer")
    return event | {"as": "native"} | fields


def withdrawn(**fields: Any) -> dict[str, Any]:
    return fact("event.withdrawn", id="f52332eb-feab-51fb-a00d-00340a9b5b6d", revision=1) | fields


def bound(**fields: Any) -> dict[str, Any]:
    return fact("transcript.bound", uri="file:///a", bytes=1, sha256=SHA, evidence="native-id") | fields


def without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != name}


ARM_STATE = {"alpha": 1.5, "beta": 1.0, "n": 1}

FAULTS: list[tuple[Any, str, str]] = [
    # the event itself
    (None, "$", "Expected `object`, got `null`"),
    ([], "$", "Expected `object`, got `array`"),
    ({}, "$.type", "Object missing required field `type`"),
    ({"type": 5}, "$.type", "Expected `str`, got `int`"),
    ({"type": "no.such"}, "$.type", "Invalid value 'no.such'; there are `session.started`, "),
    (grade() | {"bogus": 1}, "$.bogus", "Object contains unknown field `bogus`"),
    (without(grade(), "seq"), "$.seq", "Object missing required field `seq`"),
    # common fields
    (without(grade(), "producer"), "$.producer", "Object missing required field `producer`"),
    (grade(producer=""), "$.producer", "Expected a producer's name"),
    (grade(producer="a b"), "$.producer", "Expected a producer's name"),
    (grade(producer=5), "$.producer", "Expected `str`, got `int`"),
    (without(grade(), "at"), "$.at", "Object missing required field `at`"),
    (
        grade(at="2026-08-01T10:15:00"),
        "$.at",
        "Expected `datetime` with a timezone component, such as 2026-08-01T10:15:00Z",
    ),
    (grade(at=datetime(2026, 8, 1)), "$.at", "Expected `datetime` with a timezone component"),  # noqa: DTZ001 - the fault
    (grade(at=1785579300), "$.at", "Expected `datetime`, got `int`"),
    (grade(at="yesterday"), "$.at", "Invalid RFC3339 encoded datetime"),
    (grade(at="2026-02-30T00:00:00Z"), "$.at", "Invalid RFC3339 encoded datetime"),
    (without(grade(), "key"), "$.key", "Expected `key` or `id`"),
    (grade(""), "$.key", "Expected `key` of length >= 1"),
    (grade("a\nb"), "$.key", "Expected `key` without control characters"),
    (grade() | {"key": 5}, "$.key", "Expected `str | null`, got `int`"),
    (without(grade(id="x"), "key"), "$.id", "Expected `uuid`, got 'x'"),
    (grade(id=SHA[:32]), "$.id", f"Expected `id` {event_id('hook', 'k')}, derived from `producer` and `key`"),
    (without(grade(), "session"), "$.session", "Object missing required field `session`"),
    (grade(session="a"), "$.session", "Expected `namespace:value`"),
    (grade(session="t:"), "$.session", "Expected `namespace:value`"),
    (grade(session="t:a\x1b"), "$.session", "Expected `namespace:value`"),
    (grade(session="t:unknown"), "$.session", "Expected a session, got 't:unknown', which names no session"),
    (grade(session="t:\ud800"), "$.session", "Expected a name without lone surrogates"),
    (opened(session="t:a"), "$.session", "Object contains unknown field `session`"),
    (published(session="t:a"), "$.session", "Object contains unknown field `session`"),
    (grade(turn=""), "$.turn", "Expected `str` of length >= 1"),
    (grade(turn="\ud800"), "$.turn", "Expected a name without lone surrogates"),
    (grade(index=-1), "$.index", "Expected `int` >= 0"),
    (grade(index=True), "$.index", "Expected `int | null`, got `bool`"),
    (grade(index=1.0), "$.index", "Expected `int | null`, got `float`"),
    (grade(alias=1), "$.alias", "Expected `bool`, got `int`"),
    (grade(at_basis="guess"), "$.at_basis", "Invalid enum value 'guess'; there are `file`"),
    (grade(extra=[]), "$.extra", "Expected `object | null`, got `array`"),
    (grade(extra={"a": [b"x"]}), "$.extra.a[0]", "Expected JSON content, got `bytes`"),
    (grade(extra={1: 2}), "$.extra", "Expected `str` keys, got `int`"),
    # exposures
    (exposure(arms=None), "$.arms", "Expected `array`, got `null`"),
    (exposure(arms="x"), "$.arms", "Expected `array` or `object`, got `str`"),
    (exposure(arms=["x"]), "$.arms[0]", "Expected `object`, got `str`"),
    (exposure(arms=[{}]), "$.arms[0].arm", "Object missing required field `arm`"),
    (exposure(arms=[{"arm": "x", "p": 1}]), "$.arms[0].p", "Object contains unknown field `p`"),
    (exposure(arms=[{"arm": ""}]), "$.arms[0].arm", "Expected `str` of length >= 1"),
    (exposure(arms=[{"arm": "x"}, {"arm": "y", "p_inject": 1.5}]), "$.arms[1].p_inject", "Expected `float` <= 1.0"),
    (exposure(arms=[{"arm": "x", "p_inject": True}]), "$.arms[0].p_inject", "Expected `float | null`, got `bool`"),
    (exposure(withheld=[{"arm": "x", "p_inject": -0.1}]), "$.withheld[0].p_inject", "Expected `float` >= 0.0"),
    (exposure(context=["a", 5]), "$.context[1]", "Expected `str | null`, got `int`"),
    # grades
    (without(grade(), "reward"), "$.reward", "Expected `reward` or `outcome`"),
    (grade(reward=1.0000000000000002), "$.reward", "Expected `float` <= 1.0"),
    (grade(reward=-5e-324), "$.reward", "Expected `float` >= 0.0"),
    (grade(reward=float("nan")), "$.reward", "Expected `float` >= 0.0"),
    (grade(reward=float("inf")), "$.reward", "Expected `float` <= 1.0"),
    (grade(reward=True), "$.reward", "Expected `float | null`, got `bool`"),
    (grade(reward="0.5"), "$.reward", "Expected `float | null`, got `str`"),
    (grade(outcome=""), "$.outcome", "Expected `str` of length >= 1"),
    (grade(seq=-1), "$.seq", "Expected `int` >= 0"),
    (grade(seq=1.5), "$.seq", "Expected `int`, got `float`"),
    (grade(rubric="a/b"), "$.rubric", "Expected a rubric without `/`"),
    (grade(per_arm={"x": 2}), "$.per_arm[...]", "Expected `float` <= 1.0"),
    (grade(per_arm={"": 1}), "$.per_arm", "Expected `str` of length >= 1"),
    (grade(salience={"x": float("nan")}), "$.salience[...]", "Expected `float` >= 0.0"),
    (grade(exposure_session="a"), "$.exposure_session", "Expected `namespace:value`"),
    (grade(exposure_session="t:unknown"), "$.exposure_session", "Expected a session, got 't:unknown'"),
    (grade(decay_rate=0), "$.decay_rate", "Expected `float` > 0.0"),
    (fact("grade.retracted"), "$.seq", "Object missing required field `seq`"),
    # links
    (linked(other="b"), "$.other", "Expected `namespace:value`"),
    (linked(other="t:unknown"), "$.other", "Expected a session, got 't:unknown'"),
    (linked(other="t:a"), "$.other", "Expected another session than `session`"),
    (linked(evidence="hearsay"), "$.evidence", "Invalid enum value 'hearsay'"),
    (linked() | {"as": "twin"}, "$.as", "Invalid enum value 'twin'; there are `native`, `resume`, `retry`, `subagent`"),
    (fact("session.unlinked", other="t:a"), "$.other", "Expected another session than `session`"),
    # others
    (fact("session.ended", exit_code=2**40), "$.exit_code", "Expected `int` <= 4294967296"),
    (fact("bandit.decayed", gamma=0), "$.gamma", "Expected `float` > 0.0"),
    (
        fact("bandit.pruned", contexts=[{"arm": "x"}]),
        "$.contexts[0].context",
        "Object missing required field `context`",
    ),
    (opened(arms={"x": ARM_STATE | {"alpha": 0}}), "$.arms[...].alpha", "Expected `float` > 0.0"),
    (opened(sha256="A" * 64), "$.sha256", "Expected 64 hexadecimal digits"),
    (published(through=-1), "$.through", "Expected `int` >= 0"),
    (message("x", role=""), "$.role", "Expected `str` of length >= 1"),
    (message({"x": object()}), "$.content.x", "Expected JSON content, got `object`"),
    (fact("usage.recorded", counts=[]), "$.counts", "Expected `object`, got `array`"),
    (without(call(), "call"), "$.call", "Object missing required field `call`"),
    (without(fact("turn.ended"), "turn"), "$.turn", "Object missing required field `turn`"),
    (without(withdrawn(), "key"), "$.key", "Object missing required field `key`"),
    (withdrawn(id="x"), "$.id", "Expected `uuid`, got 'x'"),
    (withdrawn(revision=0), "$.revision", "Expected `int` >= 1"),
    (bound(uri="a b"), "$.uri", "Expected a URI such as `file:///a%20b`, in ASCII"),
    (bound(uri="file:///\u00e9"), "$.uri", "Expected a URI such as `file:///a%20b`, in ASCII"),
    (bound(evidence="mtime"), "$.evidence", "Invalid enum value 'mtime'"),
    (fact("history.popped", items=[["x", 0]]), "$.items[0][0]", "Expected `uuid`, lower case with hyphens"),
    (fact("history.popped", items=[[UUID, 0, 1]]), "$.items[0]", "Expected `array` of length 2, got 3"),
    (fact("history.popped", items=[{"from": 1}]), "$.items[0].from", "Object contains unknown field `from`"),
    (fact("history.compacted", covers=[{"last": [UUID, -1]}]), "$.covers[0].last[1]", "Expected `int` >= 0"),
    (fact("history.appended", items=[object()]), "$.items[0]", "Expected JSON content, got `object`"),
    (fact("history.appended", items=[], read={}), "$.read.position", "Object missing required field `position`"),
    (fact("handoff.taken", written_id="x"), "$.written_id", "Expected `uuid`, lower case with hyphens"),
    (fact("handoff.written", name="n", found={"pid": 1}), "$.found.pid", "Object contains unknown field `pid`"),
]


@pytest.mark.parametrize(
    ("event", "place", "what"), [pytest.param(*fault, id=f"{at}{fault[1]}") for at, fault in enumerate(FAULTS)]
)
def test_each_fault_says_where_and_what(event: Any, place: str, what: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        wire.check(event)
    assert caught.value.place == place
    assert caught.value.what.startswith(what)


@pytest.mark.parametrize("arm", ["a\nb", "\x00", "\x85"], ids=repr)
def test_an_arm_has_no_control_characters_anywhere(arm: str) -> None:
    for event in (
        exposure(arms=[{"arm": arm}]),
        exposure(withheld=[{"arm": arm}]),
        grade(per_arm={arm: 1}),
        grade(salience={arm: 1}),
        fact("bandit.pruned", arms=[arm]),
        opened(arms={arm: ARM_STATE}),
    ):
        with pytest.raises(InvalidEventError):
            wire.check(event)


# -- what is accepted --------------------------------------------------------------------------


def test_a_checked_event_has_its_id_its_time_and_says_if_it_was_escaped() -> None:
    checked = wire.check(exposure(at="2026-08-01T12:15:00.123456+02:00", extra={"x": "\x00"}))

    assert checked.id == event_id("hook", "k")
    assert checked.at_us == 1_785_579_300_123_456
    assert checked.escaped
    assert not wire.check(exposure()).escaped


def test_own_uuid_is_accepted_in_any_spelling_if_it_agrees() -> None:
    own = without(grade(id="F52332EBFEAB51FBA00D00340A9B5B6D"), "key")

    assert wire.check(own).id == "f52332eb-feab-51fb-a00d-00340a9b5b6d"
    assert wire.check(grade(id=event_id("hook", "k").upper())).id == event_id("hook", "k")


def test_withdrawal_normalises_the_other_id_and_has_an_id_of_its_own() -> None:
    checked = wire.check(withdrawn(id="F52332EBFEAB51FBA00D00340A9B5B6D"))

    assert isinstance(checked.event, EventWithdrawn)
    assert checked.event.id == "f52332eb-feab-51fb-a00d-00340a9b5b6d"
    assert checked.id == event_id("hook", "k")


@pytest.mark.parametrize("reward", [0, 1, 0.0, -0.0, 5e-324, 0.6233766233766234, 1.0])
def test_a_reward_is_kept_exactly_as_it_was_given(reward: float) -> None:
    event = wire.check(grade(reward=reward)).event

    assert isinstance(event, GradeRecorded)
    assert repr(event.reward) == repr(float(reward))


def test_a_struct_is_checked_as_its_wire_object_is() -> None:
    struct = ExposureRecorded(producer="hook", key="k", session="t:a", at=AT, arms=(ArmShown("x", 0.5),))

    assert wire.check(struct) == wire.check(exposure(arms=[{"arm": "x", "p_inject": 0.5}]))
    with pytest.raises(InvalidEventError, match=r"Expected `float` <= 1\.0 - at `\$\.reward`"):
        wire.check(GradeRecorded(producer="hook", key="k", session="t:a", at=AT, seq=1, reward=2.0))


def test_the_callers_object_is_not_changed() -> None:
    event = call({"x": "\x00"})
    before = repr(event)

    wire.check(event)

    assert repr(event) == before


def test_structs_inside_an_event_are_checked_as_their_wire_form_is() -> None:
    first = (UUID, 0)
    appended = fact("history.appended", items=[1], read={"position": 3, "covered": [[UUID, 0], {"last": [UUID, 2]}]})
    made = HistoryAppended(
        producer="p", key="k", at=AT, session="t:a", items=[1], read=HistoryRead(3, (first, ItemRange(last=(UUID, 2))))
    )
    wrong = HistoryPopped(producer="p", key="k", at=AT, session="t:a", items=(ItemRange(first=("x", 0)),))

    assert wire.check(appended).event.read == wire.check(made).event.read == made.read  # type: ignore[attr-defined]
    with pytest.raises(InvalidEventError, match="Expected `uuid`"):
        wire.check(wrong)


def test_a_line_of_json_is_read_too() -> None:
    line = json.dumps(fact("thought.recorded", content="x")).encode()

    event = wire.from_wire(line)

    assert event == wire.from_wire(line.decode()) == wire.check(event).event
    assert event.at == AT
    with pytest.raises(InvalidEventError, match="Expected JSON"):
        wire.from_wire(line[:-1])


def test_event_from_the_wire_is_escaped_once() -> None:
    event = wire.from_wire(json.dumps(call({"$int": "\x00"}, name=None)))

    assert event.arguments == {"$int": "\x00"}  # type: ignore[attr-defined]
    assert wire.check(event).event.arguments == {"$$int": "\x1a0000"}  # type: ignore[attr-defined]


# -- limits ------------------------------------------------------------------------------------


def arms(count: int) -> list[dict[str, Any]]:
    return [{"arm": "x"}] * count


AT_LIMITS: list[tuple[str, Any, Any]] = [
    ("PRODUCER_CHARS", grade(producer="p" * limits.PRODUCER_CHARS), grade(producer="p" * (limits.PRODUCER_CHARS + 1))),
    ("KEY_BYTES", grade("k" * limits.KEY_BYTES), grade("k" * (limits.KEY_BYTES + 1))),
    (
        "SESSION_BYTES",
        grade(session="t:" + "é" * ((limits.SESSION_BYTES - 2) // 2)),
        grade(session="t:" + "é" * ((limits.SESSION_BYTES - 2) // 2) + "a"),
    ),
    ("TURN_CHARS", grade(turn="é" * limits.TURN_CHARS), grade(turn="é" * (limits.TURN_CHARS + 1))),
    (
        "ARM_CHARS",
        exposure(arms=[{"arm": "é" * limits.ARM_CHARS}]),
        exposure(arms=[{"arm": "é" * (limits.ARM_CHARS + 1)}]),
    ),
    ("WORD_CHARS", grade(outcome="é" * limits.WORD_CHARS), grade(outcome="é" * (limits.WORD_CHARS + 1))),
    ("ARMS_COUNT", exposure(arms=arms(limits.ARMS_COUNT)), exposure(arms=arms(limits.ARMS_COUNT + 1))),
    (
        "CONTEXT_COUNT",
        exposure(context=["x"] * limits.CONTEXT_COUNT),
        exposure(context=["x"] * (limits.CONTEXT_COUNT + 1)),
    ),
    (
        "COVERS_COUNT",
        fact("history.popped", items=[[UUID, 0]] * limits.COVERS_COUNT),
        fact("history.popped", items=[[UUID, 0]] * (limits.COVERS_COUNT + 1)),
    ),
    ("URI_CHARS", bound(uri="a:" + "b" * (limits.URI_CHARS - 2)), bound(uri="a:" + "b" * (limits.URI_CHARS - 1))),
    ("SEQ_MAX", grade(seq=limits.SEQ_MAX, index=limits.SEQ_MAX), grade(seq=limits.SEQ_MAX + 1)),
    ("AT_MIN_US", grade(at=at_of(limits.AT_MIN_US)), grade(at=at_of(limits.AT_MIN_US - 1))),
    ("AT_MAX_US", grade(at=at_of(limits.AT_MAX_US)), grade(at=at_of(limits.AT_MAX_US + 1))),
]


@pytest.mark.parametrize(("name", "at", "past"), [pytest.param(*row, id=row[0]) for row in AT_LIMITS])
def test_what_is_at_a_limit_enters_and_what_is_one_past_it_does_not(name: str, at: Any, past: Any) -> None:
    assert hasattr(limits, name)
    assert wire.check(at).id
    with pytest.raises(InvalidEventError):
        wire.check(past)
