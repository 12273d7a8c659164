from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import MTIME_S

from rightful.errors import InvalidEventError, UsageError
from rightful.events import ExposureRecorded, GradeRecorded
from rightful.field_types import ArmShown
from rightful.identity import event_id
from rightful.importers.shared.grade_numbers import GradeContent
from rightful.ledger import Ledger
from rightful.recording import session_credit
from rightful.recording.session_credit import Exposure

AT_US = 1_785_603_600_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir()
    return made


def put(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    os.utime(path, (MTIME_S, MTIME_S))
    return path


def exposure(folder: Path, session_id: str, others: Iterable[str] = ()) -> Exposure:
    return session_credit.read_exposure(str(folder), session_credit.credit_request(None, session_id), others)


def append(ledger: Ledger, shown: Exposure, w: str | None, e: str | None, **said: Any) -> list[str]:
    asked = session_credit.credit_request(w, e)
    grade = GradeContent(said.get("reward"), said.get("outcome"), asked.exposure_session)
    events = session_credit.events_of(asked, shown, grade, AT_US)
    return [receipt.outcome for receipt in session_credit.append(ledger.log, asked, *events)]


def grades(ledger: Ledger) -> list[GradeRecorded]:
    return [one.event for one in ledger.read() if isinstance(one.event, GradeRecorded)]


def test_without_an_id_it_refuses_and_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match=r"--exposure-session-id ID .* or --workspace-session-id ID"):
        session_credit.credit_request(None, None)


@pytest.mark.parametrize("nobody", ["", " ", "unknown"])
def test_an_id_that_names_no_session_is_refused_rather_than_skipped(nobody: str) -> None:
    with pytest.raises(InvalidEventError, match="which names no session - at `--exposure-session-id`"):
        session_credit.credit_request("w", nobody)
    with pytest.raises(InvalidEventError, match="which names no session - at `--workspace-session-id`"):
        session_credit.credit_request(nobody, "e")


@pytest.mark.parametrize(
    ("w", "e", "shown_to", "graded", "exposure_session"),
    [
        ("w", "e", "claude-code:e", "workspace:w", "claude-code:e"),
        ("w", None, "workspace:w", "workspace:w", None),
        (None, "e", "claude-code:e", "claude-code:e", "claude-code:e"),
    ],
)
def test_the_exposure_is_of_e_else_of_w_and_the_grade_of_w_else_of_e(
    w: str | None, e: str | None, shown_to: str, graded: str, exposure_session: str | None
) -> None:
    asked = session_credit.credit_request(w, e)

    assert (asked.exposed, asked.graded, asked.exposure_session) == (shown_to, graded, exposure_session)


def test_a_record_gives_its_lessons_each_once_in_its_order(folder: Path) -> None:
    put(folder, "a.json", {"injected": ["y.md", "x.md", "y.md"]})

    assert exposure(folder, "a") == Exposure("found", "", ("y.md", "x.md"), MTIME_S * 1_000_000)


def test_a_records_own_time_comes_before_the_files(folder: Path) -> None:
    put(folder, "a.json", {"injected": ["y.md"], "last_pretool": 7.5})

    assert exposure(folder, "a").at_us == 7_500_000


@pytest.mark.parametrize(
    ("text", "state", "why"),
    [
        ('{"injected": []}', "empty", "a.json lists no lesson"),
        ("", "empty", "a.json is empty"),
        ("{", "malformed", "a.json: Expected JSON, got a truncated line"),
        ('{"injected": ["/ho', "malformed", "a.json: Expected JSON, got a truncated line"),
        ("[]", "malformed", "a.json: Expected `object`, got `array`"),
        ("{}", "malformed", "a.json: Object missing required field `injected` - at `$`"),
        ('{"injected": {}}', "malformed", "a.json: Expected `array`, got `object` - at `$.injected`"),
        ('{"injected": [7]}', "malformed", "a.json: Expected `str`, got `int` - at `$.injected[0]`"),
        ('{"injected": [""]}', "malformed", "a.json: Expected `str` of length >= 1 - at `$.arms[0].arm`"),
        ('{"injected": ["x"]}{"injected": ["y"]}', "malformed", "a.json contains more than one object"),
    ],
    ids=range(10),
)
def test_a_record_that_says_nothing_credits_nothing_and_says_why(folder: Path, text: str, state: str, why: str) -> None:
    put(folder, "a.json", text)

    found = exposure(folder, "a")

    assert (found.state, found.why, found.arms) == (state, f"{folder}/{why}", ())


def test_a_record_that_is_not_there_is_missing(folder: Path) -> None:
    assert exposure(folder, "a") == Exposure("missing", f"a.json is not in {folder}")
    assert exposure(folder / "none", "a") == Exposure("missing", f"a.json is not in {folder}/none")
    file = put(folder, "file", "x")
    assert exposure(file, "a") == Exposure("missing", f"{file} is not a folder")


