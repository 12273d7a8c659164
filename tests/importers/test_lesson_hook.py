from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import MTIME_S, Importer, said

from rightful.events import ExposureRecorded
from rightful.field_types import ArmShown
from rightful.identity import composite_key, event_id
from rightful.ledger import Ledger

CC = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
LESSONS = "/home/dev/my.proj/lessons"
QUOTE, COMMITS, TESTS = (
    f"{LESSONS}/tools/quote-paths.md",
    f"{LESSONS}/workflow/small-commits.md",
    f"{LESSONS}/workflow/run-tests-first.md",
)


def exposures(ledger: Ledger) -> list[ExposureRecorded]:
    return [row.event for row in ledger.read() if isinstance(row.event, ExposureRecorded)]


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trajectory(**fields: Any) -> dict[str, Any]:
    return {"ts": 1785579301.5, "session_id": "a", "lessons": [{"path": "x.md"}], "tool_seq": []} | fields


def dropout(**fields: Any) -> dict[str, Any]:
    return {"ts": 1785579301.5, "session_id": "a", "epsilon": 0.3, "withheld": [{"path": "x.md"}]} | fields


def test_a_state_file_gives_one_exposure_an_arm_under_an_alias(
    ledger: Ledger, imported: Importer, golden: Path
) -> None:
    [report] = imported("lesson-hook", golden / "state" / f"{CC}.json")

    assert said(report) == {"appended": 2, "duplicate": 0, "problems": []}
    first, second = exposures(ledger)
    assert first.id == event_id("lesson-hook-state", composite_key(CC, QUOTE))
    assert (first.producer, first.session, first.alias) == ("lesson-hook-state", f"claude-code:{CC}", True)
    assert (first.arms, second.arms) == ((ArmShown(QUOTE),), (ArmShown(COMMITS),))
    assert first.at == datetime(2026, 8, 1, 10, 15, 31, 250_000, UTC)
    assert first.at_basis == "file"


@pytest.mark.parametrize("last", [0, -1, None, "five", True, float("nan"), float("inf")])
def test_a_state_file_without_a_time_of_its_own_has_the_files(
    ledger: Ledger, imported: Importer, tmp_path: Path, last: object
) -> None:
    path = write(tmp_path / "a_b.json", {"injected": ["x.md"], "last_pretool": last})
    os.utime(path, (MTIME_S, MTIME_S))

    imported("lesson-hook", path)

    [event] = exposures(ledger)
    assert (event.at.timestamp(), event.at_basis) == (MTIME_S, "file")


def test_a_state_file_that_grows_adds_its_growth_in_whatever_order(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = write(tmp_path / "s.json", {"injected": ["x.md", "y.md"], "last_pretool": 5})
    imported("lesson-hook", path)
    write(path, {"injected": ["z.md", "y.md", "x.md"], "last_pretool": 9})

    [report] = imported("lesson-hook", path)

    assert said(report) == {"appended": 1, "duplicate": 2, "problems": []}
    assert [event.arms[0].arm for event in exposures(ledger)] == ["x.md", "y.md", "z.md"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("bad_shape.json", "Expected `array`, got `object` - at `$.injected`"),
        ("truncated.json", "Expected JSON, got a truncated line"),
    ],
)
def test_a_broken_state_file_is_reported_with_its_line(imported: Importer, golden: Path, name: str, what: str) -> None:
    [report] = imported("lesson-hook", golden / "state" / name)

    assert said(report) == {"appended": 0, "duplicate": 0, "problems": [{"line": 1, "what": what}]}
    assert report.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("s.json", {"injected": "x.md"}, "Expected `array`, got `str` - at `$.injected`"),
        ("s.json", {"injected": None}, "Expected `array`, got `null` - at `$.injected`"),
        (
            "unknown.json",
            {"injected": ["x.md"]},
            "Expected a session id, got 'unknown', which names no session - at `$`",
        ),
        (
            "s.txt",
            {"injected": ["x.md"]},
            "Expected a file named <session>.json: a state file does not name its session - at `$`",
        ),
    ],
)
def test_a_state_file_of_another_shape_or_of_nobody_is_reported(
    imported: Importer, tmp_path: Path, name: str, value: object, what: str
) -> None:
    [report] = imported("lesson-hook", write(tmp_path / name, value))

    assert said(report) == {"appended": 0, "duplicate": 0, "problems": [{"line": 1, "what": what}]}


