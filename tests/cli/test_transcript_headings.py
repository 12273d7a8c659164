"""What a transcript says above its entries and between them, and where there are none."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_transcript import fill, said
from tests.log.facts import fact


def test_a_turn_is_said_where_it_changes(run: Run, ledger: Path) -> None:
    turns = ["one", "one", "two", None]
    fill(ledger, *(said(str(n), "hi", turn=turn) for n, turn in enumerate(turns)))
    lines = run("transcript", "t:a").out.splitlines()

    assert [line for line in lines if line.startswith(("turn", "outside", "#"))] == [
        "turn one", "#1  2026-08-01 10:15:00Z  user", "#2  2026-08-01 10:15:00Z  user",
        "turn two", "#3  2026-08-01 10:15:00Z  user",
        "outside of a turn", "#4  2026-08-01 10:15:00Z  user",
    ]  # fmt: skip


def test_long_ids_of_calls_are_shortened_to_what_tells_them_apart(run: Run, ledger: Path) -> None:
    ids = ["call_1", f"sha256:{'a' * 64}.1", f"sha256:{'a' * 64}.2", f"1{'b' * 40}", f"2{'b' * 40}"]
    fill(ledger, *(fact("tool_call.snapshotted", str(n), call=one, name="bash") for n, one in enumerate(ids)))

    calls = re.findall(r"\(call (.*)\)", run("transcript", "t:a").out)
    assert calls[0] == "call_1"
    assert len(set(calls)) == len(ids)
    assert [one.endswith(call.lstrip("….")) for one, call in zip(ids, calls, strict=True)] == [True] * 5
    assert re.findall(r"\(call (.*)\)", run("transcript", "t:a", "--full").out) == ids

    fill(ledger, fact("tool_call.snapshotted", "x", session="t:b", call=ids[1], name="bash"))
    assert "(call …aaaaaaaaaa.1)" in run("transcript", "t:b").out
    assert run("transcript", "t:b", "--json").document["entries"][0]["call"] == ids[1]


def test_the_limit_counts_what_is_shown(run: Run, ledger: Path) -> None:
    data = [fact("data.recorded", f"d{n}", name="title", data="x") for n in range(3)]
    fill(ledger, said("1", "first"), said("2", "second"), data[0], said("3", "third"), *data[1:])

    out = run("transcript", "t:a", "--limit", "2").out
    assert [line.strip() for line in out.splitlines() if line.startswith("    ")] == ["second", "third"]
    assert "1 earlier entry not shown; --limit 0 shows all." in out
    assert "first" not in run("transcript", "t:a", "--limit", "5", "--all").out
    assert len(run("transcript", "t:a", "--limit", "2", "--json").document["entries"]) == 2


def test_what_is_only_known_by_a_hash_or_encrypted_is_said(run: Run, ledger: Path) -> None:
    fill(
        ledger,
        fact("thought.recorded", "1", content="", extra={"encrypted_content": "aW52"}),
        fact("tool_call.snapshotted", "2", call="c", name="bash", extra={"args_hash": "sha256:0"}),
        fact("tool_result.snapshotted", "3", call="c", extra={"result_hash": "sha256:1"}),
    )
    out = run("transcript", "t:a").out

    assert "thought  [encrypted]" in out
    assert "tool bash (call c)  [of its arguments only a hash is known]" in out
    assert "result #3  [only its hash is known]" in out


def test_bound_transcript_without_import_is_shown_with_the_command(run: Run, ledger: Path, here: Path) -> None:
    native = "019fbcd1-e4a0-7bdc-9da7-2ed83980ed9b"
    file = here / "my files" / f"rollout-2026-08-01T10-15-00-{native}.jsonl"
    file.parent.mkdir()
    meta = {"id": native, "timestamp": "2026-08-01T10:15:00Z", "cwd": "/w", "originator": "codex_exec"}
    turn = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the path bug"}]}
    file.write_text(
        json.dumps({"timestamp": "2026-08-01T10:15:00Z", "type": "session_meta", "payload": meta})
        + "\n"
        + json.dumps({"timestamp": "2026-08-01T10:15:01Z", "type": "response_item", "payload": turn})
        + "\n"
    )
    bound = {"uri": file.as_uri(), "bytes": 1, "sha256": "0" * 64, "evidence": "cwd-window"}
    link = {"other": f"codex:{native}", "as": "native", "evidence": "cwd-window"}
    events = [
        fact("transcript.bound", "b", session="t:w", **bound),
        fact("data.recorded", "d", session="t:w", name="commits", data=[]),
    ]
    fill(ledger, *events, fact("session.linked", "l", session="t:w", **link))

    for name in ("t:w", f"codex:{native}"):
        lines = run("transcript", name).out.splitlines()
        assert "unknown: its transcript is bound but not imported under this name" in lines
        assert f"bound to {file} (cwd-window), not imported; import it with:" in lines
        assert f"rightful import codex '{file}'" in lines
        assert "No entry is recorded for this session." not in lines
    assert run("import", "codex", str(file)).code == 0
    assert "    Fix the path bug" in run("transcript", "t:w").out.splitlines()


def test_what_is_piped_is_not_folded(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "word " * 200 + "x" * 400, turn="t" * 200))
    lines = run("transcript", "t:a", "--full").out.splitlines()

    assert lines[-1] == "    " + "word " * 200 + "x" * 400
    assert f"turn {'t' * 200}" in lines