def test_the_newest_record_is_never_treated_as_a_missing_one(folder: Path) -> None:
    put(folder, "b.json", {"injected": ["b.md"]})

    assert exposure(folder, "a").state == "missing"


@pytest.mark.parametrize("session_id", ["../secret", "/etc/passwd", "a/../../secret", "..", "a\\b"])
def test_no_id_leads_out_of_the_folder(folder: Path, session_id: str) -> None:
    put(folder.parent, "secret.json", {"injected": ["stolen.md"]})

    found = exposure(folder, session_id)

    assert found.state == "missing"
    assert found.why.endswith(f".json is not in {folder}")
    assert "/" not in found.why.removesuffix(f" is not in {folder}")


def test_a_record_that_is_a_link_is_not_followed(folder: Path) -> None:
    put(folder.parent, "secret.json", {"injected": ["stolen.md"]})
    (folder / "a.json").symlink_to("../secret.json")

    assert exposure(folder, "a") == Exposure(
        "malformed", f"{folder}/a.json could not be read: Too many levels of symbolic links"
    )


def test_a_record_that_is_a_fifo_does_not_hang(folder: Path) -> None:
    os.mkfifo(folder / "a.json")

    assert exposure(folder, "a") == Exposure("malformed", f"{folder}/a.json could not be read: not a regular file")


def test_a_sanitised_name_is_read_when_only_one_session_fits(folder: Path) -> None:
    put(folder, "a_b.json", {"injected": ["x.md"]})

    assert exposure(folder, "a/b", others=["a/b", "c"]).arms == ("x.md",)


@pytest.mark.parametrize("session_id", ["a/b", "a_b"])
def test_a_record_that_fits_two_known_sessions_is_ambiguous(folder: Path, session_id: str) -> None:
    put(folder, "a_b.json", {"injected": ["x.md"]})

    found = exposure(folder, session_id, others=["a/b", "a_b", "a b", "b"])

    rivals = ", ".join(repr(one) for one in sorted({"a/b", "a_b", "a b"} - {session_id}))
    assert found == Exposure("ambiguous", f"a_b.json could also be the record of {rivals}")


def test_a_raw_name_beside_the_sanitised_one_is_ambiguous(folder: Path) -> None:
    put(folder, "a_b.json", {"injected": ["x.md"]})
    put(folder, "a.b.json", {"injected": ["y.md"]})

    assert exposure(folder, "a_b") == Exposure("ambiguous", "a_b.json could also be the record of 'a.b'")
    assert exposure(folder, "a.b").state == "ambiguous"


def test_names_of_the_ledger_are_compared_within_their_namespace() -> None:
    names = ["claude-code:a/b", "workspace:w w@2026-08-01T10:00:00Z", "workspace:w@x", "gptme:a_b"]

    assert list(session_credit.known_ids(session_credit.credit_request("w", "e"), names)) == ["a/b"]
    assert list(session_credit.known_ids(session_credit.credit_request("w", None), names)) == ["w w", "w"]
    assert list(session_credit.known_ids(session_credit.credit_request("w@x", None), names)) == ["w w", "w@x"]


FOUND = Exposure("found", "", ("y.md", "x.md"), 7_000_000)


def test_it_appends_the_exposure_and_the_grade(ledger: Ledger) -> None:
    assert append(ledger, FOUND, "w", "e", reward=0.8, outcome="productive") == ["appended", "appended"]

    shown, grade = [one.event for one in ledger.read()]
    assert isinstance(shown, ExposureRecorded)
    assert (shown.session, shown.alias, shown.at_basis) == ("claude-code:e", False, "file")
    assert shown.arms == (ArmShown("x.md"), ArmShown("y.md"))
    assert isinstance(grade, GradeRecorded)
    assert grade.id == event_id("credit", '["w","e","grade"]')
    assert (grade.producer, grade.session, grade.exposure_session) == ("credit", "workspace:w", "claude-code:e")
    assert (grade.reward, grade.outcome, grade.seq) == (0.8, "productive", 1)


def test_an_id_that_was_not_given_is_null_in_the_key(ledger: Ledger) -> None:
    append(ledger, FOUND, None, "e", reward=0.8)
    append(ledger, FOUND, "w", None, reward=0.8)

    assert [grade.id for grade in grades(ledger)] == [
        event_id("credit", '[null,"e","grade"]'),
        event_id("credit", '["w",null,"grade"]'),
    ]


