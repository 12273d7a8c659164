"""What is known to go wrong with the lesson hook's files, and what becomes of it here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import Importer, said

from rightful.events import ExposureRecorded
from rightful.field_types import ArmShown
from rightful.ledger import Ledger

CC = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
V5 = "b381dcfa-da0b-5cf5-849f-5787aaac922a"
TS = 1785579301.5  # 2026-08-01T10:15:01.5Z


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def state(*lessons: str) -> dict[str, Any]:
    return {"injected": list(lessons), "last_pretool": TS}


def trajectory(session_id: str, *lessons: str) -> dict[str, Any]:
    return {"ts": TS, "session_id": session_id, "tool_seq": [], "lessons": [{"path": one} for one in lessons]}


def dropout(session_id: str, *, matched: tuple[str, ...] | None = None, **withheld: Any) -> dict[str, Any]:
    row = {"ts": TS, "session_id": session_id, "epsilon": 0.3, "withheld": [{"path": "x.md"} | withheld]}
    return row if matched is None else row | {"matched": [{"path": one} for one in matched]}


def graded(session: str) -> dict[str, Any]:
    return {
        "type": "grade.recorded", "producer": "judge", "key": session, "session": session, "seq": 1, "reward": 0.8,
        "at": "2026-08-01T11:00:00Z",
    }  # fmt: skip


def exposures(ledger: Ledger) -> list[ExposureRecorded]:
    return [row.event for row in ledger.read() if isinstance(row.event, ExposureRecorded)]


def alphas(ledger: Ledger) -> dict[str, float]:
    return {arm: one.alpha for arm, one in ledger.posteriors().arms.items()}


def test_two_sessions_whose_sanitised_names_meet_do_not_share_a_state_file(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """`a/b` and `a_b` both keep their lessons in a_b.json, and nothing in it says whose they are."""
    imported("lesson-hook", write(tmp_path / "a_b.json", state("x.md")))
    ledger.append([graded("claude-code:a/b")])
    assert alphas(ledger) == {"x.md": 1.8}

    ledger.append([graded("claude-code:a_b")])

    assert alphas(ledger) == {}
    assert ledger.posteriors().counters["ambiguous_grades"] == 2


def test_lesson_only_in_the_state_file_pays_in_addition_to_a_log(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """A run has the union of its names' exposures, and the file's name without `_` is the session's own."""
    imported("lesson-hook", write(tmp_path / f"{CC}.json", state("shown.md", "saved.md")))
    imported("lesson-hook", write(tmp_path / "t.jsonl", trajectory(CC, "shown.md")))
    ledger.append([graded(f"claude-code:{CC}")])

    assert alphas(ledger) == {"shown.md": 1.8, "saved.md": 1.8}


