"""Whose rows a transcript tells: a session's own, else those of the names that links join to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.log.facts import fact

import rightful
from rightful.errors import IncompleteTranscriptError, UsageError


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[rightful.Ledger]:
    with rightful.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def said(session: str, text: str, at: str = "2026-08-01T10:00:00Z", **more: Any) -> dict[str, Any]:
    return fact("message.recorded", f"{session} {text}", session=session, role="user", content=text, at=at, **more)


def linked(session: str, other: str, as_: str = "native", evidence: str = "native-id") -> dict[str, Any]:
    key = f"{session} {other} {as_} {evidence}"
    return fact("session.linked", key, session=session, other=other, evidence=evidence, **{"as": as_})


def texts(transcript: Any) -> list[tuple[str, str]]:
    return [(one.session or "", one.text) for one in transcript.entries]


def test_a_session_with_records_of_its_own_tells_those_alone(ledger: rightful.Ledger) -> None:
    ledger.append([said("t:w", "own"), said("u:n", "other"), linked("t:w", "u:n")])
    transcript = ledger.transcript("t:w")

    assert [one.text for one in transcript.entries] == ["own"]
    assert transcript.names == ["t:w"]


def test_a_session_with_records_of_its_own_needs_no_projection(ledger: rightful.Ledger) -> None:
    ledger.append([said("t:w", "own")])
    ledger.transcript("t:w")

    assert ledger.projected().facts.watermark == 0


def test_session_without_records_shows_its_runs_names_by_start(
    ledger: rightful.Ledger,
) -> None:
    later = said("u:b", "second", "2026-08-02T10:00:00Z")
    links = [linked("t:w", "u:z"), linked("t:w", "u:b", "resume"), linked("t:w", "u:none", "retry")]
    ledger.append([later, *links, said("u:z", "first")])
    transcript = ledger.transcript("t:w")

    assert texts(transcript) == [("u:z", "first"), ("u:b", "second")]
    assert transcript.as_dict()["names"] == ["u:z", "u:b"]
    assert ledger.transcript("u:none").names == ["u:z", "u:b"]


def test_data_under_a_runs_own_name_stands_behind_what_its_names_tell(ledger: rightful.Ledger) -> None:
    """`rightful run` records which commits a run made under the run's own name."""
    commits = fact("data.recorded", "c", session="t:w", name="commits", data=["1"])
    ledger.append([commits, said("u:a", "first"), linked("t:w", "u:a")])
    transcript = ledger.transcript("t:w")

    assert [(one.session, one.kind) for one in transcript.entries] == [("u:a", "message"), ("t:w", "data")]
    assert transcript.names == ["u:a"]


def test_subagents_are_named_and_not_mixed_in(ledger: rightful.Ledger) -> None:
    links = [linked("t:w", "u:a"), linked("u:a", "u:sub", "subagent")]
    ledger.append([said("u:a", "first"), said("u:sub", "inner"), *links])
    transcript = ledger.transcript("t:w")

    assert texts(transcript) == [("u:a", "first")]
    assert transcript.subagents == ["u:sub"]
    assert texts(ledger.transcript("u:sub")) == [("", "inner")]


def test_an_ambiguous_run_shows_nobodys_rows_and_says_so(ledger: rightful.Ledger) -> None:
    ledger.append([said("u:a", "first"), said("u:b", "second"), linked("t:w", "u:a"), linked("t:w", "u:b")])
    transcript = ledger.transcript("t:w")

    assert transcript.entries == []
    assert "do not say which run it is" in (transcript.ambiguous or "")


def test_a_link_that_was_withdrawn_joins_nothing(ledger: rightful.Ledger) -> None:
    unlinked = fact("session.unlinked", "un", session="t:w", other="u:a")
    ledger.append([said("u:a", "first"), linked("t:w", "u:a"), unlinked])

    assert ledger.transcript("t:w").entries == []


def test_usage_of_names_is_summed_and_the_worst_completeness_counts(ledger: rightful.Ledger) -> None:
    used = fact("usage.recorded", "1", session="u:a", counts={"n": 1, "x": 0.5})
    more = fact(
        "usage.recorded", "2", session="u:b", counts={"n": 2, "x": 0.25}, turn="1", index=1, at="2026-08-02T10:00:00Z"
    )
    ledger.append([used, more, linked("t:w", "u:a"), linked("t:w", "u:b", "resume")])
    transcript = ledger.transcript("t:w")

    assert transcript.usage.total == {"n": 3, "x": 0.75}
    assert transcript.completeness == "incomplete"
    assert {hole.kind for hole in transcript.holes} == {"missing", "open"}


def test_what_is_left_out_of_several_names_is_added_up(ledger: rightful.Ledger) -> None:
    def batch(session: str) -> dict[str, Any]:
        return fact("history.appended", session, session=session, producer="agents", items=["a", "b"])

    ledger.append([said("u:a", "1"), batch("u:a"), said("u:b", "2"), batch("u:b")])
    ledger.append([linked("t:w", "u:a"), linked("t:w", "u:b", "resume")])

    assert ledger.transcript("t:w").left_out == {"agents": 4}


def test_a_name_that_no_row_bears_is_refused(ledger: rightful.Ledger) -> None:
    ledger.append([said("t:w", "own")])

    with pytest.raises(UsageError, match="no session is named 't:x'"):
        ledger.transcript("t:x")


def test_a_session_that_said_nothing_has_an_empty_transcript(ledger: rightful.Ledger) -> None:
    ledger.append([fact("session.started", "1", session="t:w", harness="codex")])
    document = ledger.transcript("t:w").as_dict()

    assert (document["entries"], document["completeness"], document["why"]) == (
        [],
        "unknown",
        "no transcript of it is recorded",
    )
    assert document["started"]["harness"] == "codex"


def test_continued_session_is_shown_by_the_name_that_has_the_link(ledger: rightful.Ledger) -> None:
    forked = fact("session.started", "2", session="u:n", harness="codex", extra={"forked_from": "u:m", "cli": 1})
    run = fact("session.started", "1", session="t:w", harness="run", extra={"cli": 2})
    ledger.append([run, forked, said("u:n", "hi"), linked("t:w", "u:n")])
    started = ledger.transcript("t:w").as_dict()["started"]

    assert (started["harness"], started["extra"]) == ("run", {"forked_from": "u:m", "cli": 2})


def test_request_for_a_whole_transcript_is_refused_with_what_is_missing(ledger: rightful.Ledger) -> None:
    end = fact("turn.ended", "e", session="t:w", turn="1", index=2)
    ledger.append([said("t:w", "own", turn="1", index=0), end])

    with pytest.raises(IncompleteTranscriptError, match="turn 1 lacks index 1"):
        ledger.transcript("t:w", require_complete=True)
    ledger.append([said("t:w", "there", turn="1", index=1)])
    assert ledger.transcript("t:w", require_complete=True).completeness == "complete"


def test_a_transcript_of_which_nobody_can_say_is_refused_too(ledger: rightful.Ledger) -> None:
    ledger.append([said("t:w", "own")])

    with pytest.raises(IncompleteTranscriptError, match="may be incomplete"):
        ledger.transcript("t:w", require_complete=True)


def test_the_rows_of_the_entries_are_given_on_request(ledger: rightful.Ledger) -> None:
    ledger.append([said("u:a", "first"), linked("t:w", "u:a")])

    [entry] = ledger.transcript("t:w", revisions=True).as_dict()["entries"]
    assert [one["position"] for one in entry["rows"]] == [1]
