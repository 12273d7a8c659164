from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import Importer, said

from rightful import limits
from rightful.events import GradeRecorded, SessionEnded, SessionLinked, SessionStarted
from rightful.ledger import Ledger

W = "workspace:7c1d@2026-08-01T10:00:00+00:00"
CC = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
RUBRIC = "a dimension of 1 to 512 characters without `/` and control characters"
TIMELESS = "note: the row has no time: the file's time was used, and the session's name does not include a start"


def row(**fields: Any) -> dict[str, Any]:
    return {
        "session_id": "7c1d",
        "start_time": "2026-08-01T10:00:00+00:00",
        "timestamp": "2026-08-01T10:30:00+00:00",
        "trajectory_grade": 0.6,
    } | fields


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in rows))
    return path


def grades(ledger: Ledger, rubric: str = "overall") -> list[tuple[int, float | None, str | None]]:
    events = [event.event for event in ledger.read() if isinstance(event.event, GradeRecorded)]
    return [(event.seq, event.reward, event.outcome) for event in events if event.rubric == rubric]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "session-records.jsonl"


def test_the_golden_file_is_imported_with_every_problem_and_its_line(
    ledger: Ledger, imported: Importer, golden: Path
) -> None:
    [once] = imported("session-records", golden / "sessions")
    [again] = imported("session-records", golden / "sessions")

    problems = [
        {"line": 4, "what": "Object missing required field `session_id` - at `$`"},
        {"line": 5, "what": "Expected JSON, got a truncated line"},
        {"line": 6, "what": TIMELESS},
        {"line": 6, "what": "note: several objects share this line; read from it: 2"},
        {"line": 7, "what": TIMELESS},
    ]
    assert said(once) == {"appended": 17, "duplicate": 6, "problems": problems}
    assert said(again) == {"appended": 0, "duplicate": 23, "problems": problems}
    assert once.exit_code == 2
    sessions = {event.session for event in ledger.read()}
    assert {"workspace:g1", "workspace:g2", "workspace:oldstyle"} <= sessions


def test_the_golden_file_gives_the_golden_ids(ledger: Ledger, imported: Importer, golden: Path) -> None:
    """Event ids are for ever: a changed id would import everything a second time."""
    imported("session-records", golden / "sessions")

    expected = json.loads((golden / "session-records.ids").read_text())
    assert [one.id for one in ledger.read()] == list(expected)
    assert [[one.type, one.session] for one in ledger.read()] == [facts[:2] for facts in expected.values()]


def test_a_row_says_when_it_began_and_ended_and_who_ran_it(ledger: Ledger, imported: Importer, records: Path) -> None:
    fields = {"end_time": "2026-08-01T10:29:00Z", "harness": "claude-code", "model": "opus", "exit_code": 0}
    imported("session-records", write(records, row(**fields, category="code", error=None)))

    started, ended, grade = [one.event for one in ledger.read()]
    assert isinstance(started, SessionStarted)
    assert (started.session, started.harness, started.model) == (W, "claude-code", "opus")
    assert started.at == datetime(2026, 8, 1, 10, 0, tzinfo=UTC)
    assert isinstance(ended, SessionEnded)
    assert (ended.exit_code, ended.extra) == (0, {"category": "code"})
    assert isinstance(grade, GradeRecorded)
    assert grade.at == ended.at == datetime(2026, 8, 1, 10, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "grade"),
    [
        ({}, (1, 0.6, None)),
        ({"outcome": "productive"}, (1, 0.6, "productive")),
        ({"outcome": "unknown"}, (1, 0.6, None)),
        ({"grades": {"productivity": 0.4}}, (1, 0.6, None)),
        ({"trajectory_grade": None, "grades": {"productivity": 0.4}}, (1, 0.4, None)),
        ({"trajectory_grade": None, "outcome": "noop"}, (1, None, "noop")),
        ({"trajectory_grade": 1}, (1, 1.0, None)),
        ({"trajectory_grade": 0.5833333333333334}, (1, 0.5833333333333334, None)),
    ],
)
def test_overall_grade_is_trajectory_else_productivity_else_outcome(
    ledger: Ledger, imported: Importer, records: Path, fields: dict[str, Any], grade: tuple[int, float, str]
) -> None:
    imported("session-records", write(records, row(**fields)))

    assert grades(ledger) == [grade]


