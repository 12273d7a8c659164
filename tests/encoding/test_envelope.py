"""Stored bytes: golden for every type, and back again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.log.facts import call, exposure, grade, message

from rightful import limits
from rightful.encoding import envelope, wire
from rightful.encoding.envelope import HEAD_FIELDS, Envelope
from rightful.errors import InvalidEventError, UpgradeError
from rightful.events import TYPES, EventWithdrawn, ExposureRecorded, GradeRecorded, ToolCallSnapshotted

GOLDEN = Path(__file__).parents[1] / "golden" / "events"
SALT = bytes(range(32))
CASES = [
    pytest.param(tag, name, case, id=f"{tag}-{name}")
    for tag in TYPES
    for name, case in json.loads((GOLDEN / f"{tag}.json").read_text("utf-8")).items()
]
"""Of each type `least` and `all`; and `before`, which was `all` before the type got an optional field."""


def enveloped(event: dict[str, Any], **fields: Any) -> Envelope:
    """The envelope of a wire object, as the ledger would make it."""
    checked = wire.check(event)
    body = envelope.encode_body(checked.event)
    made = Envelope(
        id=checked.id,
        revision=1,
        type=event["type"],
        schema=1,
        producer=checked.event.producer,
        session=getattr(checked.event, "session", None),
        turn=checked.event.turn,
        index=checked.event.index,
        at_us=checked.at_us,
        at_basis=checked.event.at_basis,
        recorded_at_us=1_785_500_000_000_001,
        outcome="appended",
        body_bytes=len(body),
        escaped=checked.escaped,
        commitment=envelope.commitment(SALT, body),
    )
    return msgspec.structs.replace(made, **fields)


# -- golden ------------------------------------------------------------------------------------


def test_every_type_has_golden_bytes_and_nothing_else_has() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(f"{tag}.json" for tag in TYPES)


@pytest.mark.parametrize(("tag", "name", "case"), CASES)
def test_the_body_of_each_type_has_these_bytes_for_ever(tag: str, name: str, case: dict[str, Any]) -> None:
    assert envelope.encode_body(wire.check(case["wire"]).event).decode() == case["body"]


@pytest.mark.parametrize(("tag", "name", "case"), CASES)
def test_the_envelope_of_each_type_has_these_bytes_for_ever(tag: str, name: str, case: dict[str, Any]) -> None:
    later = {} if name == "least" else {"revision": 2, "outcome": "conflict", "first": 17}

    assert envelope.encode(enveloped(case["wire"], **later)).decode() == case["envelope"]


@pytest.mark.parametrize(("tag", "name", "case"), CASES)
def test_the_commitment_is_the_hash_of_salt_and_body(tag: str, name: str, case: dict[str, Any]) -> None:
    assert json.loads(case["envelope"])["commitment"] == hashlib.sha256(SALT + case["body"].encode()).hexdigest()


@pytest.mark.parametrize(("tag", "name", "case"), CASES)
def test_a_stored_event_comes_back_as_it_entered(tag: str, name: str, case: dict[str, Any]) -> None:
    """All but the key, which is hashed into the id and not kept."""
    stored = envelope.decode(case["envelope"].encode())

    event = envelope.event_of(stored, case["body"].encode(), 1)

    again = wire.check(case["wire"] | ({} if tag == "event.withdrawn" else {"key": None, "id": stored.id}))
    if isinstance(event, EventWithdrawn):
        again = wire.check(case["wire"])
        assert event == msgspec.structs.replace(again.event, key="")
    elif not stored.escaped:
        assert event == again.event
    assert (
        envelope.encode_body(wire.check(event).event if tag != "event.withdrawn" else again.event)
        == case["body"].encode()
    )


@pytest.mark.parametrize(("tag", "name", "case"), CASES)
def test_the_golden_case_says_all_there_is_to_say(tag: str, name: str, case: dict[str, Any]) -> None:
    """`all` has every field of the type, but `id` beside a `key`."""
    fields = {field.encode_name for field in msgspec.structs.fields(TYPES[tag])} - {"id"} | {"type"}
    given = set(case["wire"]) - {"id"}

    assert given == fields if name == "all" else given <= fields


# -- bodies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", TYPES)
def test_the_body_holds_what_the_envelope_does_not(tag: str) -> None:
    fields = set(envelope.body_kind(TYPES[tag]).struct.__struct_fields__)

    head = HEAD_FIELDS - {"id"} if tag == "event.withdrawn" else HEAD_FIELDS
    assert fields == set(TYPES[tag].__struct_fields__) - head
    assert envelope.body_kind(TYPES[tag]) is envelope.body_kind(TYPES[tag])


def test_the_body_is_the_same_whatever_order_the_keys_came_in() -> None:
    one = exposure(extra={"b": 1, "a": {"d": 1, "c": 2}})
    other = dict(reversed(list(exposure(extra={"a": {"c": 2, "d": 1}, "b": 1}).items())))

    assert envelope.encode_body(wire.check(one).event) == envelope.encode_body(wire.check(other).event)


def test_what_is_left_at_its_default_is_not_stored() -> None:
    plain = envelope.encode_body(wire.check(grade(per_arm=None, rubric="overall", alias=False)).event)

    assert plain == b'{"reward":0.8,"seq":1}'


@pytest.mark.parametrize("number", [0.1, 1e-7, 5e-324, 0.6233766233766234, 1 / 3])
def test_a_float_comes_back_bit_by_bit(number: float) -> None:
    checked = wire.check(grade(reward=number))

    body = envelope.body_of(enveloped(grade(reward=number)), envelope.encode_body(checked.event), 1)

    assert body.reward.hex() == number.hex()


@pytest.mark.parametrize(
    ("event", "place"),
    [
        (grade(rubric="\ud800"), "$.rubric"),
        (grade(outcome="\ud800"), "$.outcome"),
        (message("x", role="\ud800"), "$.role"),
        (exposure(arms=[{"arm": "\ud800"}]), "$.arms"),
        (exposure(context=["\ud800"]), "$.context"),
        (grade(per_arm={"\ud800": 1}), "$.per_arm"),
    ],
    ids=["rubric", "outcome", "role", "arm", "context", "per_arm"],
)
def test_a_name_with_half_a_character_is_refused_at_its_place(event: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidEventError, match="without lone surrogates") as caught:
        envelope.encode_body(wire.check(event).event)
    assert caught.value.place.startswith(place)


def test_a_body_may_be_as_large_as_the_limit_says_and_not_a_byte_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.EVENT_BYTES == 16 * 1024 * 1024
    event = wire.check(message("x" * 100)).event
    size = len(envelope.encode_body(event))

    monkeypatch.setattr(limits, "EVENT_BYTES", size)
    assert len(envelope.encode_body(event)) == size
    monkeypatch.setattr(limits, "EVENT_BYTES", size - 1)
    with pytest.raises(InvalidEventError, match=f"Expected a body of at most {size - 1} bytes, got {size}"):
        envelope.encode_body(event)


# -- envelopes ---------------------------------------------------------------------------------


def test_envelope_may_reach_the_limit_and_not_exceed_it() -> None:
    made = enveloped(grade())
    room = limits.ENVELOPE_BYTES - len(envelope.encode(made)) - len(',"turn":""')

    assert len(envelope.encode(msgspec.structs.replace(made, turn="x" * room))) == limits.ENVELOPE_BYTES
    with pytest.raises(InvalidEventError, match="Expected an envelope of at most 65535 bytes, got 65536"):
        envelope.encode(msgspec.structs.replace(made, turn="x" * (room + 1)))


def test_no_event_that_enters_has_an_envelope_beyond_the_limit() -> None:
    """The longest of everything, each character escaped in six bytes."""
    largest = call(
        producer="p" * limits.PRODUCER_CHARS,
        session="t:" + '"' * (limits.SESSION_BYTES - 2),
        turn="\x00" * limits.TURN_CHARS,
        index=limits.SEQ_MAX,
        at_basis="file",
        extra={"x": "\x00"},
    )

    assert len(envelope.encode(enveloped(largest))) < limits.ENVELOPE_BYTES / 8


def test_an_envelope_comes_back_as_it_was() -> None:
    made = enveloped(call(index=0, at_basis="file"), first=3, revision=2, outcome="stale")

    assert envelope.decode(envelope.encode(made)) == made


def test_what_is_no_envelope_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        envelope.decode(b"{}")


def test_what_a_newer_program_added_is_skipped() -> None:
    newer = json.loads(envelope.encode(enveloped(grade()))) | {"covers": [1, 2]}

    assert envelope.decode(json.dumps(newer).encode()) == enveloped(grade())


def test_type_and_tags_are_read_from_the_bytes() -> None:
    made = enveloped(grade())

    assert envelope.read_head(envelope.encode(made)) == ("grade.recorded", [f"id:{made.id}", "session:t:a"])
    assert envelope.tags_of("x", None) == ["id:x"]


# -- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("newer", [{"type": "run.dreamt"}, {"schema": 2}, {"v": 2}], ids=str)
def test_a_row_that_is_newer_than_the_program_is_never_guessed_at(newer: dict[str, Any]) -> None:
    made = enveloped(grade(), **newer)

    with pytest.raises(UpgradeError) as caught:
        envelope.event_of(made, b"{}", 9)
    assert (caught.value.position, caught.value.type, caught.value.schema) == (9, made.type, made.schema)


def test_a_body_of_an_older_version_is_raised_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(envelope.SCHEMAS, "grade.recorded", 3)
    monkeypatch.setitem(
        envelope.UPCASTERS, ("grade.recorded", 1), lambda body: {"reward": body["score"] / 100, "seq": body["nr"]}
    )
    monkeypatch.setitem(envelope.UPCASTERS, ("grade.recorded", 2), lambda body: body | {"rubric": "style"})

    event = envelope.event_of(enveloped(grade()), b'{"score":50,"nr":4}', 1)

    assert isinstance(event, GradeRecorded)
    assert (event.reward, event.seq, event.rubric) == (0.5, 4, "style")


def test_content_that_was_escaped_is_restored() -> None:
    wild = call({"$float": "\x00", "x": 2**70})
    stored = enveloped(wild)

    event = envelope.event_of(stored, envelope.encode_body(wire.check(wild).event), 1)

    assert isinstance(event, ToolCallSnapshotted)
    assert event.arguments == {"$float": "\x00", "x": 2**70}


def test_content_that_looks_escaped_but_was_not_is_left_alone() -> None:
    stored = enveloped(exposure())

    event = envelope.event_of(stored, b'{"arms":[],"extra":{"x":"\\u001a0000"}}', 1)

    assert isinstance(event, ExposureRecorded)
    assert event.extra == {"x": "\x1a0000"}