def test_second_run_credits_nothing_though_the_hooks_set_is_reordered(ledger: Ledger) -> None:
    append(ledger, FOUND, "w", "e", reward=0.8)

    assert append(ledger, FOUND._replace(arms=("x.md", "y.md")), "w", "e", reward=0.8) == ["duplicate", "duplicate"]


def test_another_grade_is_a_regrade_with_the_next_seq_and_an_id_of_its_own(ledger: Ledger) -> None:
    outcomes = [append(ledger, FOUND, "w", "e", reward=reward)[1] for reward in (0.8, 0.5, 0.5, 0.8)]

    assert outcomes == ["appended", "appended", "duplicate", "appended"]
    assert [(grade.seq, grade.reward) for grade in grades(ledger)] == [(1, 0.8), (2, 0.5), (3, 0.8)]
    assert grades(ledger)[1].id == event_id("credit", '["w","e","grade",2]')


def test_two_exposure_sessions_of_one_workspace_session_never_share_a_seq(ledger: Ledger) -> None:
    for e, reward in (("e1", 0.8), ("e2", 0.5), ("e1", 0.8), ("e2", 0.5)):
        append(ledger, FOUND, "w", e, reward=reward)

    assert [(grade.seq, grade.exposure_session) for grade in grades(ledger)] == [
        (1, "claude-code:e1"),
        (2, "claude-code:e2"),
    ]


def test_a_record_that_grew_adds_its_growth_and_the_grade_stays_one(ledger: Ledger) -> None:
    append(ledger, FOUND, "w", "e", reward=0.8)
    outcomes = append(ledger, FOUND._replace(arms=("x.md", "y.md", "z.md")), "w", "e", reward=0.8)

    assert outcomes == ["appended", "duplicate"]


def test_a_grade_given_meanwhile_is_read_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    original = ledger.log.append
    rivals = iter([0.1])

    def raced(events: Any, **condition: Any) -> Any:
        if (reward := next(rivals, None)) is not None:
            rival = {"type": "grade.recorded", "producer": "credit", "key": '["w","e","grade"]', "seq": 1}
            original([rival | {"session": "workspace:w", "at": "2026-08-01T10:00:00Z", "reward": reward}])
        return original(events, **condition)

    monkeypatch.setattr(ledger.log, "append", raced)

    assert append(ledger, FOUND, "w", "e", reward=0.8) == ["appended", "appended"]
    assert [(grade.seq, grade.reward) for grade in grades(ledger)] == [(1, 0.1), (2, 0.8)]


def records(tmp_path: Path, *rows: object) -> session_credit.Records:
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return session_credit.read_records(str(path))


def row(**fields: Any) -> dict[str, Any]:
    return {"session_id": "w", "start_time": "2026-08-01T10:00Z", "trajectory_grade": 0.4} | fields


def test_the_last_row_of_a_session_gives_its_grade(tmp_path: Path) -> None:
    found = records(tmp_path, row(), row(trajectory_grade=0.9, outcome="productive"), row(session_id="v"))

    assert found.last_grade("w") == GradeContent(0.9, "productive")
    assert found.last_grade("w@2026-08-01T10:00Z") == GradeContent(0.9, "productive")


def test_a_label_of_two_sessions_gives_no_grade(tmp_path: Path) -> None:
    found = records(tmp_path, row(), row(start_time="2026-08-01T11:00Z"))

    with pytest.raises(
        UsageError,
        match=r"2 sessions with the id 'w': w@2026-08-01T10:00Z, w@2026-08-01T11:00Z\. Nothing was credited",
    ):
        found.last_grade("w")
    assert found.last_grade("w@2026-08-01T11:00Z") == GradeContent(0.4, None)


def test_a_session_without_a_row_or_a_grade_gives_none(tmp_path: Path) -> None:
    found = records(tmp_path, row(trajectory_grade=None, outcome="unknown"))

    for name in ("w", "v"):
        with pytest.raises(UsageError, match=f"No grade found for '{name}'. Nothing was credited"):
            found.last_grade(name)
    with pytest.raises(UsageError, match="could not be read: No such file"):
        session_credit.read_records(str(tmp_path / "none")).last_grade("w")


def test_a_row_whose_grade_is_none_says_where(tmp_path: Path) -> None:
    with pytest.raises(InvalidEventError, match=r"Expected `float` <= 1.0 - at `\$.trajectory_grade`"):
        records(tmp_path, row(trajectory_grade=7)).last_grade("w")


def test_the_rows_show_the_ids_that_were_asked_for(tmp_path: Path) -> None:
    uuid = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
    found = records(tmp_path, row(trajectory_path=f"/x/{uuid}.jsonl"), row(session_id="v"), {"no": "id"})

    assert list(found.ids(session_credit.credit_request("w", "e"))) == [uuid]
    assert list(found.ids(session_credit.credit_request("w", None))) == ["w", "v"]
