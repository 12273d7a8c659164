"""Whose file it is, when its session began and how it is called, of generated files.

The expected answer is kept while a file is generated; no code of an importer computes it. The default runs a few
cases of each row; `RIGHTFUL_CASES=1000` runs as many.
"""

from __future__ import annotations

import io
import json
import os
import random
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.amounts import cases
from tests.importers.conftest import KINDS
from tests.importers.import_files import import_paths
from tests.importers.sdk_databases import put

from rightful import ledger as app
from rightful.cli.support.options import session_named
from rightful.errors import UsageError
from rightful.importers.engine.file_report import FileReport
from rightful.importers.openai_agents.sdk_databases import OpenAIAgents
from rightful.ledger import Ledger
from rightful.reports.contradictions import contradictions
from rightful.reports.session_list import sessions

CASES = range(cases("RIGHTFUL_CASES", 20))
SHORTEST = 4  # characters of the beginning of an id
START_S = 1_785_578_400  # 2026-08-01T10:00:00Z

Row = dict[str, Any]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with app.open(tmp_path_factory.mktemp("ledger") / "ledger", create=True) as opened:
        yield opened


def an_id(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    version, variant = rng.choice("47"), rng.choice("89ab")  # both versions are in use
    return str(uuid.UUID(f"{digits[:12]}{version}{digits[13:16]}{variant}{digits[17:]}"))


def at(second: float) -> str:
    return datetime.fromtimestamp(START_S + second, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parent(rng: random.Random, ids: list[str]) -> str | None:
    """The id of any earlier line, of a line that was never written, or none."""
    return rng.choice([*ids[-3:], an_id(rng), None])


def write(path: Path, rows: list[Row], mtime_s: float = START_S + 86_400) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    os.utime(path, (mtime_s, mtime_s))
    return path


def imported(ledger: Ledger, path: Path, kind: str = "auto") -> FileReport:
    [report] = import_paths(ledger.log, KINDS[kind], [str(path)], stdin=io.BytesIO())
    return report


def messages(ledger: Ledger, session: str) -> list[str]:
    return [entry.text or "" for entry in ledger.transcript(session).entries if entry.kind == "message"]


# B1 and B15: a file of another tool is nobody's.


def qwen(rng: random.Random, session: str) -> list[Row]:
    rows: list[Row] = []
    for number in range(rng.randint(1, 6)):
        role = rng.choice(["user", "model"])
        rows.append(
            {
                "uuid": an_id(rng), "parentUuid": parent(rng, [row["uuid"] for row in rows]), "sessionId": session,
                "timestamp": at(number), "type": "user" if role == "user" else "assistant", "cwd": "/p",
                "version": f"0.{rng.randint(1, 30)}.{rng.randint(0, 30)}",
                "message": {"role": role, "parts": [{"text": f"text {number}"}] * rng.randint(1, 2)},
            }
        )  # fmt: skip
    return rows


def droid(rng: random.Random, session: str) -> list[Row]:
    def row(number: int) -> Row:
        kind = rng.choice(["message", "tool_call", "tool_result", "completion"])
        said: dict[str, Row] = {
            "message": {"role": rng.choice(["user", "assistant"]), "text": "hi"},
            "tool_call": {"toolCallId": an_id(rng), "toolName": "Shell", "parameters": {"command": "ls"}},
            "tool_result": {"toolCallId": an_id(rng), "value": {"stdout": "a.py", "exitCode": rng.randint(0, 1)}},
            "completion": {"finalText": "Done", "id": an_id(rng)},
        }
        return {"type": kind, "session_id": session, "timestamp": at(number)} | said[kind]

    return [row(number) for number in range(rng.randint(1, 6))]


def hook_inputs(rng: random.Random, session: str) -> list[Row]:
    tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    return [
        {"session_id": session, "transcript_path": f"/c/{rng.choice([session, an_id(rng)])}.jsonl", "cwd": "/p"}
        | {"hook_event_name": rng.choice(["PreToolUse", "PostToolUse"]), "tool_use_id": an_id(rng)}
        | tool
        for _ in range(rng.randint(1, 4))
    ]


def heartbeats(rng: random.Random, session: str) -> list[Row]:
    return [
        {"type": "heartbeat", "session_id": session, "pid": rng.randint(2, 9_999), "status": "running"}
        | {"timestamp": at(number)}
        for number in range(rng.randint(1, 4))
    ]


def opencode(rng: random.Random, session: str) -> list[Row]:
    ids = [f"{name}_{rng.getrandbits(40):x}" for name in ("prt", "msg")]
    kind = rng.choice([{"type": "text", "text": "List the files."}, {"type": "step-start"}, {"type": "reasoning"}])
    return [{"id": ids[0], "sessionID": f"ses_{session[:8]}", "messageID": ids[1]} | kind]


OTHERS = {"qwen": qwen, "droid": droid, "hook": hook_inputs, "heartbeat": heartbeats, "opencode": opencode}
LINE_KINDS = ["claude-code", "codex", "copilot", "grok", "gptme", "lesson-hook", "session-records", "auto"]


@pytest.mark.parametrize("tool", OTHERS)
def test_file_of_another_tool_is_read_by_no_importer(tool: str, ledger: Ledger, tmp_path: Path) -> None:
    head = ledger.log.head()
    for case in CASES:
        rng = random.Random(f"{tool} {case}")
        session = an_id(rng)
        rows = OTHERS[tool](rng, session)
        path = write(tmp_path / rng.choice([f"{session}.jsonl", "log.jsonl", f"rollout-{session}.jsonl"]), rows)
        for kind in LINE_KINDS:
            report = imported(ledger, path, kind)
            assert (report.appended, report.exit_code, report.is_read) == (0, 2, False), (case, kind)
            assert len(report.problems) == 1, (case, kind)
        path.unlink()
    assert ledger.log.head() == head


# B2 and B3: the first time and the id that a file's own lines give.


def claude_lines(rng: random.Random, session: str, seconds: list[float]) -> tuple[list[Row], list[str]]:
    """A chain of messages of Claude Code with these times, and their texts."""
    rows: list[Row] = []
    for number, second in enumerate(seconds):
        role = "assistant" if number % 2 else "user"
        content = f"{role} {number}" if role == "user" else [{"type": "text", "text": f"{role} {number}"}]
        message: Row = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{number}", "model": "opus", "stop_reason": "end_turn"}
        rows.append(
            {
                "parentUuid": rows[-1]["uuid"] if rows else None, "isSidechain": False, "userType": "external",
                "cwd": "/p", "sessionId": session, "version": "2.1.4", "type": role, "message": message,
                "uuid": an_id(rng), "timestamp": at(second),
            }
        )  # fmt: skip
    return rows, [f"{'assistant' if number % 2 else 'user'} {number}" for number in range(len(seconds))]


def test_session_began_at_first_time_inside_its_file(ledger: Ledger, tmp_path: Path) -> None:
    """The file's own time, be it earlier or later than its lines, says nothing."""
    wanted: dict[str, str] = {}
    for case in CASES:
        rng = random.Random(f"first time {case}")
        session = an_id(rng)
        seconds = [rng.randint(0, 10**6) + rng.choice([0, 0.25]) for _ in range(rng.randint(1, 6))]
        path = tmp_path / f"{session}.jsonl"
        write(path, claude_lines(rng, session, seconds)[0], START_S + rng.choice([-(10**6), 0, 10**8]))
        assert imported(ledger, path).exit_code == 0, case
        wanted[f"claude-code:{session}"] = at(min(seconds))

    listed = [row for row in sessions(ledger.projected(), "", 0).shown if row.session in wanted]

    times = {row.session: datetime.fromisoformat(row.first_at) for row in listed}
    assert times == {session: datetime.fromisoformat(text) for session, text in wanted.items()}
    order = [times[row.session] for row in listed]
    assert order == sorted(order, reverse=True)


def test_leading_lines_without_id_belong_to_session_of_next_line(ledger: Ledger, tmp_path: Path) -> None:
    for case in CASES:
        rng = random.Random(f"leading lines {case}")
        session = an_id(rng)
        rows, texts = claude_lines(rng, session, [float(number) for number in range(rng.randint(1, 6))])
        leading = [
            {
                "type": "file-history-snapshot", "messageId": an_id(rng), "isSnapshotUpdate": rng.random() < 0.5,
                "snapshot": {"messageId": an_id(rng), "trackedFileBackups": {}, "timestamp": at(0)},
            }
            for _ in range(rng.randint(1, 4))
        ]  # fmt: skip
        path = write(tmp_path / rng.choice(["full.jsonl", f"{session}.jsonl"]), [*leading, *rows])

        report = imported(ledger, path)

        assert (report.exit_code, [problem for problem in report.problems if problem.lost]) == (0, []), case
        assert messages(ledger, f"claude-code:{session}") == texts, case
        path.unlink()


# B13 and B15: Codex's plain rollouts of 2025, and Grok's own store.


def test_plain_rollout_of_codex_is_read_whole(ledger: Ledger, tmp_path: Path) -> None:
    for case in CASES:
        rng = random.Random(f"plain rollout {case}")
        thread, texts, calls = an_id(rng), list[str](), list[str]()
        rows: list[Row] = [{"id": thread, "timestamp": at(0), "instructions": None, "git": {"branch": "main"}}]
        for number in range(rng.randint(1, 8)):
            kind = rng.choice(["user", "assistant", "state", "reasoning", "call"])
            if kind == "state":
                rows.append({"record_type": "state"})
            elif kind == "reasoning":
                rows.append({"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x"})
            elif kind == "call":
                calls.append(f"call_{number}")
                rows.append({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": calls[-1]})
                if rng.random() < 0.7:
                    rows.append({"type": "function_call_output", "call_id": calls[-1], "output": "{}"})
            else:
                part = {"type": "input_text" if kind == "user" else "output_text", "text": f"{kind} {number}"}
                rows.append({"type": "message", "role": kind, "content": [part]})
                texts.append(part["text"])
        path = write(tmp_path / f"rollout-2025-09-01T10-00-00-{thread}.jsonl", rows)

        report = imported(ledger, path)

        assert (report.exit_code, report.lost) == (0, 0), case
        if rows[1:]:
            assert messages(ledger, f"codex:{thread}") == texts, case
            found = ledger.transcript(f"codex:{thread}").entries
            assert [entry.call for entry in found if entry.kind == "tool_call"] == calls, case
        path.unlink()


def test_store_of_grok_is_read_whole(ledger: Ledger, tmp_path: Path) -> None:
    for case in CASES:
        rng = random.Random(f"grok store {case}")
        session, texts, calls = an_id(rng), ["You are an agent."], list[str]()
        rows: list[Row] = [{"type": "system", "content": texts[0]}]
        for number in range(rng.randint(1, 6)):
            text = f"prompt {number}"
            rows.append({"type": "user", "content": [{"type": "text", "text": text}], "prompt_index": number})
            texts.append(text)
            called = [f"call_{number}_{index}" for index in range(rng.randint(0, 2))]
            calls += called
            answer = rng.choice(["", f"answer {number}"])
            texts += [answer] if answer else []
            row: Row = {"type": "assistant", "content": answer, "model_id": "grok-4.5"}
            listed = [{"id": name, "name": "run_terminal_cmd", "arguments": "{}"} for name in called]
            rows.append(row | ({"tool_calls": listed} if listed else {}))
            rows += [{"type": "tool_result", "tool_call_id": name, "content": "a.py"} for name in called]
        path = write(tmp_path / "%2Fp" / session / "chat_history.jsonl", rows)

        report = imported(ledger, path)

        assert (report.exit_code, report.lost) == (0, 0), case
        assert messages(ledger, f"grok:{session}") == texts, case
        found = [entry for entry in ledger.transcript(f"grok:{session}").entries if entry.kind == "tool_call"]
        assert [(entry.call, entry.name) for entry in found] == [(name, "run_terminal_cmd") for name in calls], case


# B16: one rule for short ids.


def test_short_id_means_the_one_session_that_it_can_mean(tmp_path: Path) -> None:
    """A whole value first, else the beginning of exactly one name or value, of four characters at least."""
    rng = random.Random("short ids")
    digits = "0f"  # few digits make many common beginnings
    names = {
        f"{tool}:{''.join(rng.choice(digits) for _ in range(rng.randint(4, 9)))}"
        for tool in ("codex", "grok")
        for _ in range(12)
    }
    with app.open(tmp_path / "ledger", create=True) as opened:
        opened.append(
            [
                {"type": "session.started", "session": name, "at": at(0), "producer": "tests/1", "key": name}
                for name in sorted(names)
            ]
        )
        for case in range(5 * len(CASES)):
            asked = rng.choice(sorted(names))
            asked = rng.choice([asked, asked.partition(":")[2]])
            asked = asked[: rng.randint(1, len(asked))]
            fitting = {name for name in names if asked in (name, name.partition(":")[2])}
            if not fitting and len(asked.rpartition(":")[2]) >= SHORTEST:
                fitting = {name for name in names if name.startswith(asked) or name.partition(":")[2].startswith(asked)}
            if len(fitting) == 1:
                assert session_named(opened, asked) == fitting.pop(), case
            else:
                with pytest.raises(UsageError):
                    session_named(opened, asked)


# B17: contradictions of identity.


def test_file_whose_name_contradicts_the_id_inside_is_listed(ledger: Ledger, tmp_path: Path) -> None:
    wrong: set[str] = set()
    for case in CASES:
        rng = random.Random(f"contradiction {case}")
        inside = an_id(rng)
        name = rng.choice([inside, an_id(rng)])
        tool = rng.choice(["codex", "copilot"])
        if tool == "codex":
            meta = {"id": inside, "timestamp": at(0), "cwd": "/w", "originator": "codex-tui", "cli_version": "0.99.0"}
            rows: list[Row] = [{"timestamp": at(0), "type": "session_meta", "payload": meta}]
            path = tmp_path / f"rollout-2026-08-01T10-15-00-{name}.jsonl"
        else:
            data = {"sessionId": inside, "version": 1, "producer": "copilot-agent", "startTime": at(0)}
            rows = [{"type": "session.start", "data": data, "id": an_id(rng), "timestamp": at(0), "parentId": None}]
            path = tmp_path / "session-state" / name / "events.jsonl"
        report = imported(ledger, write(path, rows))
        assert (report.exit_code, report.lost) == (0, 0), case
        if name != inside:
            wrong.add(f"{tool}:{inside}")

    found = contradictions(ledger.log, everything=True)

    assert {alarm.session for alarm in found if alarm.session} == wrong


# B18: databases of the Agents SDK with one session id.


def fill(path: Path, sessions: dict[str, list[Row]]) -> None:
    """Write a database of the SDK: its tables by the SDK itself, all rows in one transaction."""
    put(path, {"role": "user", "content": "first"}, session_id=f"first of {path.name}")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO agent_sessions (session_id) VALUES (?)", [(name,) for name in sessions])
        rows = [(name, json.dumps(item)) for name, items in sessions.items() for item in items]
        connection.executemany("INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)", rows)


def test_databases_with_the_same_session_ids_are_distinguished_by_prefix(ledger: Ledger, tmp_path: Path) -> None:
    """Each session is a case; without the prefix none of a second database is imported."""
    rng = random.Random("databases")
    names = [f"conversation_{an_id(rng)}" for _ in CASES]
    for number in range(3):
        held = {
            name: [{"role": "user", "content": f"{number} {index} {name}"} for index in range(rng.randint(1, 3))]
            for name in names
        }
        path = tmp_path / f"{number}.db"
        fill(path, held)
        prefix = f"app{number}/" if number else ""
        if prefix:
            [refused] = import_paths(ledger.log, [OpenAIAgents()], [str(path)], stdin=io.BytesIO())
            assert (refused.exit_code, refused.lost) == (2, len(names))
            assert all("--session-prefix" in problem.what for problem in refused.problems[:2])
        [report] = import_paths(ledger.log, [OpenAIAgents(prefix)], [str(path)], stdin=io.BytesIO())

        assert (report.exit_code, report.lost) == (0, 0)
        assert {name: ledger.history(f"openai-agents:{prefix}{name}").items for name in names} == held
