"""The vocabulary itself: which types there are, and that nothing about them changes unseen."""

from __future__ import annotations

import typing

import msgspec
import pytest

from rightful.encoding.wire import NESTED
from rightful.events import TYPES, AnyEvent, Event, SessionEvent

TAGS = [
    "session.started",
    "session.ended",
    "session.linked",
    "session.unlinked",
    "exposure.recorded",
    "grade.recorded",
    "grade.retracted",
    "bandit.decayed",
    "bandit.pruned",
    "balance.opened",
    "posterior.published",
    "message.recorded",
    "thought.recorded",
    "usage.recorded",
    "error.recorded",
    "tool_call.snapshotted",
    "tool_result.snapshotted",
    "turn.ended",
    "event.withdrawn",
    "interaction.requested",
    "interaction.answered",
    "data.recorded",
    "transcript.bound",
    "transcript.unbound",
    "history.appended",
    "history.compacted",
    "history.popped",
    "history.cleared",
    "history.forked",
    "compaction.deferred",
    "handoff.written",
    "handoff.taken",
]
WITHOUT_SESSION = {"balance.opened", "posterior.published"}


def test_the_types_are_these() -> None:
    assert list(TYPES) == TAGS
    assert list(TYPES.values()) == list(typing.get_args(AnyEvent))


@pytest.mark.parametrize("tag", TAGS)
def test_each_type_is_frozen_tagged_and_takes_nothing_unknown(tag: str) -> None:
    config = TYPES[tag].__struct_config__

    assert (config.tag, config.tag_field) == (tag, "type")
    assert config.frozen
    assert config.forbid_unknown_fields


@pytest.mark.parametrize("tag", TAGS)
def test_all_but_two_types_are_of_a_session(tag: str) -> None:
    assert issubclass(TYPES[tag], SessionEvent) == (tag not in WITHOUT_SESSION)


@pytest.mark.parametrize("tag", TAGS)
def test_a_new_field_has_a_default_so_that_old_bodies_can_be_read(tag: str) -> None:
    """Adding a field to this list of required ones would make every stored row of the type unreadable."""
    required = {field.encode_name for field in msgspec.structs.fields(TYPES[tag]) if field.required}
    common = {"producer", "at", "session"} - ({"session"} if tag in WITHOUT_SESSION else set())

    assert required - common == {
        "session.linked": {"other", "as", "evidence"},
        "session.unlinked": {"other"},
        "exposure.recorded": {"arms"},
        "grade.recorded": {"seq"},
        "grade.retracted": {"seq"},
        "bandit.decayed": {"gamma"},
        "balance.opened": {"arms", "source", "sha256"},
        "posterior.published": {"policy", "through", "digest", "target", "new_sha256"},
        "message.recorded": {"role"},
        "usage.recorded": {"counts"},
        "tool_call.snapshotted": {"call"},
        "tool_result.snapshotted": {"call"},
        "turn.ended": {"turn"},
        "event.withdrawn": {"key", "id", "revision"},
        "interaction.requested": {"interaction"},
        "interaction.answered": {"interaction"},
        "data.recorded": {"name"},
        "transcript.bound": {"uri", "bytes", "sha256", "evidence"},
        "transcript.unbound": {"uri"},
        "history.appended": {"items"},
        "history.popped": {"items"},
        "history.forked": {"of", "through"},
        "handoff.written": {"name"},
        "handoff.taken": {"written_id"},
    }.get(tag, set())


@pytest.mark.parametrize("tag", TAGS)
def test_content_fields_are_fields_and_extra_is_always_one(tag: str) -> None:
    kind = TYPES[tag]

    assert "extra" in kind.CONTENT
    assert set(kind.CONTENT) <= set(kind.__struct_fields__)


def test_every_field_with_structs_is_decoded_before_it_is_checked() -> None:
    """Msgspec takes a struct as it is; what is not listed here would enter unchecked."""
    holding = {
        kind: tuple(
            field.name
            for field in msgspec.structs.fields(kind)
            if "StructType" in repr(msgspec.inspect.type_info(field.type))
        )
        for kind in TYPES.values()
    }

    assert {kind: fields for kind, fields in holding.items() if fields} == NESTED


def test_the_base_is_no_type() -> None:
    assert Event not in TYPES.values()
    assert SessionEvent not in TYPES.values()