@pytest.mark.parametrize("fields", [{"trajectory_grade": None}, {"trajectory_grade": None, "outcome": "unknown"}])
def test_a_row_without_a_grade_grades_nothing(
    ledger: Ledger, imported: Importer, records: Path, fields: dict[str, Any]
) -> None:
    [report] = imported("session-records", write(records, row(**fields)))

    assert grades(ledger) == []
    assert report.problems == []


def test_every_other_dimension_is_a_rubric_of_its_own(ledger: Ledger, imported: Importer, records: Path) -> None:
    dimensions = {"productivity": 0.7, "alignment": 0.8, "harm": 0.0, "durability": None}
    imported("session-records", write(records, row(grades=dimensions, llm_judge_score=0.1)))

    assert grades(ledger, "productivity") == [(1, 0.7, None)]
    assert grades(ledger, "alignment") == [(1, 0.8, None)]
    assert grades(ledger, "harm") == [(1, 0.0, None)]
    assert grades(ledger, "durability") == []


def test_the_dimension_that_is_the_overall_grade_is_no_rubric_too(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    imported("session-records", write(records, row(trajectory_grade=None, grades={"productivity": 0.4})))

    assert grades(ledger, "productivity") == []


def test_the_judges_score_is_the_alignment_where_there_is_no_other(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    imported("session-records", write(records, row(llm_judge_score=0.7)))

    assert grades(ledger, "alignment") == [(1, 0.7, None)]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"trajectory_grade": 1.5}, "Expected `float` <= 1.0 - at `$.trajectory_grade`"),
        ({"trajectory_grade": -0.1}, "Expected `float` >= 0.0 - at `$.trajectory_grade`"),
        ({"trajectory_grade": "0.6"}, "Expected `float | null`, got `str` - at `$.trajectory_grade`"),
        ({"trajectory_grade": True}, "Expected `float | null`, got `bool` - at `$.trajectory_grade`"),
        ({"trajectory_grade": float("nan")}, "Expected `float` >= 0.0 - at `$.trajectory_grade`"),
        ({"outcome": 7, "trajectory_grade": None}, "Expected `str | null`, got `int` - at `$.outcome`"),
        ({"outcome": "", "trajectory_grade": None}, "Expected `str` of length >= 1 - at `$.outcome`"),
    ],
)
def test_what_is_no_grade_is_reported_with_its_place_and_takes_no_seq(
    ledger: Ledger, imported: Importer, records: Path, fields: dict[str, Any], what: str
) -> None:
    [report] = imported("session-records", write(records, row(**fields), row(trajectory_grade=0.9)))

    assert [(one.line, one.what) for one in report.problems] == [(1, what)]
    assert grades(ledger) == [(1, 0.9, None)]


@pytest.mark.parametrize(
    ("dimensions", "what"),
    [
        ({"a/b": 0.5}, f"Expected {RUBRIC}, got 'a/b' - at `$.grades`"),
        ({"a\nb": 0.5}, f"Expected {RUBRIC}, got 'a\\nb' - at `$.grades`"),
        ({"": 0.5}, f"Expected {RUBRIC}, got '' - at `$.grades`"),
        (
            {"overall": 0.5},
            "Expected a dimension other than `overall`, which names the overall grade - at `$.grades.overall`",
        ),
        ({"harm": 2}, "Expected `float` <= 1.0 - at `$.grades.harm`"),
        ([0.5], "Expected `object`, got `array` - at `$.grades`"),
    ],
)
def test_invalid_dimension_is_reported_and_the_others_are_imported(
    ledger: Ledger, imported: Importer, records: Path, dimensions: Any, what: str
) -> None:
    grown = dimensions | {"alignment": 0.8} if isinstance(dimensions, dict) else dimensions

    [report] = imported("session-records", write(records, row(grades=grown)))

    assert [(one.line, one.what) for one in report.problems] == [(1, what)]
    assert grades(ledger) == [(1, 0.6, None)]
    assert len(grades(ledger, "alignment")) == isinstance(dimensions, dict)


