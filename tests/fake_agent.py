"""A small agent for the tests of `rightful run`: it writes a transcript in its tool's real format.

    fake_agent.py TOOL [tool's words …]

What it does beside that, the variables `FAKE_*` say: `FAKE_SAYS` is its prompt, `FAKE_COMMITS` how many
commits it makes, `FAKE_SHELL` what it runs in a shell, `FAKE_EXIT` how it ends, `FAKE_TELLS` a file that
gets its environment as JSON. What it runs finds Claude Code's id of the session in `FAKE_NATIVE`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

TOOL, *WORDS = sys.argv[1:]
SAYS = os.environ.get("FAKE_SAYS", "Fix the path bug")
CWD = os.getcwd()  # noqa: PTH109 - as a tool writes it
HOME = Path(os.environ["HOME"])


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(path: Path, *lines: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def claude() -> None:
    known = WORDS[WORDS.index("--session-id") + 1] if "--session-id" in WORDS else str(uuid.uuid4())
    os.environ["FAKE_NATIVE"] = known
    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR", HOME / ".claude"))
    slug = "".join(char if char.isalnum() else "-" for char in CWD)
    common = {"sessionId": known, "cwd": CWD, "version": "2.1.30", "isSidechain": False, "userType": "external"}
    user = {"type": "user", "parentUuid": None, "uuid": str(uuid.uuid4()), "timestamp": now()}
    answer = {"type": "assistant", "parentUuid": user["uuid"], "uuid": str(uuid.uuid4()), "timestamp": now()}
    said = {"id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": "Done"}]}
    write(
        folder / "projects" / slug / f"{known}.jsonl",
        common | user | {"message": {"role": "user", "content": SAYS}},
        common | answer | {"message": said},
    )


def codex() -> None:
    known = str(uuid.uuid4())
    local = datetime.now().astimezone()
    name = f"rollout-{local:%Y-%m-%dT%H-%M-%S}-{known}.jsonl"
    meta = {"id": known, "timestamp": now(), "cwd": CWD, "originator": "codex_exec", "cli_version": "0.99.0"}
    turn = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": SAYS}]}
    write(
        Path(os.environ.get("CODEX_HOME", HOME / ".codex")) / "sessions" / f"{local:%Y/%m/%d}" / name,
        {"timestamp": meta["timestamp"], "type": "session_meta", "payload": meta},
        {"timestamp": now(), "type": "response_item", "payload": turn},
    )


def copilot() -> None:
    known = str(uuid.uuid4())
    start = {"sessionId": known, "version": 1, "producer": "copilot-agent", "startTime": now(), "context": {"cwd": CWD}}
    write(
        HOME / ".copilot" / "session-state" / known / "events.jsonl",
        {"type": "session.start", "data": start, "id": str(uuid.uuid4()), "timestamp": now(), "parentId": None},
        {"type": "user.message", "data": {"content": SAYS}, "id": str(uuid.uuid4()), "timestamp": now()},
    )


def gptme() -> None:
    logs = Path(os.environ.get("GPTME_LOGS_HOME", HOME / ".local/share/gptme/logs"))
    name = WORDS[WORDS.index("--name") + 1] if "--name" in WORDS else f"2026-08-01-{uuid.uuid4().hex[:6]}-blue-fox"
    at = datetime.now().isoformat()  # noqa: DTZ005 - gptme writes the local time
    write(
        logs / name / "conversation.jsonl",
        {"role": "system", "content": "You are a test agent.", "timestamp": at},
        {"role": "user", "content": SAYS, "timestamp": at},
    )


def commit(number: int) -> None:
    path = Path(CWD) / f"{os.environ.get('RIGHTFUL_RUN_NONCE', 'none')}-{number}"
    path.write_text("work\n")
    subprocess.run(["git", "add", path.name], check=True)
    subprocess.run(["git", "commit", "-q", "-m", f"work {number}"], check=True)


if __name__ == "__main__":
    if tool := {"claude": claude, "codex": codex, "copilot": copilot, "gptme": gptme}.get(TOOL):
        tool()
    for number in range(int(os.environ.get("FAKE_COMMITS", "0"))):
        commit(number)
    if shell := os.environ.get("FAKE_SHELL"):
        subprocess.run(["/bin/sh", "-c", shell], check=True)
    if tells := os.environ.get("FAKE_TELLS"):
        Path(tells).write_text(json.dumps({"env": dict(os.environ), "cwd": CWD, "words": WORDS}))
    sys.exit(int(os.environ.get("FAKE_EXIT", "0")))
