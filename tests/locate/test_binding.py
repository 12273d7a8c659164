from __future__ import annotations

from pathlib import Path

import pytest
from tests.importers import transcript_writers as write
from tests.locate.searching import A, B, answers, run

import rightful
from rightful.events import TranscriptBound
from rightful.locate import bind
from rightful.locate.evidence import Hashed, hashed
from rightful.locate.wanted_sessions import session_of_name

AT = "2026-08-01T10:15:02Z"


def clock() -> int:
    return 1785579300000000


def test_owner_is_bound_with_hash_and_evidence_and_a_candidate_is_not(tmp_path: Path) -> None:
    path = write.codex(tmp_path / "c", A, AT)
    found = answers(tmp_path / "c", session_of_name(f"codex:{A}"), run("41c2"))
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        [one] = bind.bind(ledger.log, found, clock)
        [row] = ledger.read()
    assert (one.session, one.path, one.why) == (f"codex:{A}", str(path), None)
    event = row.event
    assert isinstance(event, TranscriptBound)
    assert (event.uri, event.bytes, event.sha256) == (path.as_uri(), *hashed(path))
    assert (event.evidence, event.started_at and event.started_at.isoformat()) == (
        "native-id", "2026-08-01T10:15:02+00:00",
    )  # fmt: skip


def test_a_transcript_that_grew_is_bound_again_and_the_old_row_stays(tmp_path: Path) -> None:
    path = write.codex(tmp_path / "c", A, AT)
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        for expected in ("appended", "duplicate", "appended"):
            [one] = bind.bind(ledger.log, answers(tmp_path / "c", session_of_name(f"codex:{A}")), clock)
            assert one.receipt is not None
            assert one.receipt.outcome == expected
            if expected == "duplicate":
                path.write_text(path.read_text() + "{}\n")
        assert ledger.log.head() == 2


@pytest.mark.parametrize("becomes", [B, None])
def test_what_became_anothers_while_it_was_hashed_is_not_bound(
    becomes: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write.codex(tmp_path / "c", A, AT)
    found = answers(tmp_path / "c", session_of_name(f"codex:{A}"))

    def replaced(named: str) -> Hashed:
        if becomes is None:
            path.unlink()
        else:
            write.codex(tmp_path / "d", becomes, AT).rename(path)
        return hashed(named)

    monkeypatch.setattr(bind, "hashed", replaced)
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        [one] = bind.bind(ledger.log, found, clock)
        assert ledger.log.head() == 0
    assert one.receipt is None
    assert one.why == (
        "No such file or directory" if becomes is None else "it was replaced during the search; search again"
    )


def test_the_ledger_itself_is_asked_in_python(tmp_path: Path) -> None:
    path = write.codex(tmp_path / "c", A, AT)
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        found = ledger.locate(f"codex:{A}", roots=[tmp_path / "c"])
        assert ledger.log.head() == 0
    assert found.owner is not None
    assert (found.session, found.owner.file.path) == (f"codex:{A}", str(path))