@pytest.mark.parametrize("outcome", [5, ["noop"], "x" * (limits.WORD_CHARS + 1)])
def test_an_outcome_that_is_none_costs_no_reward(
    ledger: Ledger, imported: Importer, records: Path, outcome: object
) -> None:
    [report] = imported("session-records", write(records, row(outcome=outcome)))

    assert grades(ledger) == [(1, 0.6, None)]
    assert [one.what.endswith(" - at `$.outcome`") for one in report.problems] == [True]
    assert report.exit_code == 2


def test_there_are_at_most_as_many_dimensions_as_arms(ledger: Ledger, imported: Importer, records: Path) -> None:
    most = {f"d{number}": 0.5 for number in range(limits.ARMS_COUNT)}

    [full] = imported("session-records", write(records, row(grades=most)))
    [over] = imported("session-records", write(records, row(grades=most | {"one more": 0.5})))

    assert full.appended == limits.ARMS_COUNT + 2
    assert [one.what for one in over.problems] == ["Expected at most 10000 dimensions - at `$.grades`"]


def test_a_row_that_comes_again_with_another_grade_is_a_regrade(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    rows = (row(), row(trajectory_grade=0.9), row(trajectory_grade=0.9), row(outcome="noop", trajectory_grade=0.9))

    imported("session-records", write(records, *rows))

    assert grades(ledger) == [(1, 0.6, None), (2, 0.9, None), (3, 0.9, "noop")]


def test_an_older_copy_of_the_file_changes_nothing(ledger: Ledger, imported: Importer, records: Path) -> None:
    """The store rewrites its file: v1, v2, then v1 from a backup must not turn the grade back."""
    for grade, appended in ((0.6, 2), (0.9, 1), (0.6, 0), (0.9, 0), (0.6, 0)):
        [report] = imported("session-records", write(records, row(trajectory_grade=grade)))
        assert (grade, report.appended) == (grade, appended)

    assert grades(ledger) == [(1, 0.6, None), (2, 0.9, None)]


def test_a_grade_that_really_goes_back_has_a_new_time(ledger: Ledger, imported: Importer, records: Path) -> None:
    for grade, minute in ((0.6, 30), (0.9, 31), (0.6, 32)):
        again = row(trajectory_grade=grade, timestamp=f"2026-08-01T10:{minute}:00+00:00")
        imported("session-records", write(records, again))

    assert grades(ledger) == [(1, 0.6, None), (2, 0.9, None), (3, 0.6, None)]


def test_a_row_rewritten_without_another_grade_adds_no_grade(ledger: Ledger, imported: Importer, records: Path) -> None:
    imported("session-records", write(records, row()))
    [report] = imported("session-records", write(records, row(timestamp="2026-08-01T11:00:00Z", category="docs")))

    assert said(report) == {"appended": 1, "duplicate": 2, "problems": []}
    assert grades(ledger) == [(1, 0.6, None)]


def test_a_grade_after_a_retraction_takes_the_next_seq(ledger: Ledger, imported: Importer, records: Path) -> None:
    imported("session-records", write(records, row()))
    ledger.append(
        [
            {
                "type": "grade.retracted",
                "producer": "session-records",
                "key": "took it back",
                "session": W,
                "at": "2026-08-01T12:00:00Z",
                "seq": 2,
            }
        ]
    )
    imported("session-records", write(records, row()))
    imported("session-records", write(records, row(timestamp="2026-08-01T13:00:00Z")))

    assert grades(ledger) == [(1, 0.6, None), (3, 0.6, None)]


def test_other_graders_do_not_move_the_seq(ledger: Ledger, imported: Importer, records: Path) -> None:
    other = {"type": "grade.recorded", "producer": "judge", "session": W, "at": "2026-08-01T12:00:00Z", "reward": 0.1}
    ledger.append(
        [
            other | {"key": "1", "seq": 7},
            other | {"key": "2", "seq": 8, "producer": "session-records", "rubric": "harm"},
        ]
    )

    imported("session-records", write(records, row()))

    assert grades(ledger) == [(7, 0.1, None), (1, 0.6, None)]


def test_a_grade_that_others_gave_meanwhile_is_read_again(
    ledger: Ledger, imported: Importer, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two importers at once: the second decides on what the first wrote, not on what it had read."""
    original = ledger.log.append
    rivals = iter([0.1, 0.2])

    def raced(events: Any, **condition: Any) -> Any:
        if (reward := next(rivals, None)) is not None:
            seq = round(reward * 10)
            rival = {"type": "grade.recorded", "producer": "session-records", "key": f"rival {seq}", "session": W}
            original([rival | {"at": "2026-08-01T10:20:00Z", "reward": reward, "seq": seq}])
        return original(events, **condition)

    monkeypatch.setattr(ledger.log, "append", raced)

    [report] = imported("session-records", write(records, row()))

    assert said(report) == {"appended": 2, "duplicate": 0, "problems": []}
    assert grades(ledger) == [(1, 0.1, None), (2, 0.2, None), (3, 0.6, None)]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"session_id": "unknown"},
            "Expected a session id, got 'unknown', which names no session - at `$.session_id`",
        ),
        ({"session_id": ""}, "Expected a session id, got '', which names no session - at `$.session_id`"),
        ({"session_id": None}, "Expected `str`, got `null` - at `$.session_id`"),
        ({"session_id": 41}, "Expected `str`, got `int` - at `$.session_id`"),
        (
            {"session_id": "a\x00b"},
            "Expected a session id, got 'a\\x00b', which is not a valid name - at `$.session_id`",
        ),
    ],
)
def test_a_row_of_nobody_is_reported_and_its_neighbours_are_imported(
    ledger: Ledger, imported: Importer, records: Path, fields: dict[str, Any], what: str
) -> None:
    path = write(records, row(), row(**fields), row(session_id="next"))

    [report] = imported("session-records", path)

    assert said(report) == {"appended": 4, "duplicate": 0, "problems": [{"line": 2, "what": what}]}


@pytest.mark.parametrize("name", ["None", "null", "UNKNOWN", "undefined"])
def test_a_name_that_programs_print_for_none_is_kept_and_noted(
    ledger: Ledger, imported: Importer, records: Path, name: str
) -> None:
    [report] = imported("session-records", write(records, row(session_id=name)))

    what = f"note: {name!r} looks like a placeholder for an unknown session; it was kept - at `$.session_id`"
    assert said(report) == {"appended": 2, "duplicate": 0, "problems": [{"line": 1, "what": what}]}
    assert {one.session for one in ledger.read()} == {f"workspace:{name}@2026-08-01T10:00:00+00:00"}


def test_a_row_whose_harness_is_odd_keeps_its_grade(ledger: Ledger, imported: Importer, records: Path) -> None:
    [report] = imported("session-records", write(records, row(harness={"a": 1})))

    assert [(one.line, one.what) for one in report.problems] == [
        (1, "Expected `str | null`, got `object` - at `$.harness`")
    ]
    assert grades(ledger) == [(1, 0.6, None)]


def test_the_same_short_id_at_another_time_is_another_session(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    imported("session-records", write(records, row(), row(start_time="2026-08-02T10:00:00+00:00")))

    assert {one.session for one in ledger.read()} == {W, "workspace:7c1d@2026-08-02T10:00:00+00:00"}
    assert grades(ledger) == [(1, 0.6, None), (1, 0.6, None)]


def test_a_row_is_linked_to_the_tools_own_name(ledger: Ledger, imported: Importer, records: Path) -> None:
    imported("session-records", write(records, row(trajectory_path=f"/x/{CC}.jsonl")))

    [link] = [one.event for one in ledger.read() if isinstance(one.event, SessionLinked)]
    assert (link.session, link.other, link.as_, link.evidence) == (W, f"claude-code:{CC}", "native", "pointer")
