"""What a person sees of a history: the view, everything with its fate, each compaction, as of any position."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.test_transcript import fill
from tests.log.facts import fact

import rightful
from rightful.identity import event_id
from rightful.tokens import Token

CHAT, BRANCH, LATE = "openai-agents:chat", "openai-agents:branch", "openai-agents:late"
CALL = {"type": "function_call", "call_id": "call_1", "id": "fc_1", "name": "weather", "arguments": '{"city":"Paris"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "18 C"}
ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "18 degrees."}]}
SUM = {"type": "compaction", "encrypted_content": "gAAA" * 5}
T = "2026-08-01 10:15:00Z"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def batch(key: str, *items: Any, session: str = CHAT, **more: Any) -> dict[str, Any]:
    return fact("history.appended", key, session=session, items=list(items), **more)


WHAT = user("What is the weather?")


def chars(*items: Any) -> int:
    return sum(len(json.dumps(one, separators=(",", ":"))) for one in items)


def item(key: str, place: int = 0) -> list[Any]:
    return [event_id("hook", key), place]


def compacted(key: str, *covers: Any, items: Any = (), session: str = CHAT, **more: Any) -> dict[str, Any]:
    return fact("history.compacted", key, session=session, covers=list(covers), items=list(items), **more)


@pytest.fixture
def filled(ledger: Path) -> Path:
    covers = [item("1"), {"first": item("2"), "last": item("2", 1)}]
    fill(
        ledger,
        batch("1", WHAT, run="r", ordinal=0),
        batch("2", CALL, OUTPUT, run="r", ordinal=1, response_id="resp_1", agent="Triage"),
        batch("3", ANSWER, run="r", ordinal=2, response_id="resp_2", agent="Triage"),
        compacted("4", *covers, items=[SUM], mode="input", response_id="resp_2", run="r", after=3, usage={"tokens": 9}),
        batch("5", user("And Rome?")),
        fact("history.forked", "6", session=BRANCH, of=CHAT, through=4),
        batch("7", user("Another way."), session=BRANCH),
        fact("history.popped", "8", session=CHAT, items=[item("5")]),
        fact("compaction.deferred", "9", session=CHAT, response_id="resp_3", run="r", reason="an approval waits"),
    )
    return ledger


def test_the_view_is_what_the_model_would_see_next(run: Run, filled: Path) -> None:
    done = run("history", "chat")

    assert done.code == 0
    assert done.out.splitlines() == [
        "history of openai-agents:chat through position 9: what the model would see next",
        (
            f"2 items, {chars(SUM, ANSWER)} characters of JSON; "
            f"of 6 items in all, 3 compacted, 1 popped: --full shows all"
        ),
        "a compaction is owed since #9 at response resp_3, by run r: an approval waits",
        "",
        f"#4.0  {T}  compaction  [encrypted, 20 characters, replaces 3 items]",
        "",
        f"#3.0  {T}  assistant, agent Triage",
        "    18 degrees.",
    ]


def test_full_history_shows_each_item_and_what_became_of_it(run: Run, filled: Path) -> None:
    fill(filled, fact("history.cleared", "10", session=CHAT))

    assert run("history", CHAT, "--full").out.splitlines() == [
        "history of openai-agents:chat through position 10: everything that was ever in it",
        "6 items: 2 cleared, 3 compacted, 1 popped",
        "",
        f"#1.0  {T}  user  [compacted by #4]",
        "    What is the weather?",
        "",
        f"#2.0  {T}  tool weather (call call_1), agent Triage  [compacted by #4]",
        "    city: Paris",
        "",
        f"#2.1  {T}  result of call call_1  [compacted by #4]",
        "    18 C",
        "",
        f"#3.0  {T}  assistant, agent Triage  [cleared by #10]",
        "    18 degrees.",
        "",
        f"#4.0  {T}  compaction  [encrypted, 20 characters, replaces 3 items, cleared by #10]",
        "",
        f"#5.0  {T}  user  [popped by #8]",
        "    And Rome?",
    ]


def test_diff_shows_covered_items_and_the_summary(run: Run, filled: Path) -> None:
    fill(filled, compacted("10", item("1"), items=["late"]), compacted("11", items=["note"]))
    covered = chars(WHAT, CALL, OUTPUT)

    assert run("history", CHAT, "--diff").out.splitlines() == [
        ("history of openai-agents:chat through position 11: what each compaction covered (-), and its summary (+)"),
        "3 compactions; what they covered stays in the ledger",
        "",
        f"#4  {T}  compaction, mode input, response resp_2, run r, read at #3, used tokens 9",
        f"  3 items, {covered} characters of JSON replaced by 1 item, {chars(SUM)} characters of JSON",
        "  - #1.0  user: What is the weather?",
        "  - #2.0  tool weather (call call_1): city: Paris",
        "  - #2.1  result of call call_1: 18 C",
        "  + #4.0  compaction  [encrypted, 20 characters]",
        "",
        f"#10  {T}  compaction",
        "  nothing replaced; 1 item, 6 characters of JSON added",
        "  shows nothing: everything that it covers was already gone",
        "  + #10.0  item: late",
        "",
        f"#11  {T}  compaction",
        "  nothing replaced; 1 item, 6 characters of JSON added",
        "  + #11.0  item: note",
    ]


def test_a_history_is_shown_as_it_was_at_a_position(run: Run, filled: Path) -> None:
    out = run("history", CHAT, "--at", "3").out.splitlines()
    assert out[0] == "history of openai-agents:chat through position 3: what the model would have seen next"
    assert out[1] == f"4 items, {chars(WHAT, CALL, OUTPUT, ANSWER)} characters of JSON"
    assert [line for line in out if line.startswith("#")] == [
        f"#1.0  {T}  user",
        f"#2.0  {T}  tool weather (call call_1), agent Triage",
        f"#2.1  {T}  result of call call_1",
        f"#3.0  {T}  assistant, agent Triage",
    ]
    assert "[shown]" in run("history", CHAT, "--full", "--at", "3").out
    assert run("history", CHAT, "--diff", "--at", "3").out.splitlines()[1:] == ["no compaction"]
    assert run("history", CHAT, "--at", "0").out.splitlines()[1:] == ["nothing was in it"]


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("10", "--at 10 is after the end of this ledger, position 9; nothing was shown."),
        ("-1", "--at expects a position or a time, got '-1'; nothing was shown. Write a position as 12, a"),
        ("Tuesday", "--at expects a position or a time, got 'Tuesday'; nothing was shown."),
        ("2026-08-01T10:15:00", "2026-08-01T10:15:00 has no UTC offset. Write it as 2026-08-01T10:15:00Z"),
        ("9" * 5000, "is after the end of this ledger, position 9; nothing was shown."),
    ],
)
def test_invalid_position_or_time_is_refused(run: Run, filled: Path, at: str, why: str) -> None:
    done = run("history", CHAT, f"--at={at}")

    assert (done.code, done.out) == (2, "")
    assert why in done.err


def test_withdrawn_fork_is_ignored_and_a_later_one_counts(run: Run, filled: Path) -> None:
    def withdrawn(key: str, of: str) -> dict[str, Any]:
        return fact("event.withdrawn", key, session=LATE, id=event_id("hook", of), revision=1)

    fill(filled, batch("20", user("slip"), session=LATE), withdrawn("21", "20"),
         fact("history.forked", "22", session=LATE, of=CHAT, through=1))  # fmt: skip
    lines = run("history", LATE).out.splitlines()
    assert lines[1] == f"forked at #12 from what {CHAT} showed at #1"
    assert lines[-2:] == [f"#1.0  {T}  user of {CHAT}", "    What is the weather?"]

    fill(filled, withdrawn("23", "22"))
    assert "forked" not in run("history", LATE).out
    assert json.loads(run("history", LATE, "--json").out).get("begun_with") is None


def test_the_compaction_that_is_owed_is_one_that_was_not_withdrawn(run: Run, filled: Path) -> None:
    gone = fact("event.withdrawn", "21", session=CHAT, id=event_id("hook", "20"), revision=1)
    fill(filled, fact("compaction.deferred", "20", session=CHAT, response_id="resp_9"), gone)

    assert json.loads(run("history", CHAT, "--json").out)["owed"]["response_id"] == "resp_3"


def test_fork_names_its_source_and_the_session_of_each_item(run: Run, filled: Path) -> None:
    lines = run("history", BRANCH).out.splitlines()

    assert lines[1] == "forked at #6 from what openai-agents:chat showed at #4"
    assert [line for line in lines if line.startswith("#")] == [
        f"#4.0  {T}  compaction of openai-agents:chat  [encrypted, 20 characters, replaces 3 items]",
        f"#3.0  {T}  assistant, agent Triage of openai-agents:chat",
        f"#7.0  {T}  user",
    ]
    document = run("history", BRANCH, "--json").document
    assert document["begun_with"] == [{"session": CHAT, "through": 4, "position": 6}]
    assert [one.get("of") for one in document["items"]] == [CHAT, CHAT, None]
    assert document["owed"] is None


def test_compaction_stays_pending_until_the_session_completes_it(run: Run, filled: Path) -> None:
    fill(filled, fact("history.forked", "10", session=LATE, of=CHAT, through=9))

    assert run("history", LATE, "--json").document["owed"] is None
    fill(filled, fact("compaction.deferred", "11", session=LATE, run="q"))
    assert "a compaction is owed since #11, by run q" in run("history", LATE).out.splitlines()
    fill(filled, compacted("12", items=["sum"], session=LATE))
    assert run("history", LATE, "--json").document["owed"] is None
    assert run("history", LATE, "--at", "11", "--json").document["owed"]["position"] == 11
    fill(filled, fact("history.cleared", "13", session=CHAT))
    assert run("history", CHAT, "--json").document["owed"] is None


def test_an_output_whose_call_is_gone_is_left_out_and_named(run: Run, ledger: Path) -> None:
    fill(ledger, batch("1", CALL), batch("2", OUTPUT), compacted("3", item("1"), items=["sum"]))

    lines = run("history", CHAT).out.splitlines()
    assert lines[2] == "left out, since a provider refuses it: 1 output whose call is gone (#2.0)"
    assert run("history", CHAT, "--json").document["left_out"] == [item("2")]
    assert f"#2.0  {T}  result of call call_1  [left out: its call is gone]" in run("history", CHAT, "--full").out


def test_the_json_of_the_view_has_the_keys_that_others_rely_on(run: Run, filled: Path) -> None:
    document = run("history", CHAT, "--json").document

    assert [*document] == ["session", "position", "token", "items", "left_out", "owed"]
    assert (document["session"], document["position"], document["left_out"]) == (CHAT, 9, [])
    assert document["owed"] == {"position": 9, "response_id": "resp_3", "run": "r", "reason": "an approval waits"}
    assert document["items"] == [
        {
            "id": item("4"), "position": 4, "item": SUM, "at": "2026-08-01T10:15:00Z", "producer": "hook",
            "run": "r", "response_id": "resp_2", "summary": True, "stands_for": 3,
        },
        {
            "id": item("3"), "position": 3, "item": ANSWER, "at": "2026-08-01T10:15:00Z", "producer": "hook",
            "agent": "Triage", "run": "r", "ordinal": 2, "response_id": "resp_2",
        },
    ]  # fmt: skip


def test_the_token_of_the_json_compacts_what_was_shown(run: Run, filled: Path) -> None:
    token = Token.of(run("history", CHAT, "--json", "--limit", "1").document["token"])
    with rightful.open(filled) as opened:
        opened.compact(token, ["in short"])
        assert opened.history(CHAT).items == [SUM, "in short"]


def test_the_json_of_the_whole_has_each_items_fate(run: Run, filled: Path) -> None:
    document = run("history", CHAT, "--full", "--json").document

    assert [*document] == ["session", "position", "entries", "ignored", "owed"]
    assert [(one["id"], one["fate"], one.get("by")) for one in document["entries"]] == [
        (item("1"), "compacted", 4),
        (item("2", 0), "compacted", 4),
        (item("2", 1), "compacted", 4),
        (item("3"), "shown", None),
        (item("4"), "shown", None),
        (item("5"), "popped", 8),
    ]
    assert [one["item"] for one in document["entries"]][:3] == [WHAT, CALL, OUTPUT]


def test_the_json_of_the_compactions_has_what_gave_way_and_how_long_it_is(run: Run, filled: Path) -> None:
    [one] = run("history", CHAT, "--diff", "--json").document["compactions"]

    assert [entry["id"] for entry in one.pop("covered")] == [item("1"), item("2", 0), item("2", 1)]
    assert [entry["item"] for entry in one.pop("put")] == [SUM]
    assert one == {
        "position": 4, "mode": "input", "response_id": "resp_2", "run": "r", "at": "2026-08-01T10:15:00Z",
        "producer": "hook", "usage": {"tokens": 9}, "after": 3, "inert": False,
        "covered_chars": chars(WHAT, CALL, OUTPUT), "put_chars": chars(SUM),
    }  # fmt: skip


def test_the_limit_keeps_the_last_and_says_how_many_there_are_before(run: Run, ledger: Path) -> None:
    fill(ledger, *(batch(str(number), user(f"item {number}")) for number in range(205)))
    fill(ledger, *(compacted(f"k{number}", items=[f"note {number}"]) for number in range(22)))

    for words, first, hidden in (
        ([], "#28.0", "27 earlier items not shown; --limit 0 shows all."),
        (["--limit", "2"], "#226.0", "225 earlier items not shown; --limit 0 shows all."),
        (["--limit", "0"], "#1.0", None),
        (["--all"], "#1.0", None),
        (["--full", "--limit", "1"], "#227.0", "226 earlier items not shown; --limit 0 shows all."),
        (["--diff"], "#208", "2 earlier compactions not shown; --limit 0 shows all."),
    ):
        lines = run("history", CHAT, *words).out.splitlines()
        assert next(line for line in lines if line.startswith("#")).split()[0] == first, words
        assert next((line for line in lines if line.endswith("--limit 0 shows all.")), None) == hidden
    assert len(run("history", CHAT, "--json").document["items"]) == 227
    assert len(run("history", CHAT, "--json", "--limit", "3").document["items"]) == 3
    assert run("history", CHAT, "--limit", "-1").code == 2


def test_the_whole_and_the_compactions_are_two_questions(run: Run, filled: Path) -> None:
    done = run("history", CHAT, "--full", "--diff")

    assert done.code == 2
    assert "not allowed with" in done.err


def test_a_session_that_is_unknown_is_refused_with_where_to_look(run: Run, filled: Path) -> None:
    done = run("history", "nope")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "rightful: no session is named 'nope' in this ledger. `rightful status --sessions` lists them.\n"
    )


def test_a_session_without_a_history_says_that_nothing_was_in_it(run: Run, ledger: Path) -> None:
    fill(ledger, fact("session.started", "s", session=CHAT))

    assert run("history", CHAT).out.splitlines()[1:] == ["nothing was in it"]
    assert run("history", CHAT, "--full").out.splitlines()[1:] == ["nothing was in it"]
    document = run("history", CHAT, "--json").document
    assert (document["items"], document["position"]) == ([], 1)


def linked(key: str, other: str, **more: Any) -> dict[str, Any]:
    return fact("session.linked", key, session="run:1", other=other, evidence="manual", **more) | {"as": "native"}


def test_a_session_whose_own_history_is_empty_is_shown_by_its_links(run: Run, filled: Path) -> None:
    fill(filled, linked("l", CHAT))

    lines = run("history", "run:1").out.splitlines()
    assert lines[0].startswith("history of openai-agents:chat through position 10: ")
    assert lines[1] == "Nothing is in the history of run:1 itself; this is of openai-agents:chat, by its links."
    assert run("history", "run:1", "--json").document["asked"] == "run:1"


def test_several_linked_histories_are_named_but_not_shown(run: Run, filled: Path) -> None:
    more = fact("session.linked", "m", session="run:1", other=BRANCH, evidence="manual") | {"as": "resume"}
    fill(filled, linked("l", CHAT), more)

    names = ["openai-agents:branch", "openai-agents:chat"]
    assert f"Its links join it to several that have one: {', '.join(names)}." in run("history", "run:1").out
    assert run("history", "run:1", "--json").document["joined"] == names


def test_the_history_of_an_imported_session_is_what_was_said(run: Run, ledger: Path) -> None:
    def said(kind: str, key: str, **fields: Any) -> dict[str, Any]:
        return fact(kind, key, session="claude-code:7fbe", **fields)

    fill(
        ledger,
        said("message.recorded", "1", role="user", content="list"),
        said("tool_call.snapshotted", "2", call="c", name="bash", arguments={"command": "ls"}),
        said("tool_result.snapshotted", "3", call="c", output="a.txt"),
        said("history.compacted", "4", covers=[item("1")], items=[user("In short: list.")]),
    )

    assert [line for line in run("history", "7fbe").out.splitlines() if line[:1] in {"#", " "}] == [
        f"#4.0  {T}  user  [replaces 1 item]",
        "    In short: list.",
        f"#2.0  {T}  tool bash (call c)",
        "    command: ls",
        f"#3.0  {T}  result of call c",
        "    a.txt",
    ]


def test_what_was_erased_is_said(run: Run, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rightful.log.log import Log

    of_session = Log.of_session

    def erased(*args: Any, **more: Any) -> Any:
        for page in of_session(*args, **more):
            yield [row._replace(payload=None) if row.position == 1 else row for row in page]

    monkeypatch.setattr(Log, "of_session", erased)
    assert "#1 has no effect: its items were erased" in run("history", CHAT, "--full").out.splitlines()
    assert run("history", CHAT, "--full", "--json").document["ignored"] == [
        {"position": 1, "why": "its items were erased"}
    ]
