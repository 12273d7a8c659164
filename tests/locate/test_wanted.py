from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rightful
from rightful import times
from rightful.errors import UsageError
from rightful.locate import find_transcripts
from rightful.locate.find_transcripts import LedgerSessions
from rightful.locate.ranks import Rank
from rightful.locate.wanted_sessions import session_of_name, tool_of

AT = "2026-08-01T10:15:00Z"
UUID = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"


def event(kind: str, session: str, key: str, at: str = AT, **more: Any) -> dict[str, Any]:
    return {"type": kind, "producer": "t", "key": key, "session": session, "at": at, **more}


def known(folder: Path, *events: dict[str, Any]) -> LedgerSessions:
    with rightful.open(folder / "ledger", create=True) as ledger:
        assert {one.outcome for one in ledger.append(events)} == {"appended"}
        return find_transcripts.ledger_sessions(ledger.log)


def test_ledger_gives_start_end_folder_tool_and_linked_names(tmp_path: Path) -> None:
    name = f"workspace:41c2@{AT}"
    of = known(
        tmp_path,
        event("session.started", name, "1", harness="Codex CLI", cwd="/ws"),
        event("session.linked", name, "2", other=f"codex:{UUID}", evidence="sentinel", **{"as": "native"}),
        event("session.linked", name, "3", other="codex:sub", evidence="native-id", **{"as": "subagent"}),
        event("session.linked", name, "4", other="codex:not", evidence="native-id", **{"as": "native"}),
        event("session.unlinked", name, "5", other="codex:not"),
        event("session.ended", name, "6", "2026-08-01T10:30:00Z", extra={"session_label": "36d9"}),
    )
    one = of.sessions[name]
    assert (one.tool, one.cwd, one.ids) == ("codex", "/ws", {"41c2", "36d9"})
    assert (one.start_us, one.end_us) == (times.us_from(AT), times.us_from("2026-08-01T10:30:00Z"))
    assert one.natives == {f"codex:{UUID}": Rank.SENTINEL}


def test_a_run_that_was_killed_is_known_by_what_it_had_given_its_tool(tmp_path: Path) -> None:
    """Its own link was to be written at its end."""
    mark = "20260801T101500Z-9e431dce5b9cfe69"
    started = event("session.started", "run:mine", "1", harness="claude-code") | {"producer": "rightful-run"}
    logs = f"/ws/.rightful/runs/{mark}/logs/gptme"

    one = known(tmp_path / "a", started | {"extra": {"native_id": UUID, "logs": logs}}).sessions["run:mine"]
    others = known(tmp_path / "b", started | {"producer": "t", "extra": {"native_id": UUID}}).sessions["run:mine"]
    rubbish = known(tmp_path / "c", started | {"extra": {"native_id": "unknown", "logs": "x"}}).sessions["run:mine"]

    assert (one.natives, one.ids) == ({f"claude-code:{UUID}": Rank.NATIVE}, {"mine", mark})
    assert others.natives == rubbish.natives == {}


def test_a_record_that_was_imported_without_a_start_has_none(tmp_path: Path) -> None:
    """It is named by the time at which it was written, which is its end."""
    name = f"workspace:41c2@{AT}"
    started, ended = event("session.started", name, "1"), event("session.ended", name, "2", exit_code=0)
    assert known(tmp_path / "a", started, ended).sessions[name].start_us is None
    ended["extra"] = {"duration_seconds": 60}
    one = known(tmp_path / "b", started, ended).sessions[name]
    assert (one.start_us, one.is_exact) == (times.us_from("2026-08-01T10:14:00Z"), False)


def test_a_files_time_is_no_start(tmp_path: Path) -> None:
    of = known(tmp_path, event("session.started", "workspace:a", "1", at_basis="file"))
    assert of.sessions["workspace:a"].start_us is None


def test_a_session_is_named_in_full_by_its_value_or_by_its_label(tmp_path: Path) -> None:
    full = f"workspace:41c2@{AT}"
    of = known(
        tmp_path,
        event("session.started", full, "1"),
        event("session.started", "workspace:36d9@2026-08-01T10:15:00Z", "2"),
        event("session.started", "workspace:36d9@2026-08-02T10:15:00Z", "3"),
    )
    assert find_transcripts.resolve_name(of, full) == full
    assert find_transcripts.resolve_name(of, "41c2") == full
    assert find_transcripts.resolve_name(of, f"codex:{UUID}") == f"codex:{UUID}"
    with pytest.raises(UsageError, match="'36d9' is the value of 2 sessions"):
        find_transcripts.resolve_name(of, "36d9")
    with pytest.raises(UsageError, match="no session is named 'nobody'"):
        find_transcripts.resolve_name(of, "nobody")


@pytest.mark.parametrize(
    ("harness", "tool"),
    [("claude-code", "claude-code"), ("Claude", "claude-code"), ("codex_exec", "codex"), ("github-copilot", "copilot"),
     ("gptme", "gptme"), ("grok-build", "grok"), ("aider", None), (None, None)],
)  # fmt: skip
def test_a_harness_is_a_tool_whatever_it_is_called(harness: str | None, tool: str | None) -> None:
    assert tool_of(harness) == tool


def test_a_label_ends_where_a_time_begins() -> None:
    assert session_of_name(f"workspace:41c2@{AT}").ids == {"41c2"}
    assert session_of_name("workspace:me@home").ids == {"me@home"}
    assert session_of_name("run:x@2026-08-01T10:15:00Z").ids == {"x@2026-08-01T10:15:00Z"}
    assert session_of_name(f"codex:{UUID}").natives == {f"codex:{UUID}": Rank.NATIVE}
