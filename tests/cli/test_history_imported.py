"""What the history of an imported session says beside its items: marks, summaries, and whose continuation it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.cli.test_history import T, item
from tests.cli.test_transcript import fill
from tests.log.facts import fact

from rightful.log.refine import PLACEHOLDERS

OWN, BEFORE, ANEW = "codex:own", "codex:before", "openai-agents:anew"
SAMPLES = Path(__file__).parents[1] / "samples"
THERE = f"forked from {BEFORE}: what was said before is recorded there"


def said(kind: str, key: str, **fields: Any) -> dict[str, Any]:
    return fact(kind, key, **{"session": OWN} | fields)


def heads(run: Run, *words: str) -> list[str]:
    return [line for line in run("history", OWN, *words).out.splitlines() if line.startswith("#")]


def test_continued_session_is_named_above_its_history(run: Run, ledger: Path) -> None:
    fill(
        ledger,
        said("session.started", "1", extra={"forked_from": BEFORE, "resumes": 7}),
        said("session.started", "2", extra={"forked_from": BEFORE}),
        said("message.recorded", "3", role="user", content="go on"),
        fact("history.forked", "4", session=ANEW, of=OWN, through=3),
    )
    continues = [{"session": OWN, "how": "forked_from", "of": BEFORE}]

    for words in ([], ["--full"], ["--diff"]):
        assert run("history", OWN, *words).out.splitlines()[1] == THERE, words
        assert run("history", OWN, *words, "--json").document["continues"] == continues, words
    assert THERE in run("transcript", OWN).out.splitlines()
    assert f"{OWN}: {THERE}" in run("history", ANEW).out.splitlines()
    assert run("history", ANEW, "--json").document["continues"] == continues
    assert "continues" not in run("history", OWN, "--at", "0", "--json").document


def test_imported_fork_and_resume_name_the_earlier_session(run: Run, ledger: Path) -> None:
    run("import", "codex", SAMPLES / "codex")
    run("import", "claude-code", SAMPLES / "claude")

    for name, how in (
        ("codex:019fbd3f", "forked from codex:019fbcd1"),
        ("claude-code:203a971d", "resumes claude-code:7f"),
    ):
        assert run("history", name).out.splitlines()[1].startswith(how)


def test_claude_code_summary_replaces_the_compacted_items(run: Run, ledger: Path) -> None:
    run("import", "claude-code", SAMPLES / "claude")
    document = run("history", "claude-code:7fbe", "--diff", "--json").document
    [one] = document["compactions"]

    assert len(one["covered"]) == 9
    assert [entry["item"]["content"][:44] for entry in one["put"]] == ["This session is being continued from a previ"]
    assert (one["put"][0]["summary"], one["put"][0]["stands_for"]) == (True, 9)
    out = run("history", "claude-code:7fbe").out
    assert "  user  [replaces 9 items]\n    This session is being continued" in out
    diff = run("history", "claude-code:7fbe", "--diff").out
    assert "replaced by 1 item, " in diff
    assert "  user: This session is being continued" in diff.partition("  + ")[2]


def test_message_is_the_summary_only_of_an_empty_compaction(run: Run, ledger: Path) -> None:
    fill(
        ledger,
        said("message.recorded", "1", role="user", content="one", extra={"summary": True}),
        said("history.compacted", "2", covers=[item("1")], items=["in short"]),
        said("message.recorded", "3", role="user", content="two", extra={"summary": True}),
        said("history.compacted", "4", covers=[item("3")]),
        said("message.recorded", "5", role="user", content="three"),
        said("message.recorded", "6", role="user", content="four", extra={"summary": True}),
        said("message.recorded", "7", role="user", content="five", extra={"summary": True}),
    )
    assert heads(run, "--full") == [
        f"#1.0  {T}  user  [compacted by #2]",
        f"#2.0  {T}  item  [replaces 1 item, shown]",
        f"#3.0  {T}  user  [compacted by #4]",
        f"#5.0  {T}  user  [shown]",
        f"#6.0  {T}  user  [replaces 1 item, shown]",
        f"#7.0  {T}  user  [shown]",
    ]


def test_marks_of_a_transcript_stand_in_its_history(run: Run, ledger: Path) -> None:
    hashed = {"extra": {"args_hash": "sha256:aa"}}, {"extra": {"result_hash": "sha256:bb"}}
    fill(
        ledger,
        said("thought.recorded", "1", extra={"encrypted_content": "gAAA"}),
        said("tool_call.snapshotted", "2", call="a", name="bash", arguments={}),
        said("tool_result.snapshotted", "3", call="a", output="1", complete=False),
        said("tool_result.snapshotted", "3", call="a", output="1 failed", is_error=True),
        said("tool_call.snapshotted", "5", call="b", name="save", **hashed[0]),
        said("tool_result.snapshotted", "6", call="b", **hashed[1]),
        said("tool_call.snapshotted", "7", call="c", name="ask", arguments={}),
        said("tool_result.snapshotted", "8", call="c", output=PLACEHOLDERS[0], is_error=True),
    )
    assert [line for line in run("history", OWN).out.splitlines() if line[:1] in {"#", " "}] == [
        f"#1.0  {T}  thought  [encrypted]",
        f"#2.0  {T}  tool bash (call a)",
        "    {}",
        f"#3.0  {T}  result of call a  [failed]",
        "    1 failed",
        f"#5.0  {T}  tool save (call b)  [of its arguments only a hash is known]",
        f"#6.0  {T}  result of call b  [only its hash is known]",
        f"#7.0  {T}  tool ask (call c)",
        "    {}",
        f"#8.0  {T}  result of call c  [failed, stands in for a result that never came]",
        f"    {PLACEHOLDERS[0]}",
    ]
    items = run("history", OWN, "--json").document["items"]
    assert [one["position"] for one in items if one.get("is_error")] == [3, 8]
    assert items[0]["extra"] == {"encrypted_content": "gAAA"}
    assert (items[3]["item"]["arguments"], items[4]["item"]["output"]) == ("", "")
