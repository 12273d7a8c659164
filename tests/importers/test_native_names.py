from __future__ import annotations

import pytest

from rightful.importers.shared.native_names import native_name

CC = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
UUID = "019fbcd1-e4a0-7bdc-9da7-2ed83980ed9b"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"/home/dev/.claude/projects/-home-dev-my-proj/{CC}.jsonl", f"claude-code:{CC}"),
        ("/home/dev/.claude/projects/-p/agent-a1.jsonl", "claude-code:agent-a1"),
        (f"/backup/{CC}.jsonl", f"claude-code:{CC}"),
        (f"{CC}.jsonl", f"claude-code:{CC}"),
        (f"C:\\Users\\dev\\.claude\\projects\\-p\\{CC}.jsonl", f"claude-code:{CC}"),
        (f"/home/dev/.codex/sessions/2026/08/01/rollout-2026-08-01T10-15-00-{UUID}.jsonl", f"codex:{UUID}"),
        (f"/home/dev/.copilot/session-state/{UUID}/events.jsonl", f"copilot:{UUID}"),
        ("/home/dev/.local/share/gptme/logs/2026-08-01-blue-fox/conversation.jsonl", "gptme:2026-08-01-blue-fox"),
        ("/home/dev/gptme/logs/2026-08-01-blue-fox/branches/main-undo-0.jsonl", "gptme:2026-08-01-blue-fox"),
        (f"/gptme-runs/gptme-logs-{UUID}/2026-08-01-owl/conversation.jsonl", "gptme:2026-08-01-owl"),
        ("/tmp/cc-session-20260801-1015.log", None),
        ("/ws/state/sessions/grok-trajectories/41c2.jsonl", None),
        ("/home/dev/.claude/projects/-p/s/subagents/agent-a1.jsonl", None),
        ("/logs/unknown/conversation.jsonl", None),
        ("", None),
        (7, None),
        (None, None),
    ],
)
def test_a_trajectory_path_shows_the_tools_own_name_or_none(path: object, name: str | None) -> None:
    assert native_name({"trajectory_path": path}) == name


def test_an_old_row_keeps_its_trajectory_in_the_journal_path() -> None:
    gptme = "/home/dev/gptme/logs/blue-fox/conversation.jsonl"

    assert native_name({"journal_path": gptme}) == "gptme:blue-fox"
    assert native_name({"journal_path": "/journal/autonomous-session-41c2.md"}) is None
    assert native_name({"journal_path": gptme, "trajectory_path": f"/x/{CC}.jsonl"}) == f"claude-code:{CC}"
