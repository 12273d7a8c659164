"""How a transcript is laid out: nothing in it steers the terminal, stands at the margin, or is too wide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from tests.cli.conftest import Run
from tests.cli.test_transcript import fill, said
from tests.log.facts import fact

from rightful.identity import event_id

NASTY = (
    "a\x1b[31m\x1b]8;;http://x\x07\x9b2J\u202e\u2066\rb\x00\u2028c\n#9  2026-08-01 10:15:00Z  user\n\u200b\x7f\ud800"
)


def everywhere(text: str) -> list[dict[str, Any]]:
    word = text.replace("\ud800", "").replace("\x00", "")
    return [
        said("1", text, turn=None, extra={"summary": True}),
        said("2", [{"type": text, "text": text}, {"type": text}]),
        fact("thought.recorded", "3", content=text),
        fact("thought.recorded", "3", content=f"{text} and more"),
        fact("error.recorded", "4", message=text),
        fact("tool_call.snapshotted", "5", call=word, name=text, arguments={text: text, "b": [text]}),
        fact("tool_result.snapshotted", "6", call=word, output=text),
        fact("tool_result.snapshotted", "6", call=word, output="other"),
        fact("tool_result.snapshotted", "7", call=f"{word}2", output={text: text}),
        fact("interaction.requested", "8", interaction=word, payload=text) | {"kind": word},
        fact("interaction.answered", "9", interaction=word, payload={"a": text}),
        fact("data.recorded", "10", name=word, data=text),
        fact("usage.recorded", "11", counts={text: text}, of=word),
        fact("turn.ended", "12", turn="1", stop_reason=word),
        fact("history.compacted", "13", mode=word, items=[text, {"role": "user", "content": text}, {"a": text}]),
        fact("history.compacted", "15", items=[], extra={"message": text}),
        fact("session.started", "14", harness=text, model=text, cwd=text, extra={"resumes": text, "forked_from": []}),
    ]


@pytest.mark.parametrize("width", [None, "40"])
def test_nothing_of_a_transcript_controls_the_terminal(
    run: Run, ledger: Path, width: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if width:
        monkeypatch.setenv("COLUMNS", width)
    fill(ledger, *everywhere(NASTY))
    out = run("transcript", "t:a", "--all", "--revisions", "--full").out

    assert [char for char in out if not char.isprintable() and char != "\n"] == []
    assert "\\x1b[31m" in out
    assert "\\u202e" in out


@pytest.mark.parametrize("width", [None, "40"])
def test_no_text_of_a_transcript_passes_for_a_heading(
    run: Run, ledger: Path, width: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if width:
        monkeypatch.setenv("COLUMNS", width)
    forged = "#9  2026-08-01 10:15:00Z  user"
    fill(ledger, said("1", f"x\n{forged}\r\n{forged}\n" + "世" * 60 + forged + "y" * 90))
    lines = run("transcript", "t:a", "--full").out.splitlines()

    assert [line for line in lines if line.startswith("#")] == ["#1  2026-08-01 10:15:00Z  user"]
    assert len([line for line in lines if line.startswith(f"    {forged}")]) == 2
    if width:
        assert max(cell_len(line) for line in lines if line.startswith("    ")) <= int(width)


@pytest.mark.parametrize("width", ["20", "40"])
def test_letters_that_take_no_room_and_a_narrow_terminal_are_folded_too(
    run: Run, ledger: Path, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    fill(ledger, said("1", "\u0301" * 300 + "#9 " * 30))
    shown = run("transcript", "t:a")

    assert (shown.code, shown.err) == (0, "")
    assert max(cell_len(line) for line in shown.out.splitlines()) <= int(width)
    assert shown.out.count("\u0301") == 300


def test_a_text_is_folded_at_spaces_where_it_can(run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "34")
    fill(ledger, said("1", "some words that are longer than the room"))

    assert run("transcript", "t:a").out.splitlines()[-2:] == ["    some words that are longer", "    than the room"]


def test_a_text_that_just_fits_is_not_folded(run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    fill(ledger, said("1", "a" * 17 + " " + "b" * 18 + "\n" + "c" * 36 + "\n" + "d" * 37))

    assert run("transcript", "t:a").out.splitlines()[-4:] == [
        f"    {'a' * 17} {'b' * 18}",
        f"    {'c' * 36}",
        f"    {'d' * 36}",
        "    d",
    ]


def test_a_heading_that_does_not_fit_goes_on_indented(run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    turn = "t" * 30 + " #9  2026-08-01 10:15:00Z  user"
    fill(ledger, said("1", "hi", turn=turn, index=1))
    lines = run("transcript", "t:a").out.splitlines()

    assert [line for line in lines if line.startswith("#")] == ["#1  2026-08-01 10:15:00Z  user"]
    at = lines.index(f"turn {'t' * 30} #9  2026-08-01")
    assert lines[at + 1] == "    10:15:00Z  user"
    assert "    2026-08-01 10:15:00Z  user was not closed" in lines
    assert max(map(len, lines)) <= 60


def test_undone_and_compacted_entries_are_listed(run: Run, ledger: Path) -> None:
    first, last = ([event_id("hook", key), 0] for key in ("2", "3"))
    items = [{"role": "user", "content": "Fix\nit"}, {"type": "compaction", "encrypted_content": "x"}, "odd"]
    fill(
        ledger,
        said("1", "keep"),
        said("2", "oops"),
        said("3", "again"),
        fact("history.popped", "4", items=[{"first": first, "last": last}]),
        fact("history.popped", "5", items=[first, last]),
        fact(
            "history.compacted",
            "6",
            covers=[{"first": None, "last": None}],
            items=items,
            extra={"message": "In short."},
        ),
    )
    lines = run("transcript", "t:a").out.splitlines()

    assert [line for line in lines if line.endswith("[undone]")] == [
        "#2  2026-08-01 10:15:00Z  user  [undone]",
        "#3  2026-08-01 10:15:00Z  user  [undone]",
    ]
    assert [line for line in lines if line.startswith("  undoes: ")] == [
        "  undoes: #2 to #3",
        "  undoes: 2 items or ranges not in the history that is recorded here",
    ]
    assert lines[lines.index("  covers: #1") + 1 :] == [
        "    In short.",
        "    user:",
        "      Fix",
        "      it",
        "    compaction [encrypted, 1 character]",
        "    item: odd",
    ]


def test_a_summary_that_is_an_item_is_shown_once(run: Run, ledger: Path) -> None:
    items = [{"type": "message", "role": "user", "content": "In short:\nall is well."}]
    fill(ledger, fact("history.compacted", "1", items=items, extra={"message": "In short:\nall is well."}))

    assert run("transcript", "t:a").out.count("all is well.") == 1


def test_transcript_names_the_continued_session(run: Run, ledger: Path) -> None:
    extra = {"resumes": "t:b", "forked_from": "t:c"}
    fill(ledger, said("1", "hi"), fact("session.started", "2", harness="h", extra=extra, at_basis="file"))
    done = run("transcript", "t:a")

    assert done.out.splitlines()[2:5] == [
        "started before 2026-08-01 10:15:00Z, harness h",
        "resumes t:b: what was said before is recorded there",
        "forked from t:c: what was said before is recorded there",
    ]
    assert run("transcript", "t:a", "--json").document["started"]["extra"] == extra


def test_a_hole_is_marked_at_its_place(run: Run, ledger: Path) -> None:
    hidden = fact("usage.recorded", "3", counts={"n": 1}, turn="1", index=3)
    fill(ledger, said("1", "a", turn="1", index=0), hidden, said("2", "b", turn="1", index=4))
    lines = run("transcript", "t:a").out.splitlines()

    assert lines[lines.index("    a") :] == [
        "    a",
        "",
        "hole here: turn 1 lacks indexes 1 to 2",
        "",
        "#3  2026-08-01 10:15:00Z  user",
        "    b",
        "",
        "hole here: turn 1 was not closed",
        "",
        "1 entry not shown (1 usage); --all shows them.",
        "used: n 1",
    ]


def test_a_fork_an_owed_compaction_and_who_spoke_are_said(run: Run, ledger: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    answer = {"role": "assistant", "content": "yes"}
    fill(
        ledger,
        fact("history.appended", "1", session="t:b", items=["a"]),
        fact("history.forked", "2", of="t:b", through=1),
        fact("history.appended", "3", items=[{"role": "user", "content": "go"}, thought, call, answer], agent="Triage"),
        fact("compaction.deferred", "4", response_id="resp_1", reason="an approval waits"),
        fact("history.compacted", "5", covers=[[event_id("hook", "1"), 0], [event_id("hook", "3"), 0]], items=[answer]),
        fact("compaction.deferred", "6"),
    )
    lines = run("transcript", "t:a").out.splitlines()

    assert [line.split("Z  ", 1)[1] for line in lines if line.startswith("#")] == [
        "history forked from what t:b showed at #1: which is recorded there",
        "user",
        "thought, agent Triage  [encrypted]",
        "tool ls (call c), agent Triage",
        "assistant, agent Triage",
        "compaction owed at response resp_1: an approval waits",
        "history compacted: the entries above are kept here, though the model saw less",
        "compaction owed",
    ]
    assert "  covers: #3.0, and 1 item of the history that it was forked from" in lines
    assert lines[lines.index("  covers: #3.0, and 1 item of the history that it was forked from") + 1] == (
        "    assistant: yes"
    )


def test_batch_items_are_numbered_as_in_the_history(run: Run, ledger: Path) -> None:
    said = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    call = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    fill(
        ledger,
        fact("history.appended", "1", items=[*said, call, output]),
        fact("history.popped", "2", items=[[event_id("hook", "1"), 1], [event_id("hook", "1"), 2]]),
        fact("history.compacted", "3", covers=[[event_id("hook", "1"), 0]], items=["sum"]),
    )
    lines = run("transcript", "t:a").out.splitlines()

    assert [line.split()[0] for line in lines if line.startswith("#")] == ["#1.0", "#1.1", "#1.2", "#1.3", "#2", "#3"]
    assert {"  undoes: #1.1 to #1.2", "  covers: #1.0", "  result #1.4"} <= set(lines)
    by_kind = {one["kind"]: one for one in run("transcript", "t:a", "--json").document["entries"]}
    assert by_kind["history_popped"]["covered"] == [[1, 1]]
    assert by_kind["history_popped"]["covered_places"] == [[1, 2]]
    assert by_kind["tool_call"]["result_item"] == [event_id("hook", "1"), 4]


def test_event_outside_a_batch_is_named_by_its_position(run: Run, ledger: Path) -> None:
    fill(
        ledger,
        fact("message.recorded", "1", role="user", content="go"),
        fact("history.popped", "2", items=[[event_id("hook", "1"), 0]]),
    )
    lines = run("transcript", "t:a").out.splitlines()

    assert [line.split()[0] for line in lines if line.startswith("#")] == ["#1", "#2"]
    assert "  undoes: #1" in lines
    assert all("covered_places" not in one for one in run("transcript", "t:a", "--json").document["entries"])