def test_a_bad_arm_of_a_state_file_does_not_cost_its_neighbours(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(b'{"injected": ["x.md", "", "caf\xe9.md", 5, "a\\nb", "y.md"], "last_pretool": 5}')

    [report] = imported("lesson-hook", path)

    assert [event.arms[0].arm for event in exposures(ledger)] == ["x.md", "y.md"]
    assert [problem.what for problem in report.problems] == [
        "Expected `str` of length >= 1 - at `$.injected[1]`",
        "Expected text in UTF-8, got other bytes - at `$.injected[2]`",
        "Expected `str`, got `int` - at `$.injected[3]`",
        "Expected an arm without control characters - at `$.injected[4]`",
    ]


def test_a_state_files_time_that_is_none_costs_nothing_but_itself(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = write(tmp_path / "s.json", {"injected": ["x.md"], "last_pretool": 1e300})
    os.utime(path, (MTIME_S, MTIME_S))

    [report] = imported("lesson-hook", path)

    what = "note: Expected seconds since 1970, got 1e+300 - at `$.last_pretool`; it was ignored, and the file's time "
    assert said(report) == {"appended": 1, "duplicate": 0, "problems": [{"line": 1, "what": what + "was used"}]}
    assert exposures(ledger)[0].at.timestamp() == MTIME_S


def test_a_trajectory_log_gives_one_exposure_a_line_under_the_raw_id(
    ledger: Ledger, imported: Importer, golden: Path
) -> None:
    [report] = imported("lesson-hook", golden / "lesson-trajectories")

    what = "Expected a session id, got 'unknown', which names no session - at `$.session_id`"
    assert said(report) == {"appended": 2, "duplicate": 0, "problems": [{"line": 3, "what": what}]}
    first, second = exposures(ledger)
    assert (first.producer, first.session, first.alias) == ("lesson-hook-trajectory", f"claude-code:{CC}", False)
    assert first.at == datetime(2026, 8, 1, 10, 15, 1, 500_000, UTC)
    assert first.at_basis is None
    assert second.arms == (ArmShown(COMMITS), ArmShown(TESTS))
    assert second.extra is not None
    assert second.extra["lessons"][1] == {
        "title": "Run Tests First",
        "score": 0,
        "matched_by": ["predicted (lift=2.4x, ts=0.50)"],
        "predicted": True,
        "prediction_lift": 2.4,
    }
    assert second.extra["tool_seq"] == ["Read", "Bash"]


def test_the_same_line_twice_is_two_facts_and_the_same_file_twice_is_not(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.jsonl", trajectory(), trajectory())

    [once] = imported("lesson-hook", path)
    [again] = imported("lesson-hook", path)

    assert (once.appended, once.duplicate) == (2, 0)
    assert (again.appended, again.duplicate) == (0, 2)


def test_a_log_that_grows_adds_its_growth_also_when_its_form_changes(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.jsonl", trajectory(), trajectory(ts=7))
    imported("lesson-hook", path)
    rows = [trajectory(), trajectory(ts=7), trajectory(), trajectory(ts=8)]
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(json.dumps(row, indent=None).encode() + b"\r\n" for row in rows))

    [report] = imported("lesson-hook", path)

    assert said(report) == {"appended": 2, "duplicate": 2, "problems": []}


def test_a_torn_last_line_is_imported_once_it_is_whole(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", trajectory(), trajectory(ts=7))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])

    [torn] = imported("lesson-hook", path)
    path.write_bytes(whole)
    [mended] = imported("lesson-hook", path)

    assert said(torn) == {
        "appended": 1,
        "duplicate": 0,
        "problems": [{"line": 2, "what": "Expected JSON, got a truncated line"}],
    }
    assert said(mended) == {"appended": 1, "duplicate": 1, "problems": []}


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (
            trajectory(session_id=""),
            "Expected a session id, got '', which names no session - at `$.session_id`",
        ),
        (
            trajectory(session_id=" "),
            "Expected a session id, got ' ', which names no session - at `$.session_id`",
        ),
        (trajectory(session_id=7), "Expected `str`, got `int` - at `$.session_id`"),
        (
            trajectory(session_id="a\nb"),
            "Expected a session id, got 'a\\nb', which is not a valid name - at `$.session_id`",
        ),
        (
            trajectory(session_id="a" * 2000),
            f"Expected a session id, got {'a' * 64!r}, which is not a valid name - at `$.session_id`",
        ),
        (trajectory(ts="now"), "Expected `float`, got `str` - at `$.ts`"),
        (trajectory(ts=True), "Expected `float`, got `bool` - at `$.ts`"),
        (trajectory(ts=-1), "Expected seconds since 1970, got -1.0 - at `$.ts`"),
        (trajectory(ts=1785579301500), "Expected seconds since 1970, got 1785579301500.0 - at `$.ts`"),
        (trajectory(ts=float("nan")), "Expected seconds since 1970, got nan - at `$.ts`"),
        (trajectory(lessons={}), "Expected `array`, got `object` - at `$.lessons`"),
        (trajectory(lessons=[{"title": "X"}]), "Object missing required field `path` - at `$.lessons[0]`"),
        (trajectory(lessons=[{"path": ""}]), "Expected `str` of length >= 1 - at `$.lessons[0].path`"),
        (dropout(withheld="x.md"), "Expected `array`, got `str` - at `$.withheld`"),
        (dropout(epsilon=1.5), "Expected a probability from 0 to 1, got 1.5 - at `$.epsilon`"),
        (dropout(epsilon="0.3"), 'Expected a probability from 0 to 1, got "0.3" - at `$.epsilon`'),
        (
            {"lesson_file": "x.md", "timestamp_inject": "2026-08-01T10:15:01Z"},
            "Expected a file named cc-session-<session>-lessons.jsonl: its lines do not name their session - at `$`",
        ),
        ({"b": 1, "a": 2}, "Expected an artifact of the lesson hook, got an object with 'a, b' - at `$`"),
    ],
)
def test_line_that_cannot_be_imported_is_reported_and_others_are_imported(
    ledger: Ledger, imported: Importer, tmp_path: Path, row: object, what: str
) -> None:
    path = write(tmp_path / "t.jsonl", trajectory(), row, trajectory(ts=9))

    [report] = imported("lesson-hook", path)

    assert said(report) == {"appended": 2, "duplicate": 0, "problems": [{"line": 2, "what": what}]}


def test_dropout_logs_of_all_versions_give_the_probability_of_injection(
    ledger: Ledger, imported: Importer, golden: Path
) -> None:
    imported("lesson-hook", golden / "lesson-dropout")

    by_session = {event.session: event for event in exposures(ledger) if event.withheld}
    assert by_session[f"claude-code:{CC}"].withheld == (ArmShown(TESTS, 0.7),)
    assert by_session["claude-code:ca7989fa-4c90-4f22-820d-169a7bf5e2cb"].withheld == (ArmShown(QUOTE, 0.95),)
    gptme = by_session["gptme:2026-08-01-running-blue-fox"]
    assert gptme.withheld == (ArmShown(QUOTE, 0.9),)
    assert gptme.extra is not None
    assert [one["title"] for one in gptme.extra["matched"]] == ["Quote Paths", "Small Commits"]
    assert all(event.arms == () for event in exposures(ledger))


def test_a_dropout_without_epsilon_has_no_probability(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    row = dropout()
    del row["epsilon"]

    imported("lesson-hook", write(tmp_path / "a.jsonl", row))

    assert exposures(ledger)[0].withheld == (ArmShown("x.md", None),)


def test_an_id_that_gptme_drew_at_random_names_no_session(ledger: Ledger, imported: Importer, golden: Path) -> None:
    drawn = "a6be8a33b7c987f4ffb76d9c9805c7eb"

    [report] = imported("lesson-hook", golden / "lesson-dropout" / f"{drawn}.jsonl")

    what = (
        f"Expected a session id, got {drawn!r}: gptme generates such an id if it knows no session, "
        "so it does not identify a session - at `$.session_id`"
    )
    assert said(report) == {"appended": 0, "duplicate": 0, "problems": [{"line": 1, "what": what}]}
    assert exposures(ledger) == []


def test_lesson_events_take_the_session_from_the_files_name(ledger: Ledger, imported: Importer, golden: Path) -> None:
    [report] = imported("lesson-hook", golden / f"cc-session-{CC}-lessons.jsonl")

    assert said(report) == {"appended": 2, "duplicate": 0, "problems": []}
    _, second = exposures(ledger)
    assert (second.producer, second.session, second.alias) == ("lesson-hook-events", f"claude-code:{CC}", True)
    assert (second.arms, second.at) == ((ArmShown(COMMITS),), datetime(2026, 8, 1, 10, 15, 31, tzinfo=UTC))
    assert second.extra == {
        "lesson_name": "small-commits",
        "match_type": "predicted",
        "injection_point": "PreToolUse",
        "sequence_order": 1,
    }


def test_lesson_events_of_an_unknown_session_are_reported(imported: Importer, tmp_path: Path) -> None:
    row = {"lesson_file": "x.md", "timestamp_inject": "2026-08-01T10:15:01Z"}

    [report] = imported("lesson-hook", write(tmp_path / "cc-session-unknown-lessons.jsonl", row))

    assert [problem.what for problem in report.problems] == [
        "Expected a session id, got 'unknown', which names no session - at `$`"
    ]


def test_the_artifacts_are_distinguished_by_shape_whatever_they_are_called(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = write(tmp_path / "mixed.json", trajectory(), dropout(), {"injected": ["x.md"], "last_pretool": 5})

    [report] = imported("lesson-hook", path)

    assert said(report) == {"appended": 3, "duplicate": 0, "problems": []}
    assert [event.producer for event in exposures(ledger)] == [
        "lesson-hook-trajectory",
        "lesson-hook-dropout",
        "lesson-hook-state",
    ]


def test_the_golden_files_give_the_golden_events(ledger: Ledger, imported: Importer, golden: Path) -> None:
    """Event ids are for ever: a changed id would import everything a second time."""
    imported("lesson-hook", golden)

    ids = {event.id: [event.session, *(arm.arm for arm in event.arms)] for event in exposures(ledger)}
    expected = json.loads((golden / "lesson-hook.ids").read_text())
    assert ids == expected


def test_an_id_is_what_any_producer_can_compute() -> None:
    assert event_id("lesson-hook-state", f'["{CC}","{QUOTE}"]') == "8d5437eb-491f-589b-88e9-176569aa2aa3"
