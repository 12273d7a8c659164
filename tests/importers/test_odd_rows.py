"""One odd row never ends an import: whatever an object holds, problems come of it and nothing else."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers.conftest import KINDS, Importer

from rightful.encoding import wire
from rightful.errors import InvalidEventError
from rightful.importers.bandits.bandit_state import BanditState
from rightful.importers.engine.formats import End, Kind, Origin
from rightful.importers.engine.other_tools import described
from rightful.importers.sources.text_files import Found, Problem

BEFORE, BEHIND = "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"
GOOD = {"session_id": "good", "start_time": "2026-08-01T10:00:00Z", "trajectory_grade": 0.5}
EVENT = {"lesson_file": "x.md", "timestamp_inject": "2026-08-01T10:00:00Z"}
EVENTS_NAME = "cc-session-a-lessons.jsonl"
KEYS = (
    "session_id timestamp start_time end_time role content hide arms contextual_arms total_sessions alpha beta "
    "total_selections last_updated helpful injected last_pretool ts lessons path withheld epsilon effective_epsilon "
    "matched tool_seq lesson_file timestamp_inject lesson_events outcome grades trajectory_grade harness model "
    "metadata trajectory_path llm_judge_score exit_code type results"
)
TEXTS = ["", "a", "system", "user", "noop", "2026-08-01T10:00:00Z", BEFORE, BEHIND, "a\x00", "\ud800"]
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, 1, 2**64, 10**400, 1e300])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(TEXTS) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()) | st.text(), inner, max_size=6)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS.split()), JSON, max_size=8)
FORMS: list[dict[str, Any]] = [
    GOOD | {"lesson_events": [EVENT], "timestamp": BEHIND},
    EVENT,
    {"injected": ["a"], "last_pretool": 5.0},
    {"ts": 5.0, "session_id": "s", "lessons": [{"path": "x.md"}], "tool_seq": []},
    {"ts": 5.0, "session_id": "s", "withheld": [{"path": "x.md"}], "epsilon": 0.1, "matched": []},
    {"arms": {"a": {"alpha": 1.0, "beta": 2.0, "total_selections": 3}}},
    {"role": "system", "hide": True, "timestamp": "2026-08-01T10:00:00Z", "content": "# Relevant Lessons\n"},
]
LIKELY = st.tuples(st.sampled_from(FORMS), OBJECTS).map(lambda pair: {**pair[0], **pair[1]})


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("time", [BEFORE, BEHIND, "9998-01-01T00:00:00Z", "1969-12-31T23:59:59Z"])
def test_a_record_whose_time_no_event_may_have_keeps_its_neighbours(
    imported: Importer, tmp_path: Path, time: str
) -> None:
    rows = [GOOD | {"session_id": "odd", "timestamp": time}, GOOD]

    [report] = imported("session-records", write(tmp_path / "a.jsonl", *rows))

    what = f"note: Expected a time from 1970 to 2200, got {time!r} - at `$.timestamp`; it was ignored, and is not "
    assert [one.what for one in report.problems] == [what + "part of the session's name"]
    assert report.appended == 4


@pytest.mark.parametrize("time", [BEFORE, BEHIND, "9998-01-01T00:00:00Z"])
def test_lesson_event_with_an_impossible_time_is_a_problem_with_its_place(
    imported: Importer, tmp_path: Path, time: str
) -> None:
    odd = EVENT | {"timestamp_inject": time}
    records = write(tmp_path / "r" / "a.jsonl", GOOD | {"lesson_events": [odd, EVENT]})

    [alone] = imported("lesson-hook", write(tmp_path / EVENTS_NAME, odd, EVENT))
    [inside] = imported("session-records", records)

    what = f"Expected a time from 1970 to 2200, got {time!r} - at `$"
    assert [(one.line, one.what) for one in alone.problems] == [(1, f"{what}.timestamp_inject`")]
    assert [(one.line, one.what) for one in inside.problems] == [(1, f"{what}.lesson_events[0].timestamp_inject`")]
    assert (alone.appended, alone.exit_code, inside.appended, inside.exit_code) == (1, 2, 4, 2)


def test_a_start_that_no_event_may_have_still_tells_runs_apart(imported: Importer, tmp_path: Path) -> None:
    """Go writes the year 1 for no time; a name that was given before stays what it was."""
    row = GOOD | {"start_time": "0001-01-01T00:00:00Z", "timestamp": "2026-08-01T10:00:00Z"}

    [report] = imported("session-records", write(tmp_path / "a.jsonl", row))

    what = "note: Expected a time from 1970 to 2200, got '0001-01-01T00:00:00Z' - at `$.start_time`; it was ignored"
    assert [one.what for one in report.problems] == [what]
    assert (report.appended, report.exit_code) == (2, 0)


@pytest.mark.parametrize("role", [["system"], {"a": 1}, 5])
def test_a_role_that_is_no_text_makes_no_message(imported: Importer, tmp_path: Path, role: object) -> None:
    write(tmp_path / "ws" / "a.json", {"role": role, "content": "x", "timestamp": "2026-08-01T10:00:00Z"})
    write(tmp_path / "ws" / "b.jsonl", GOOD)

    odd, good = imported("auto", tmp_path / "ws")

    assert (odd.passed, odd.exit_code, good.appended) == (1, 0, 2)


@pytest.mark.parametrize("where", ["events", "finish", "recognises"])
def test_what_we_did_not_foresee_is_said_loudly_and_ends_no_import(
    imported: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def broken(*args: object) -> bool:
        raise KeyError(len(args))

    write(tmp_path / "ws" / "a.json", {"arms": {}})
    write(tmp_path / "ws" / "b.jsonl", GOOD)
    kind = BanditState if where == "recognises" else type(BanditState().reader(Origin("a", 0)))
    with monkeypatch.context() as patched:
        patched.setattr(kind, where, broken)
        odd = imported("bandit-state", tmp_path / "ws" / "a.json", tmp_path / "ws")[1]
    [good] = imported("session-records", tmp_path / "ws" / "b.jsonl")

    assert (odd.exit_code, odd.appended, good.appended) == (2, 0, 2)
    assert odd.problems[0].what.startswith("internal error (KeyError: 2, in test_odd_rows.py:")
    assert odd.problems[0].what.endswith("): not everything here was imported; please report it")


@settings(max_examples=examples(200), deadline=None)
@given(LIKELY | OBJECTS, st.sampled_from(["a.json", EVENTS_NAME, "conversation.jsonl"]))
def test_no_object_breaks_a_kind(value: dict[str, Any], name: str) -> None:
    described(name, [value])
    for kind in KINDS["auto"]:
        if kind.recognises(value):
            read(kind, value, name)


def read(kind: Kind, value: dict[str, Any], name: str) -> None:
    """Read one object as an import does; what comes out is an event in wire form, or a problem."""
    reader = kind.reader(Origin(f"/tmp/folder/{name}", 5, is_named=False))
    for said in (reader.events(Found(1, value)), reader.finish(End("0" * 64, is_whole=True))):
        try:
            for item in said:
                if not isinstance(item, Problem):
                    appended(item)
        except InvalidEventError as error:
            assert error.place.startswith("$")  # noqa: PT017 - none need come


def appended(event: dict[str, Any]) -> None:
    """Check an event as the ledger does before it is written."""
    seq = {"seq": 1} if event["type"] == "grade.recorded" else {}
    with suppress(InvalidEventError):
        wire.check(event | seq)
