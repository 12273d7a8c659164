"""What sessions used, and whose it is, of generated files: the truth is kept while they are generated.

The default runs a few cases of each row; `RIGHTFUL_CASES=1000` runs as many.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.amounts import cases
from tests.importers import claude_lines, codex_lines, copilot_lines
from tests.importers.codex_lines import v7
from tests.importers.reading_lines import read_by

from rightful import ledger as app
from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.codex.rollout import Codex
from rightful.importers.copilot.copilot_session import Copilot
from rightful.importers.engine.formats import Kind, Origin
from rightful.importers.grok.grok_stream import Grok
from rightful.importers.sources.text_files import Problem
from rightful.ledger import Ledger

CASES = range(cases("RIGHTFUL_CASES", 20))
MTIME_US = 1_785_600_000_000_000

Row = dict[str, Any]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with app.open(tmp_path_factory.mktemp("ledger") / "ledger", create=True) as opened:
        yield opened


def put(ledger: Ledger, kind: Kind, files: dict[str, list[Row]]) -> None:
    """Append what a kind's reader reads from files."""
    for path, rows in files.items():
        said = read_by(kind.reader(Origin(path, MTIME_US)), rows)
        assert not [one for one in said if isinstance(one, Problem) and one.lost]
        ledger.append([one for one in said if not isinstance(one, Problem)])


def usage(ledger: Ledger, session: str, name: str = "input_tokens") -> tuple[int, int]:
    found = ledger.transcript(session).usage
    return found.total.get(name, 0), found.cumulative.get(name, 0)


def messages(ledger: Ledger, session: str) -> list[Any]:
    entries = ledger.transcript(session).entries
    return [entry.text for entry in entries if entry.kind == "message" and entry.hidden is not True]


