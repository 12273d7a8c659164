"""The list of sessions: which there are, without a word on attribution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.test_transcript import fill
from tests.log.facts import fact


def said(session: str, at: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return fact(
        "message.recorded", f"{session} {index} {at}", session=session, at=f"2026-08-01T{at}:00Z", role="user",
        content="hi", turn="1", index=index, **more,
    )  # fmt: skip


@pytest.fixture
def filled(ledger: Path) -> Path:
    bound = {"uri": "file:///t/b.jsonl", "bytes": 1, "sha256": "0" * 64, "evidence": "native-id"}
    fill(
        ledger,
        said("t:b", "11:15", producer="runner"),
        said("t:b", "10:15", 1),
        said("t:b", "09:15", 2, at_basis="file"),
        said("t:a", "10:30"),
        fact("turn.ended", "end", session="t:a", at="2026-08-01T10:31:00Z", turn="1", index=1),
        said("t:a/scout", "10:40"),
        said("t:old", "08:00", at_basis="file"),
        fact("session.started", "s", session="t:sanitised_one", alias=True),
        fact("transcript.bound", "x", session="t:c", at="2026-08-01T12:00:00Z", **bound),
    )
    return ledger


def test_sessions_are_listed_with_when_how_much_whose_and_what_transcript(run: Run, filled: Path) -> None:
    assert run("status", "--sessions").out.splitlines() == [
        "t:c",
        "    2026-08-01 12:00:00Z; 1 event by hook",
        "    no transcript; 1 file bound (native-id)",
        "t:a",
        "    2026-08-01 10:30:00Z to 10:31:00Z; 2 events by hook",
        "    transcript complete; 1 subagent",
        "t:b",
        "    2026-08-01 10:15:00Z to 11:15:00Z; 3 events by runner, hook",
        "    transcript incomplete",
        "t:old",
        "    before 2026-08-01 08:00:00Z; 1 event by hook",
        "    transcript incomplete",
    ]


def test_the_newest_stands_first_within_a_second_too(run: Run, ledger: Path) -> None:
    fill(ledger, said("t:later", "10:15") | {"at": "2026-08-01T10:15:00.5Z"}, said("t:whole", "10:15"))

    assert [one["session"] for one in run("status", "--sessions", "--json").document["sessions"]] == [
        "t:later",
        "t:whole",
    ]


def test_newest_sessions_are_listed_and_the_rest_counted(run: Run, filled: Path) -> None:
    out = run("status", "--sessions", "--limit", "1").out

    assert out.splitlines()[0] == "t:c"
    assert out.splitlines()[-1] == "and 3 that began before; --limit 0 lists all."
    document = run("status", "--sessions", "--limit", "1", "--json").document
    assert document["total"] == 4
    assert document["sessions"] == [
        {
            "session": "t:c", "first_at": "2026-08-01T12:00:00Z", "last_at": "2026-08-01T12:00:00Z", "at_basis": None,
            "events": 1, "producers": ["hook"], "transcript": None, "history": None,
            "bound": [{"uri": "file:///t/b.jsonl", "evidence": "native-id"}], "subagents": 0,
            "forks": [], "below": [],
        }
    ]  # fmt: skip
    assert len(run("status", "--sessions", "--limit", "0", "--json").document["sessions"]) == 4


def test_only_those_whose_names_contain_a_text(run: Run, filled: Path) -> None:
    assert [one["session"] for one in run("status", "--json", "--sessions", "ol").document["sessions"]] == ["t:old"]
    assert run("status", "--sessions", "zzz").out == "No session whose name contains 'zzz' is in this ledger.\n"


@pytest.mark.parametrize(
    "words", [["--limit", "3"], ["--sessions", "--check"], ["--sessions", "--days", "1"], ["--sessions", "--limit=-1"]]
)
def test_options_of_another_question_are_refused(run: Run, ledger: Path, words: list[str]) -> None:
    done = run("status", *words)

    assert (done.code, done.out) == (2, "")


def test_history_is_counted_next_to_an_unknown_transcript(run: Run, ledger: Path) -> None:
    name = "openai-agents:chat"
    fill(
        ledger,
        *(fact("history.appended", str(number), session=name, items=["a"]) for number in range(3)),
        fact("history.compacted", "k", session=name, items=["sum"]),
        fact("history.forked", "f", session="openai-agents:fork", of=name, through=4, at="2026-08-01T09:00:00Z"),
        fact("history.compacted", "i", session="codex:i", items=["sum"], at="2026-08-01T08:00:00Z"),
    )

    assert run("status", "--sessions").out.splitlines()[2::3] == [
        "    transcript unknown; history of 3 batches, 1 compaction",
        "    transcript unknown; history of 0 batches",
        "    no transcript",
    ]
    found = run("status", "--sessions", "--json").document["sessions"]
    assert [one["history"] for one in found] == [
        {"batches": 3, "compactions": 1},
        {"batches": 0, "compactions": 0},
        None,
    ]


def test_forks_and_other_histories_of_a_session_are_not_subagents(run: Run, ledger: Path) -> None:
    name, names = "openai-agents:chat", ["branch/b", "fork-1", "fork-1/fork-2"]
    fill(
        ledger,
        fact("history.appended", "1", session=name, items=["a"]),
        *(fact("history.forked", one, session=f"{name}/{one}", of=name, through=1) for one in names),
        fact("history.appended", "2", session=f"{name}/17", items=["b"]),
        said(f"{name}/scout", "10:15"),
        said(f"{name}/scout/aide", "10:15"),
    )

    assert run("status", "--sessions").out.splitlines()[0::2] == [
        name,
        (
            f"    transcript unknown; history of 1 batch; 2 subagents; 3 forks: {name}/branch/b, {name}/fork-1, "
            f"{name}/fork-1/fork-2; 1 session below it: {name}/17"
        ),
    ]
    [one] = run("status", "--sessions", "--json").document["sessions"]
    assert one["forks"] == [f"{name}/{fork}" for fork in names]
    assert (one["subagents"], one["below"]) == (2, [f"{name}/17"])


def test_a_session_is_listed_by_its_own_first_time_not_a_files(run: Run, ledger: Path) -> None:
    """An older version imported the first rows with the file's time; the newest sessions are chosen by true times."""
    fill(ledger, said("t:old", "23:00", at_basis="file"), said("t:new", "12:00"), said("t:two", "13:00"))
    fill(ledger, said("t:old", "09:30", 1), said("t:old", "09:00", 2), said("t:two", "07:00", 1))

    document = run("status", "--sessions", "--limit", "2", "--json").document

    assert [(one["session"], one["first_at"]) for one in document["sessions"]] == [
        ("t:new", "2026-08-01T12:00:00Z"),
        ("t:old", "2026-08-01T09:00:00Z"),
    ]


def test_coverage_counts_a_session_on_the_day_inside_its_records(run: Run, ledger: Path) -> None:
    old = said("t:old", "23:00", at_basis="file")
    fill(ledger, old | {"at": "2026-11-30T23:00:00Z"}, said("t:old", "09:00", 1))

    assert [(one["day"], one["sessions"]) for one in run("status", "--days", "0", "--json").document["coverage"]] == [
        ("2026-08-01", 1)
    ]
