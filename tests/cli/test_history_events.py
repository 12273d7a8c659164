"""A fork and an owed compaction come in by wire as any event does, and are explained."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_history import BRANCH, CHAT, batch
from tests.log.facts import fact


def test_forks_and_owed_compactions_are_ingested_explained_and_shown(run: Run, ledger: Path, here: Path) -> None:
    lines = [
        batch("1", {"role": "user", "content": "a"}),
        fact("history.forked", "2", session=BRANCH, of=CHAT, through=1),
        fact("compaction.deferred", "3", session=BRANCH, response_id="resp_1", store=False, run="r", reason="why"),
        fact("history.forked", "4", session="openai-agents:bad", of=CHAT, through=-1),
    ]
    (here / "events.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))

    done = run("ingest", "events.jsonl", "--json")
    assert done.code == 2
    assert [one["outcome"] for one in done.document["receipts"]] == ["appended", "appended", "appended", "invalid"]
    explained = run("explain", "#2").out
    assert explained.startswith("#2: `history.forked` of openai-agents:branch, written by hook (appended).")
    assert '{"of": "openai-agents:chat", "through": 1}' in explained
    assert "`compaction.deferred` of openai-agents:branch" in run("explain", "#3").out
    assert run("explain", BRANCH).code == 0
    document = run("history", BRANCH, "--json").document
    assert [one["item"] for one in document["items"]] == [{"role": "user", "content": "a"}]
    assert document["owed"] == {"position": 3, "response_id": "resp_1", "run": "r", "reason": "why"}


def test_a_mistyped_word_is_answered_with_the_near_one(run: Run, ledger: Path) -> None:
    assert run("histroy", CHAT).err.rstrip().endswith("; did you mean history?")
    assert run("history", CHAT, "--dif").err.rstrip().endswith("; did you mean --diff?")
