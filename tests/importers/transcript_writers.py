"""Writes transcripts as each tool does, small and invented, for the tests of finding and binding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CWD = "/home/dev/my.proj"


def lines(path: Path, *rows: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def marker(session: str, backend: str, uuid: str = "789183b7-e986-46c1-9d5f-0544c8f3c4c9") -> str:
    return f"<!-- BOB_SESSION_SENTINEL={uuid} session_id={session} backend={backend} ts=2026-08-01T10:15:00Z -->\n"


def claude(root: Path, native: str, at: str, prompt: str = "Fix it", *, cwd: str = CWD, **said: Any) -> Path:
    """One session of Claude Code below a `projects` folder."""
    slug = "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)
    base = {"sessionId": said.pop("session", native), "cwd": cwd, "timestamp": at, **said}
    user = {"type": "user", "uuid": f"u-{native}", "message": {"role": "user", "content": prompt}, **base}
    answer = {"role": "assistant", "id": "m1", "content": [{"type": "text", "text": "Done."}]}
    return lines(
        root / "projects" / slug / f"{native}.jsonl",
        {"type": "mode", "mode": "normal", "sessionId": base["sessionId"]},
        user,
        {"type": "assistant", "uuid": f"a-{native}", "message": answer, **base},
    )


def stream(path: Path, native: str, *, cwd: str = CWD) -> Path:
    """What `claude -p --output-format stream-json` prints."""
    return lines(
        path,
        {"type": "system", "subtype": "init", "cwd": cwd, "session_id": native},
        {"type": "assistant", "message": {"role": "assistant", "content": []}, "session_id": native},
    )


def codex(root: Path, native: str, at: str, prompt: str = "Fix it", *, cwd: str = CWD, **meta: Any) -> Path:
    """One rollout of Codex below a `sessions` folder."""
    day, stamp = at[:10].replace("-", "/"), at[:19].replace(":", "-")
    text = [{"type": "input_text", "text": prompt}]
    context = [{"type": "input_text", "text": "<environment_context>\n</environment_context>"}]
    return lines(
        root / "sessions" / day / f"rollout-{stamp}-{native}.jsonl",
        {"timestamp": at, "type": "session_meta", "payload": {"id": native, "timestamp": at, "cwd": cwd, **meta}},
        {"timestamp": at, "type": "response_item", "payload": {"type": "message", "role": "user", "content": context}},
        {"timestamp": at, "type": "response_item", "payload": {"type": "message", "role": "user", "content": text}},
    )


def copilot(root: Path, native: str, at: str, prompt: str = "Fix it", *, cwd: str = CWD) -> Path:
    """One session of Copilot CLI below a `session-state` folder."""
    start = {"sessionId": native, "version": 1, "startTime": at, "context": {"cwd": cwd}}
    return lines(
        root / "session-state" / native / "events.jsonl",
        {"type": "session.start", "data": start, "id": "e1", "timestamp": at, "parentId": None},
        {"type": "user.message", "data": {"content": prompt}, "id": "e2", "timestamp": at, "parentId": "e1"},
    )


def gptme(logs: Path, name: str, at: str, prompt: str = "Fix it", *, cwd: str = CWD) -> Path:
    """One conversation of gptme in a folder of logs."""
    folder = logs / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'[chat]\nname = "{name}"\nworkspace = "{cwd}"\n')
    return lines(
        folder / "conversation.jsonl",
        {"role": "system", "content": "You are a test agent.", "timestamp": at},
        {"role": "user", "content": prompt, "timestamp": at},
        {"role": "assistant", "content": "Done.", "timestamp": at},
    )


def grok(folder: Path, session: str) -> Path:
    """What Grok Build streams into a file that its launcher names."""
    return lines(
        folder / f"{session}.jsonl",
        {"type": "available_commands", "commands": []},
        {"type": "text", "content": "Done."},
        {"type": "end", "modelUsage": {}},
    )
