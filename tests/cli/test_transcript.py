from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.log.facts import fact
from tests.transcripts.sequences import CASES, Record, wires

import rightful
from rightful.identity import event_id


def fill(ledger: Path, *events: dict[str, Any]) -> None:
    with rightful.open(ledger) as opened:
        assert {one.outcome for one in opened.append(events)} <= {
            "appended",
            "refined",
            "stale",
            "conflict",
            "duplicate",
        }


def said(key: str, content: Any, **more: Any) -> dict[str, Any]:
    return fact("message.recorded", key, role="user", content=content, **more)


def case(number: str) -> list[Record]:
    return next(one.records for one in CASES if one.number == number)


def test_a_transcript_has_time_turn_role_call_and_result(run: Run, ledger: Path) -> None:
    fill(ledger, *wires(case("2.9")))
    done = run("transcript", "agenta:s1")

    assert done.code == 0
    assert done.out.splitlines()[:12] == [
        "transcript of agenta:s1",
        "complete",
        "",
        "turn turn-1",
        "",
        "#1  2026-08-01 10:00:01Z  user",
        "    clean up",
        "",
        "#2  2026-08-01 10:00:01Z  tool bash (call g)  [2 revisions]",
        "    command: rm -r tmp",
        "  result #8",
        "    gone",
    ]
    assert "Z  turn ended (paused)" in done.out
    assert done.out.splitlines().count("turn turn-1") == 1


def test_a_session_is_found_by_its_value(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "hi"))

    assert run("transcript", "a", "--json").document["session"] == "t:a"
    assert run("transcript", "b").code == 2


def test_only_a_name_that_is_not_whole_folds_the_ledger(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "hi"))

    assert run("transcript", "t:a").code == 0
    assert run("status", "--json").document["watermark"] == 0
    assert run("transcript", "a").code == 0
    assert run("status", "--json").document["watermark"] == 1


def test_json_has_the_keys_that_others_rely_on(run: Run, ledger: Path) -> None:
    fill(ledger, *wires(case("2.14")), fact("tool_call.snapshotted", "c", session="agenta:s1", call="c", name="n"))
    document = run("transcript", "s1", "--json").document

    assert [*document][:4] == ["session", "completeness", "holes", "entries"]
    assert document["holes"] == [{"turn": "turn-1", "kind": "missing", "indexes": [[1, 1]], "count": 1}]
    assert document["entries"][0] == {
        "kind": "message",
        "id": event_id("runner", wires(case("2.14"))[0]["key"]),
        "role": "user",
        "text": "go",
        "turn": "turn-1",
        "position": 1,
        "revisions": 1,
        "at": "2026-08-01T10:00:01Z",
        "producer": "runner",
    }
    assert document["entries"][-1] == {
        "kind": "tool_call",
        "id": event_id("hook", "c"),
        "call": "c",
        "name": "n",
        "arguments": None,
        "position": 4,
        "revisions": 1,
        "at": "2026-08-01T10:15:00Z",
        "producer": "hook",
    }


def test_a_hole_is_marked_above_all(run: Run, ledger: Path) -> None:
    fill(ledger, *wires(case("2.14")))

    assert run("transcript", "s1").out.splitlines()[1:3] == ["incomplete", "hole: turn turn-1 lacks index 1"]


def test_of_many_holes_the_first_are_named_and_the_rest_is_counted(run: Run, ledger: Path) -> None:
    fill(ledger, *(said(str(n), "hi", turn=str(n), index=0) for n in range(22)))

    lines = run("transcript", "t:a").out.splitlines()
    assert [line for line in lines if line.startswith("hole: ")][-1] == "hole: turn 19 was not closed"
    assert "and 2 holes more; --full shows all." in lines
    assert "hole: turn 21 was not closed" in run("transcript", "t:a", "--full").out
    assert run("transcript", "t:a", "--as", "agenta-api").err.endswith("turn 4 was not closed; and 17 holes more.\n")


def test_a_transcript_that_must_be_complete_is_refused_with_what_it_lacks(run: Run, ledger: Path) -> None:
    fill(ledger, *wires(case("2.14")))

    for more in ([], ["--json"], ["--as", "agenta-api"]):
        done = run("transcript", "s1", "--require-complete", *more)
        assert (done.code, done.out) == (1, "")
        assert "turn turn-1 lacks index 1" in done.err


