"""The columns say of every session what its rows say: with any pages, after a load, and under a newer program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.memory import MemoryRecorder

from rightful.identity import event_id
from rightful.log.log import Log
from rightful.log.rows import Page, Stored
from rightful.projections.facts.completeness import COUNTED, completeness_of
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.fold import fold
from rightful.projections.facts.turn_rows import transcript_states
from rightful.projections.projected import Projected
from rightful.projections.store import Store

Wire = dict[str, Any]
FIELDS: dict[str, Wire] = {
    "message.recorded": {"role": "user"},
    "thought.recorded": {},
    "usage.recorded": {"counts": {}},
    "error.recorded": {},
    "tool_call.snapshotted": {"call": "c"},
    "tool_result.snapshotted": {"call": "c"},
    "interaction.requested": {"interaction": "i"},
    "interaction.answered": {"interaction": "i"},
    "data.recorded": {"name": "overwriting-store"},
    "exposure.recorded": {"arms": []},
    "session.started": {},
}
INDEXES = st.one_of(st.none(), st.integers(0, 4))


@st.composite
def facts_of(draw: st.DrawFn) -> Wire:
    """Draw an event of one of two sessions, by one of two producers, in one of two turns or in none."""
    kind = draw(st.sampled_from([*FIELDS, "turn.ended", "turn.ended", "message.recorded", "event.withdrawn"]))
    common = {
        "type": kind,
        "producer": draw(st.sampled_from(["p", "q"])),
        "session": draw(st.sampled_from(["t:a", "t:b"])),
        "at": "2026-08-01T10:15:00Z",
        "key": draw(st.sampled_from("abcd" if kind == "turn.ended" else "abcdefgh")),
        "turn": draw(st.sampled_from(["1", "2", None])),
        "index": draw(INDEXES),
    }
    if kind == "event.withdrawn":
        what = {
            "id": event_id(str(common["producer"]), draw(st.sampled_from("abcd"))),
            "revision": draw(st.integers(1, 3)),
        }
        return {name: common[name] for name in ("type", "producer", "session", "at")} | what | {"key": str(what)}
    if kind != "turn.ended":
        return common | FIELDS[kind]
    end = {"turn": common["turn"] or "1", "event_count": draw(st.one_of(st.none(), st.integers(0, 5)))}
    more = {"dropped_count": draw(st.sampled_from([None, 0, 1])), "previous": draw(st.sampled_from([None, "1", "2"]))}
    return common | end | more


def rows_of(events: list[Wire]) -> list[Stored]:
    log = Log(MemoryRecorder(), path="here", entropy=bytes)
    log.append(events)
    return [row for page in log.scan() for row in page]


def folded(rows: list[Stored], size: int) -> dict[str, str]:
    """Return the states by name, of rows that were folded in pages of a size."""
    facts = Facts()
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        fold(facts, Page(at, [row.envelope for row in part], [row.payload for row in part]))
    return {facts.names.texts[name]: state for name, state in transcript_states(facts.turns).items()}


def told(rows: list[Stored]) -> dict[str, str]:
    """Return what the rows of each session say of it, where it has a transcript."""
    found: dict[str, str] = {}
    for session in {row.envelope.session for row in rows if row.envelope.session}:
        whole = completeness_of(row for row in rows if row.envelope.session == session)
        if whole.why != "no transcript of it is recorded":
            found[session] = whole.state
    return found


@given(st.lists(facts_of(), max_size=14), st.integers(1, 14))
def test_the_columns_say_what_the_rows_say_however_they_come_in_pages(events: list[Wire], size: int) -> None:
    rows = rows_of(events)

    assert folded(rows, size) == told(rows)


@given(st.lists(facts_of(), max_size=14), st.integers(0, 13))
def test_the_columns_say_what_the_rows_say_where_a_payload_was_erased(events: list[Wire], at: int) -> None:
    rows = rows_of(events)
    rows = [row._replace(payload=None) if place == at else row for place, row in enumerate(rows)]

    assert folded(rows, 5) == told(rows)


CASES: dict[str, tuple[list[Wire], str]] = {}


def case(name: str, state: str, *events: Wire) -> None:
    common = {"producer": "p", "session": "t:a", "at": "2026-08-01T10:15:00Z"}
    CASES[name] = [common | {"key": str(at)} | event for at, event in enumerate(events)], state


def message(index: int | None, turn: str | None = "1") -> Wire:
    return {"type": "message.recorded", "role": "user", "turn": turn, "index": index}


def ended(turn: str = "1", **fields: Any) -> Wire:
    return {"type": "turn.ended", "turn": turn} | fields


OVERWRITES = {"type": "data.recorded", "name": "overwriting-store"}
case("whole", "complete", message(0), message(1), ended(event_count=2))
case("a gap", "incomplete", message(0), message(2), ended(event_count=3))
case("a lost tail", "incomplete", message(0), ended(event_count=2))
case("an end with its own index", "complete", message(0), ended(index=1))
case("an end whose own index shows a gap", "incomplete", message(0), ended(index=2))
case("dropped", "incomplete", message(0), ended(event_count=1, dropped_count=1))
case("a lost turn", "incomplete", message(0), ended(event_count=1, previous="0"))
case("a turn before it", "complete", message(0), ended(event_count=1, previous="0"), ended("0", event_count=0))
case("a store that overwrites", "unknown", OVERWRITES, message(0), message(2), ended(index=3))
case("a store that overwrites, without a gap", "unknown", OVERWRITES, message(0), ended(index=1))
case("an open turn", "incomplete", message(0))
case("an end without a count", "unknown", message(0), ended())
case("behind an end without a count", "incomplete", message(0), ended(), message(1))
case("behind the count", "incomplete", message(0), ended(event_count=1), message(1))
case("between two ends", "incomplete", message(0), ended(index=1), message(2), ended(index=3))
case("no index", "unknown", message(None), ended(event_count=1))
case("no index, and too few", "incomplete", message(None), ended(event_count=2))
case("no turn", "unknown", message(0), ended(event_count=1), message(0, None))
case("another producer's doubt", "unknown", message(0), ended(event_count=1), message(None) | {"producer": "q"})
case("the worst of two", "incomplete", message(0), message(None, "2") | {"producer": "q"})


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1, 99])
def test_each_thing_that_a_turn_can_lack_is_reported_by_both(name: str, size: int) -> None:
    events, state = CASES[name]
    rows = rows_of(events)

    assert folded(rows, size) == told(rows) == {"t:a": state}


def test_every_type_of_a_transcript_is_drawn() -> None:
    assert FIELDS.keys() > COUNTED


class Pages:
    """A log as the projections read it."""

    path = "here"

    def __init__(self, rows: list[Stored]) -> None:
        self.stored = rows

    def head(self) -> int:
        return len(self.stored)

    def scan(self, after: int = 0, until: int | None = None) -> list[list[Stored]]:
        return [self.stored[after:until]]

    def pages(self, after: int = 0, until: int | None = None) -> list[Page]:
        return [Page(after, [r.envelope for r in rows], [r.payload for r in rows]) for rows in self.scan(after, until)]

    def of_type(self, kind: str, after: int = 0, until: int | None = None) -> list[list[Stored]]:
        return [[row for row in rows if row.envelope.type == kind] for rows in self.scan(after, until)]


def turn(*indexes: int, count: int | None = 2) -> list[Wire]:
    common = {"producer": "p", "session": "t:a", "at": "2026-08-01T10:15:00Z", "turn": "1"}
    said = [common | {"type": "message.recorded", "role": "user", "key": f"{at}", "index": at} for at in indexes]
    return [*said, common | {"type": "turn.ended", "key": "end", "event_count": count}]


def test_what_came_before_a_save_is_put_together_with_what_came_after(tmp_path: Path) -> None:
    rows = rows_of([*turn(0), *turn(1)[:1]])
    first = Projected(Pages(rows[:2]), Store(tmp_path, "id"))  # type: ignore[arg-type]
    before = transcript_states(first.catch_up().turns)
    assert first.save()

    again = Projected(Pages(rows), Store(tmp_path, "id"))  # type: ignore[arg-type]

    assert (before, transcript_states(again.catch_up().turns)) == ({0: "incomplete"}, {0: "complete"})


def test_end_by_a_newer_program_counts_nothing_and_stops_no_other_query() -> None:
    rows = rows_of(turn(0, 1))
    newer = rows[-1]._replace(envelope=msgspec.structs.replace(rows[-1].envelope, schema=99))

    assert folded(rows, 9) == {"t:a": "complete"}
    assert folded([*rows[:-1], newer], 9) == {"t:a": "unknown"}


def test_session_of_a_newer_program_counts_nothing_and_loses_no_turn() -> None:
    common = {"producer": "p", "session": "t:a", "at": "2026-08-01T10:15:00Z", "key": "o"}
    rows = rows_of([*turn(0, 1), common | OVERWRITES])
    newer = rows[-1]._replace(envelope=msgspec.structs.replace(rows[-1].envelope, schema=99))

    assert folded([*rows[:-1], newer], 9) == {"t:a": "complete"}


def test_rows_behind_one_of_a_newer_program_are_not_folded_twice() -> None:
    rows = rows_of([*turn(0), *turn(1)[:1]])
    newer = rows[2]._replace(envelope=msgspec.structs.replace(rows[2].envelope, type="run.dreamt"))
    facts = Facts()
    bad = Page(0, [rows[0].envelope, rows[1].envelope, newer.envelope], [row.payload for row in rows])
    with pytest.raises(Exception, match=r"run\.dreamt"):
        fold(facts, bad)

    before = len(facts.turns)
    fold(facts, Page(2, [rows[2].envelope], [rows[2].payload]))

    assert before == 2
    assert transcript_states(facts.turns) == {0: "complete"}
