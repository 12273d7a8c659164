from __future__ import annotations

from pathlib import Path

import pytest

from rightful.locate.layouts import is_transcript, own_session, pointer_of, roots, slug_fits

HOME = Path("/home/dev")


def paths(environ: dict[str, str], *workspaces: str) -> list[str]:
    return [root.path for root in roots(environ, HOME, tuple(map(Path, workspaces)))]


def test_without_variables_the_tools_own_folders_are_searched() -> None:
    assert {
        "/home/dev/.claude/projects",
        "/home/dev/.codex/sessions",
        "/home/dev/.codex/archived_sessions",
        "/home/dev/.copilot/session-state",
        "/home/dev/.local/share/gptme/logs",
        "/home/dev/.cache/gptme/logs",
        "/tmp",
    } <= set(paths({}))


@pytest.mark.parametrize(
    ("variable", "folder", "instead_of"),
    [
        ("CLAUDE_CONFIG_DIR", "/x/projects", "/home/dev/.claude/projects"),
        ("CODEX_HOME", "/x/sessions", "/home/dev/.codex/sessions"),
        ("COPILOT_HOME", "/x/session-state", "/home/dev/.copilot/session-state"),
        ("GPTME_LOGS_HOME", "/x", "/home/dev/.local/share/gptme/logs"),
        ("XDG_DATA_HOME", "/x/gptme/logs", "/home/dev/.local/share/gptme/logs"),
    ],
)
def test_a_tools_variable_takes_the_place_of_its_folder(variable: str, folder: str, instead_of: str) -> None:
    found = paths({variable: "/x"})
    assert folder in found
    assert instead_of not in found
    assert instead_of in paths({variable: ""})


@pytest.mark.parametrize(
    ("variable", "folder", "beside"),
    [
        ("CLAUDE_HOME", "/x/projects", "/home/dev/.claude/projects"),
        ("CODEX_SESSIONS_DIR", "/x", "/home/dev/.codex/sessions"),
        ("GPTME_LOGS_DIR", "/x", "/home/dev/.local/share/gptme/logs"),
        ("TMPDIR", "/x", "/tmp"),
    ],
)
def test_what_others_programs_read_is_searched_beside_it(variable: str, folder: str, beside: str) -> None:
    found = paths({variable: "/x"})
    assert folder in found
    assert beside in found


def test_a_workspace_has_its_runs_and_grok_its_streams() -> None:
    found = paths({}, "/ws")
    assert {"/ws/gptme-runs", "/ws/state/gptme-runs", "/ws/state/sessions/grok-trajectories"} <= set(found)


def test_a_folder_is_searched_once() -> None:
    found = paths({"TMPDIR": "/tmp/", "GPTME_LOGS_DIR": "/home/dev/.cache/gptme/logs"})
    assert len(found) == len(set(found)) == len(paths({}))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/h/.claude/projects/-x/abc.jsonl", True),
        ("/h/.claude/projects/-x/abc/subagents/agent-1.jsonl", False),
        ("/h/.codex/sessions/2026/08/01/rollout-x.jsonl", True),
        ("/h/.copilot/session-state/u/events.jsonl", True),
        ("/h/logs/fox/events.jsonl", False),
        ("/h/logs/fox/conversation.jsonl", True),
        ("/h/logs/fox/branches/main-undo-0.jsonl", False),
        ("/ws/state/sessions/grok-trajectories/41c2.jsonl", True),
        ("/tmp/cc-session-1.log", True),
        ("/tmp/cc-session-x-lessons.jsonl", False),
        ("/ws/state/sessions/session-records.jsonl", False),
    ],
)
def test_a_path_shows_whether_it_can_be_a_transcript(path: str, expected: bool) -> None:
    assert is_transcript(path) is expected


def test_a_pointers_name_says_its_tool_and_its_session() -> None:
    assert pointer_of("/tmp/cc-session-log-ref-41c2.txt") == ("claude-code", "41c2")
    assert pointer_of("/tmp/gptme-traj-a.path.path") == ("gptme", "a.path")
    assert pointer_of("/tmp/grok-build-session-log-ref-x.txt") == ("grok", "x")
    assert pointer_of("/tmp/cc-session-log-ref-.txt") is None


def test_the_place_of_a_session_is_read_from_the_names_above() -> None:
    assert own_session("/ws/gptme-runs/gptme-logs-b381/fox/conversation.jsonl") == "b381"
    assert own_session("/ws/gptme-runs/gptme-logs-b381/conversation.jsonl") is None
    assert own_session("/ws/grok-trajectories/41c2.jsonl") == "41c2"
    assert own_session("/ws/.rightful/runs/20260801T101500Z-0f/logs/gptme/fox/conversation.jsonl") == (
        "20260801T101500Z-0f"
    )
    assert own_session("/h/logs/fox/conversation.jsonl") is None


def test_project_folder_matches_by_the_real_rule_and_by_the_common_one() -> None:
    assert slug_fits("-home-dev-my-proj", "/home/dev/my.proj")
    assert slug_fits("-home-dev-my.proj", "/home/dev/my.proj")
    assert not slug_fits("-home-dev-my-proj2", "/home/dev/my.proj")
    long = "/" + "a" * 200
    assert slug_fits("-" + "a" * 199 + "-1x9z", long)
    assert not slug_fits("-" + "a" * 200, long)
    assert not slug_fits("-" + "a" * 199 + "-", long)
    assert slug_fits("-" + "a" * 199, "/" + "a" * 199)