def test_a_row_in_quarantine_is_marked_in_words_and_shown_on_demand(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "yes"), said("1", "no at all"))

    plain, everything = run("transcript", "t:a").out, run("transcript", "t:a", "--all").out
    assert "  in quarantine: 1 row is in conflict with this (#2); --all shows what it says" in plain
    assert "no at all" not in plain
    assert "    content: no at all" in everything


def test_revisions_are_shown_where_they_are_asked_for(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "on"), said("1", "one more"), said("2", "only once"))

    assert "from 2 rows" not in run("transcript", "t:a").out
    lines = run("transcript", "t:a", "--revisions").out.splitlines()
    at = lines.index("  from 2 rows:")
    assert lines[at + 1].endswith("hook: appended")
    assert lines[at + 3] == "    content: on"
    assert lines[-1] == "    only once"
    assert [len(one["rows"]) for one in run("transcript", "t:a", "--revisions", "--json").document["entries"]] == [2, 1]


def test_what_is_hidden_is_counted_and_shown_on_demand(run: Run, ledger: Path) -> None:
    data = fact("data.recorded", "2", name="title", data="Fix it")
    usage = fact("usage.recorded", "3", counts={"input": 7})
    fill(ledger, said("1", "context", extra={"hidden": True}), data, usage, said("4", "hi"))

    plain, everything = run("transcript", "t:a").out, run("transcript", "t:a", "--all").out
    assert "context" not in plain
    assert "Fix it" not in plain
    assert "3 entries not shown (1 data, 1 hidden, 1 usage); --all shows them." in plain
    assert "used: input 7" in plain
    assert "    context" in everything
    assert "data (title)\n    Fix it" in everything
    assert "user  [hidden]" in everything


def test_what_the_tool_wrote_itself_and_what_was_withdrawn_is_hidden(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "tool speaking", extra={"meta": True}), said("2", "taken back"))
    with rightful.open(ledger) as opened:
        [_, second] = opened.read()
    fill(ledger, fact("event.withdrawn", "w", id=second.id, revision=1))

    plain, everything = run("transcript", "t:a").out, run("transcript", "t:a", "--all").out
    assert "2 entries not shown (1 meta, 1 withdrawn)" in plain
    assert "tool speaking" not in plain
    assert "user  [hidden, withdrawn]\n    taken back" in everything


def test_ends_of_lines_are_laid_out_and_none_is_left_over(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "a\r\nb\n\n"), said("2", "c"))

    assert run("transcript", "t:a").out.splitlines()[-5:] == [
        "    a",
        "    b",
        "",
        "#2  2026-08-01 10:15:00Z  user",
        "    c",
    ]


def test_wide_letters_count_as_wide(run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    fill(ledger, said("1", "世" * 30))

    assert run("transcript", "t:a").out.splitlines()[-2:] == ["    " + "世" * 18, "    " + "世" * 12]


def test_a_long_text_is_shortened_with_a_note(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "\n".join(f"line {n}" for n in range(30))), said("2", "x" * 5000))

    short, full = run("transcript", "t:a").out, run("transcript", "t:a", "--full").out
    assert "    line 19\n    [80 more characters; --full shows all]" in short
    assert "line 20" not in short
    assert "    [3,000 more characters; --full shows all]" in short
    assert "    line 29\n" in full
    assert "x" * 5000 in full


def test_of_many_entries_the_last_are_shown(run: Run, ledger: Path) -> None:
    fill(ledger, *(said(str(n), f"n{n}.") for n in range(201)))

    out = run("transcript", "t:a").out
    assert "1 earlier entry not shown; --limit 0 shows all." in out
    assert "n0." not in out
    assert "n1." in out
    assert "n0." in run("transcript", "t:a", "--limit", "0").out
    assert "n0." in run("transcript", "t:a", "--full").out
    assert len(run("transcript", "t:a", "--json").document["entries"]) == 201
    assert [one["text"] for one in run("transcript", "t:a", "--json", "--limit", "2").document["entries"]] == [
        "n199.",
        "n200.",
    ]