def ident(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def test_results_of_stream_logs_add_up(ledger: Ledger) -> None:
    for case in CASES:
        rng = random.Random(case)
        session, used, turns = ident(rng), 0, 0
        files: dict[str, list[Row]] = {}
        results: list[Row] = []
        for number in range(rng.randint(1, 4)):
            rows: list[Row] = [
                {"type": "system", "subtype": "init", "session_id": session, "cwd": "/w", "uuid": ident(rng)}
            ]
            for _ in range(rng.randint(0, 3)):
                counts = {"input_tokens": rng.choice([1, 10, 10, 900]), "output_tokens": rng.randint(0, 3)}
                row: Row = {"type": "result", "num_turns": rng.randint(0, 3), "usage": counts, "session_id": session}
                rows.append(row | {"subtype": "success", "is_error": False, "uuid": ident(rng)})
                used, turns = used + counts["input_tokens"], turns + row["num_turns"]
            results += rows[1:]
            copied = rng.sample(results, rng.randint(0, len(results)))  # a log that is cut may repeat another's lines
            files[f"/logs/cc-session-{number}.log"] = rows + copied
        put(ledger, ClaudeCode(), dict(rng.sample(list(files.items()), len(files))))

        transcript = ledger.transcript(f"claude-code:{session}")
        assert usage(ledger, f"claude-code:{session}") == (0, used), case
        if results:
            assert transcript.ended is not None
            assert transcript.ended.turns == turns, case


def test_shutdowns_of_copilot_add_up(ledger: Ledger) -> None:
    for case in CASES:
        rng = random.Random(case)
        session, used = ident(rng), 0
        rows = [
            copilot_lines.start(f"{case} start") | {"data": {"sessionId": session, "startTime": "2026-08-01T10:00:00Z"}}
        ]
        for number in range(rng.randint(1, 4)):
            models = {f"m{at}": rng.choice([0, 5, 5, 70]) for at in range(rng.randint(1, 3))}
            metrics = {name: {"usage": {"inputTokens": count}} for name, count in models.items()}
            rows.append(copilot_lines.record("session.shutdown", f"{case} {number}", modelMetrics=metrics))
            used += sum(models.values())
        rows += rng.sample(rows[1:], rng.randint(0, len(rows) - 1))
        put(ledger, Copilot(), {f"/c/session-state/{session}/events.jsonl": rows})

        assert usage(ledger, f"copilot:{session}", "inputTokens") == (0, used), case


def test_ends_of_grok_add_up(ledger: Ledger) -> None:
    for case in CASES:
        rng = random.Random(case)
        rows: list[Row] = []
        used = turns = 0
        for _ in range(rng.randint(1, 4)):
            rows += [{"type": "text", "data": "hi"}] * rng.randint(0, 2)
            models = {f"m{at}": {"inputTokens": rng.choice([1, 5, 5, 70])} for at in range(rng.randint(1, 3))}
            rows.append({"type": "end", "num_turns": rng.randint(0, 3), "modelUsage": models})
            used += sum(one["inputTokens"] for one in models.values())
            turns += rows[-1]["num_turns"]
        put(ledger, Grok(), {f"/g/grok-trajectories/{case}-run.jsonl": rows})

        transcript = ledger.transcript(f"grok:{case}-run")
        assert usage(ledger, f"grok:{case}-run", "inputTokens") == (0, used), case
        assert transcript.ended is not None
        assert transcript.ended.turns == turns, case


def counted(total: int, last: int, second: float, *, limits: bool = False) -> Row:
    info = {"total_token_usage": {"input_tokens": total}, "last_token_usage": {"input_tokens": last}}
    return codex_lines.event("token_count", second, info=info, rate_limits={"primary": {}} if limits else None)


def test_running_totals_of_codex_begin_again(ledger: Ledger) -> None:
    """Codex repeats a total with each new rate limit, before the model answers; a resumed process forgets it."""
    for case in CASES:
        rng = random.Random(case)
        thread = v7(rng.randrange(10**9), f"{case:x}")
        rows, used, total, last, second = [codex_lines.meta(thread)], 0, 0, 0, 1.0
        for number in range(rng.randint(1, 6)):
            if rng.random() < 0.4:
                total = 0
            rows.append(codex_lines.began(v7(10**9 + number, f"{case:x}"), second))
            rows.append(codex_lines.said(f"ask {number}", "user", second))
            known = total
            for answer in range(rng.randint(1, 3)):
                if known and rng.random() < 0.5:
                    rows.append(counted(total, last, second, limits=True))
                rows.append(codex_lines.said(f"answer {number} {answer}", second=second))
                last = rng.choice([100, 100, 200])
                total, used, second = total + last, used + last, second + 1
                known = total
                rows += [counted(total, last, second)] * rng.randint(1, 2)
        put(ledger, Codex(), {f"/c/rollout-2026-08-01T10-15-00-{thread}.jsonl": rows})

        assert usage(ledger, f"codex:{thread}") == (used, used), case


def codex_turn(rng: random.Random, thread: str, number: int, used: Counter[str], *, is_timed: bool) -> list[Row]:
    """Return the lines of a turn, which begins `number` seconds after the day's first thread."""
    name = v7(number * 1_000 + 1_000, f"{number:x}") if is_timed else ident(rng)
    rows = [codex_lines.said(f"{thread} ask {number}", "user", number)]
    for answer in range(rng.randint(1, 2)):
        used[thread] += 100
        rows.append(codex_lines.said(f"{thread} {number} {answer}", second=number))
        rows.append(counted(used[thread], 100, number))
    return [codex_lines.began(name, number), *rows, codex_lines.ended(name, number)]


def test_a_subagent_of_codex_has_no_turn_of_its_parent(ledger: Ledger) -> None:
    for case in CASES:
        rng = random.Random(case)
        parent, child = v7(case, f"{case:x}"), v7(10**7 + case, f"{case:x}")
        is_timed = rng.random() < 0.7
        used: Counter[str] = Counter()
        turns = [codex_turn(rng, parent, number, used, is_timed=is_timed) for number in range(rng.randint(1, 4))]
        own = [codex_turn(rng, child, number + 10_002, used, is_timed=is_timed) for number in range(rng.randint(1, 3))]
        kept = [row for rows in turns[-rng.randint(1, len(turns)) :] for row in rows]
        kept = kept[rng.randint(0, 1) : len(kept) - rng.randint(0, 2)]
        stamp = codex_lines.meta(child, 9_990.0)["timestamp"]
        forked = codex_lines.meta(child, 9_990.0, forked_from_id=parent, timestamp=stamp)
        files = {
            parent: [codex_lines.meta(parent), *(row for rows in turns for row in rows)],
            child: [forked, *(row | {"timestamp": stamp} for row in kept), *(row for rows in own for row in rows)],
        }
        names = rng.sample(list(files), 2)
        put(ledger, Codex(), {f"/c/rollout-2026-08-01T10-15-00-{name}.jsonl": files[name] for name in names})

        for thread, of in ((parent, turns), (child, own)):
            expected = [
                row["payload"]["content"][0]["text"]
                for rows in of
                for row in rows
                if row["payload"]["type"] == "message"
            ]
            assert messages(ledger, f"codex:{thread}") == expected, case
            assert usage(ledger, f"codex:{thread}") == (used[thread], used[thread]), case


def test_a_file_of_several_sessions_says_which_one_each_goes_on_from(ledger: Ledger) -> None:
    for case in CASES:
        rng = random.Random(case)
        sessions = [ident(rng) for _ in range(rng.randint(1, 4))]
        rows: list[Row] = []
        parent = None
        for session in sessions:
            for _ in range(rng.randint(1, 3)):
                if rng.random() < 0.3:
                    mode = {"type": "mode", "mode": "normal", "sessionId": rng.choice(sessions)}
                    rows.append(mode)
                name = ident(rng)
                spoken = claude_lines.user if rng.random() < 0.5 else claude_lines.model
                row = spoken(name, parent or "", f"said {name}") | {"parentUuid": parent}
                rows.append(row | {"sessionId": session, "timestamp": "2026-08-01T10:00:00.000Z"})
                parent = name
        put(ledger, ClaudeCode(), {f"/p/{rng.choice(sessions)}.jsonl": rows})

        for before, session in zip([None, *sessions], sessions, strict=False):
            started = ledger.transcript(f"claude-code:{session}").started
            assert started is not None
            resumes = (started.extra or {}).get("resumes")
            assert resumes == (f"claude-code:{before}" if before else None), case


def test_what_a_subagent_said_is_read_where_its_parent_reports_it(ledger: Ledger) -> None:
    for case in CASES:
        rng = random.Random(case)
        session = ident(rng)
        rows: list[Row] = [claude_lines.user(ident(rng), None, "Explore.") | {"sessionId": session}]
        said: dict[str, list[str]] = {}
        calls: Counter[str] = Counter()
        used: Counter[str] = Counter()
        for number in range(rng.randint(1, 12)):
            agent = f"a{rng.randint(0, 2)}"
            of, text = f"msg_{number}", f"answer {number}"
            blocks: list[Row | str] = [text] if rng.random() < 0.5 else [claude_lines.call(f"t{number}")]
            row = claude_lines.model(ident(rng), "x", *blocks, of=of, usage={"input_tokens": number})
            nested = {name: row[name] for name in ("type", "message", "uuid", "timestamp")}
            data = {"type": "agent_progress", "agentId": agent, "prompt": "Look.", "message": nested}
            line = claude_lines.line("progress", ident(rng), "p", toolUseID=of) | {"data": data, "sessionId": session}
            rows += [line] * rng.randint(1, 2)
            said.setdefault(agent, [])
            if blocks == [text]:
                said[agent].append(text)
            else:
                calls[agent] += 1
            used[agent] += number
        for row in rows:
            row["timestamp"] = "2026-08-01T10:00:00.000Z"
        put(ledger, ClaudeCode(), {f"/p/{session}.jsonl": rows})

        parent = ledger.transcript(f"claude-code:{session}")
        assert parent.subagents == sorted(f"claude-code:{session}/{agent}" for agent in said), case
        assert messages(ledger, f"claude-code:{session}") == ["Explore."]
        for agent, texts in said.items():
            name = f"claude-code:{session}/{agent}"
            assert messages(ledger, name) == texts, case
            assert sum(entry.kind == "tool_call" for entry in ledger.transcript(name).entries) == calls[agent], case
            assert usage(ledger, name) == (used[agent], 0), case