def test_lesson_only_in_a_sanitised_file_pays_only_without_a_log(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """The hook saves its state before it prints: killed in between, it injected nothing."""
    imported("lesson-hook", write(tmp_path / "a_b.json", state("shown.md", "killed.md")))
    ledger.append([graded("claude-code:a/b")])
    assert alphas(ledger) == {"shown.md": 1.8, "killed.md": 1.8}

    imported("lesson-hook", write(tmp_path / "t.jsonl", trajectory("a/b", "shown.md")))

    assert alphas(ledger) == {"shown.md": 1.8}


def test_an_id_with_a_slash_is_kept_as_it_was_written(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    """The hook cannot open a dropout log of that name and loses it; its trajectory log has the id raw."""
    imported("lesson-hook", write(tmp_path / "t.jsonl", trajectory("a/b", "x.md"), dropout("a/b")))

    assert [event.session for event in exposures(ledger)] == ["claude-code:a/b"] * 2


def test_a_lesson_that_was_injected_before_can_be_withheld_and_stays_shown(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """The coin is flipped before the hook looks at what is injected already."""
    imported("lesson-hook", write(tmp_path / "t.jsonl", trajectory(CC, "x.md"), dropout(CC)))
    ledger.append([graded(f"claude-code:{CC}")])

    assert alphas(ledger) == {"x.md": 1.8}


def test_what_gptme_matched_before_its_token_budget_is_no_exposure(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    imported("lesson-hook", write(tmp_path / "d.jsonl", dropout(CC, matched=("x.md", "y.md"))))
    ledger.append([graded(f"claude-code:{CC}")])

    [event] = exposures(ledger)
    assert (event.arms, event.withheld) == ((), (ArmShown("x.md", 0.7),))
    assert event.extra is not None
    assert event.extra["matched"] == [{"path": "x.md"}, {"path": "y.md"}]
    assert alphas(ledger) == {}


@pytest.mark.parametrize(
    ("session_id", "session"),
    [
        (CC, f"claude-code:{CC}"),
        ("2026-08-01-running-blue-fox", "gptme:2026-08-01-running-blue-fox"),
        (V5, f"gptme-session:{V5}"),
        ("41c2", "gptme-session:41c2"),
        ("2026-08-01", "gptme-session:2026-08-01"),
    ],
)
def test_the_id_in_a_dropout_log_of_gptme_is_recognised_by_its_form(
    ledger: Ledger, imported: Importer, tmp_path: Path, session_id: str, session: str
) -> None:
    imported("lesson-hook", write(tmp_path / "d.jsonl", dropout(session_id, matched=())))

    assert [event.session for event in exposures(ledger)] == [session]


def test_the_id_in_the_hooks_own_dropout_log_is_a_session_of_claude_code(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    drawn = "a6be8a33b7c987f4ffb76d9c9805c7eb"
    imported("lesson-hook", write(tmp_path / "d.jsonl", dropout(V5), dropout("41c2"), dropout(drawn)))

    assert [event.session for event in exposures(ledger)] == [f"claude-code:{one}" for one in (V5, "41c2", drawn)]


@pytest.mark.parametrize(
    ("fields", "p_inject"),
    [
        ({}, 0.7),
        ({"policy_class": "unknown", "policy_version": 1}, 0.7),
        ({"policy_class": "validated_core", "policy_version": 1, "effective_epsilon": 0.05}, 0.95),
        ({"policy_class": "exempt", "policy_version": 1, "effective_epsilon": 0.0}, 1.0),
    ],
)
def test_the_probability_of_injection_is_that_of_the_lessons_own_class(
    ledger: Ledger, imported: Importer, tmp_path: Path, fields: dict[str, Any], p_inject: float
) -> None:
    row = dropout(CC, **fields) | {"policy_version": 1}
    imported("lesson-hook", write(tmp_path / "d.jsonl", row))

    [event] = exposures(ledger)
    assert event.withheld == (ArmShown("x.md", p_inject),)
    assert event.extra == {"epsilon": 0.3, "policy_version": 1, "withheld": [fields]}


@pytest.mark.parametrize("name", ["", "unknown"])
def test_an_id_that_the_hook_was_not_given_names_no_session(
    ledger: Ledger, imported: Importer, tmp_path: Path, name: str
) -> None:
    rows = (trajectory(name, "x.md"), dropout(name), dropout(name, matched=()))
    [report] = imported("lesson-hook", write(tmp_path / "t.jsonl", *rows))

    what = f"Expected a session id, got {name!r}, which names no session - at `$.session_id`"
    assert said(report)["problems"] == [{"line": line, "what": what} for line in (1, 2, 3)]
    assert exposures(ledger) == []


@pytest.mark.parametrize(
    "match_type", ["keyword", "pattern", "skill_name", "descriptor", "semantic", "predicted", "unknown"]
)
def test_a_lesson_event_of_every_match_type_is_an_exposure(
    ledger: Ledger, imported: Importer, tmp_path: Path, match_type: str
) -> None:
    row = {"lesson_name": "x", "lesson_file": "x.md", "match_type": match_type, "injection_point": "PreToolUse",
           "sequence_order": 0, "timestamp_inject": "2026-08-01T10:15:01Z"}  # fmt: skip
    imported("lesson-hook", write(tmp_path / f"cc-session-{CC}-lessons.jsonl", row))

    [event] = exposures(ledger)
    assert (event.arms, event.alias) == ((ArmShown("x.md"),), True)
    assert event.extra is not None
    assert event.extra["match_type"] == match_type