def test_one_turn_is_shown_where_it_is_asked_for(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", "one", turn="1"), said("2", "two", turn="2"))

    assert [one["text"] for one in run("transcript", "t:a", "--turn", "2", "--json").document["entries"]] == ["two"]
    done = run("transcript", "t:a", "--turn", "3")
    assert done.code == 2
    assert "The turns are: 1, 2." in done.err


@pytest.mark.parametrize("words", [["--limit", "-1"], ["--as", "agenta-api", "--turn", "1"], ["--as", "other"]])
def test_what_makes_no_sense_is_refused(run: Run, ledger: Path, words: list[str]) -> None:
    fill(ledger, said("1", "one", turn="1"))

    assert run("transcript", "t:a", *words).code == 2


def test_the_messages_are_given_as_each_reader_takes_them(run: Run, ledger: Path) -> None:
    fill(ledger, said("1", ""), fact("message.recorded", "2", role="assistant", content="ok", turn="1", index=1))
    text = [{"type": "text", "text": "ok"}]

    done = run("transcript", "t:a", "--as", "agenta-runner")
    assert done.document == [{"role": "user", "content": ""}, {"role": "assistant", "content": "ok"}]
    assert "the transcript is incomplete: turn 1 lacks index 0; turn 1 was not closed." in done.err
    assert run("transcript", "t:a", "--as", "agenta-api").document == [{"role": "assistant", "content": text}]


def test_marks_are_words(run: Run, ledger: Path) -> None:
    fill(
        ledger,
        said("1", "a", turn="1", index=0, at_basis="file"),
        fact("turn.ended", "2", turn="1", index=1),
        fact("tool_call.snapshotted", "3", call="c", name="bash", turn="1", index=2),
        fact("tool_result.snapshotted", "4", call="c", output="INTERRUPTED_BY_USER", is_error=True, turn="1", index=3),
        fact("tool_result.snapshotted", "5", call="d", output="x", is_error=True),
    )
    out = run("transcript", "t:a").out

    assert "#1  before 2026-08-01 10:15:00Z  user" in out
    assert "tool bash (call c)  [late: its turn was closed before]" in out
    assert "  result #4  [failed, stands in for a result that never came, late: its turn was closed before]" in out
    assert "result without a call (call d)" in out
    assert "hole: turn 1 was closed before indexes 2 to 3 came" in out


def test_transcript_names_the_session_of_its_entries(run: Run, ledger: Path) -> None:
    link = {"session": "t:w", "other": "t:a", "as": "native", "evidence": "native-id"}
    sub = {"session": "t:a", "other": "t:sub", "as": "subagent", "evidence": "native-id"}
    fill(ledger, said("1", "hi"), fact("session.linked", "2", **link), fact("session.linked", "3", **sub))
    out = run("transcript", "t:w").out

    assert "Nothing is recorded under this name itself; shown is t:a, by its links." in out
    assert "#1  2026-08-01 10:15:00Z  user" in out
    assert "subagents, each with a transcript of its own: t:sub" in out

    resumed = {"session": "t:w", "other": "t:b", "as": "resume", "evidence": "native-id"}
    fill(ledger, said("4", "again") | {"session": "t:b"}, fact("session.linked", "5", **resumed))
    out = run("transcript", "t:w").out
    assert "shown is t:a, t:b, by its links." in out
    assert all(f"2026-08-01 10:15:00Z  {name}  user" in out for name in ("t:a", "t:b"))


def test_an_ambiguous_run_is_said(run: Run, ledger: Path) -> None:
    link = {"session": "t:w", "as": "native", "evidence": "native-id"}
    fill(
        ledger,
        said("1", "greetings"),
        *(fact("session.linked", other, **link, other=other) for other in ("t:a", "t:b")),
    )
    done = run("transcript", "t:w")

    assert "do not say which run it is" in done.out
    assert "greetings" not in done.out


def test_another_producers_history_that_is_left_out_is_said(run: Run, ledger: Path) -> None:
    items = {"items": [{"role": "user", "content": "hi"}]}
    fill(ledger, said("1", "hi"), fact("history.appended", "2", producer="agents", **items))

    assert "omitted: 1 item of the history that agents wrote" in run("transcript", "t:a").out


def test_arguments_of_several_lines_are_laid_out(run: Run, ledger: Path) -> None:
    given = {"command": "one\n\ttwo", "n": 1.5}
    fill(ledger, fact("tool_call.snapshotted", "1", call="c", name="bash", arguments=given))

    lines = run("transcript", "t:a").out.splitlines()
    at = lines.index("    command:")
    assert lines[at : at + 5] == ["    command:", "      one", "          two", "    n: 1.5", "  no result"]


def test_json_is_one_document_whatever_the_numbers(run: Run, ledger: Path) -> None:
    fill(ledger, fact("data.recorded", "1", name="n", data=[float("nan"), 10**40]))

    out = run("transcript", "t:a", "--json").out
    [entry] = json.loads(out, parse_constant=pytest.fail)["entries"]
    assert entry["data"] == [{"$float": "nan"}, {"$int": str(10**40)}]
