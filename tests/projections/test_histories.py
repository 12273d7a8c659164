"""The fold of a history over rows as anybody may have written them: importers, older and newer programs, erasures."""

from __future__ import annotations

from typing import Any

import pytest
from tests.histories.actors import S, call, histories, output, texts, user, wire, word
from tests.log.memory import MemoryRecorder

from rightful.encoding import envelope
from rightful.errors import UpgradeError
from rightful.histories import history_rows
from rightful.histories.service import Histories
from rightful.identity import event_id

CALL, RESULT = "tool_call.snapshotted", "tool_result.snapshotted"


def item(key: str, place: int = 0) -> tuple[str, int]:
    return event_id("p", key), place


def told(*events: dict[str, Any]) -> Histories:
    kept = histories()
    for event in events:
        kept.log.append([event])
        kept.history(S)  # each row is folded into what was kept
    anew = Histories(kept.log, ledger_id="here")
    assert anew.history(S).ids == kept.history(S).ids
    assert anew.history(S).left_out == kept.history(S).left_out
    return kept


def appended(key: str, *items: Any, **said: Any) -> dict[str, Any]:
    return wire("history.appended", key, items=list(items), **said)


def compacted(key: str, covers: list[Any], *items: Any, **said: Any) -> dict[str, Any]:
    return wire("history.compacted", key, covers=covers, items=list(items), **said)


def withdrawn(key: str, of: str, revision: int = 1) -> dict[str, Any]:
    return wire("event.withdrawn", key, id=event_id("p", of), revision=revision)


LETTERS = [appended("1", "a", "b"), appended("2", "c", "d")]


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (None, None, ["sum"]),
        (None, item("2"), ["sum", "d"]),
        (item("1", 1), None, ["a", "sum"]),
        (item("1", 1), item("2", 0), ["a", "sum", "d"]),
        (item("2"), item("1"), ["a", "b", "c", "d"]),
    ],
)
def test_a_range_is_what_stands_between_its_ends_which_may_be_open(first: Any, last: Any, shown: list[Any]) -> None:
    kept = told(*LETTERS, compacted("c", [{"first": first, "last": last}], "sum"))

    assert texts(kept) == shown


def test_a_compaction_shows_nothing_once_nothing_that_it_covers_is_visible() -> None:
    kept = told(
        *LETTERS, wire("history.cleared", "x"), appended("3", "e"), compacted("c", [item("1"), item("2")], "sum")
    )

    assert texts(kept) == ["e"]
    [one] = kept.full(S).compactions
    assert (one.inert, one.covered, one.put) == (True, [], [item("c")])
    fates = {word(entry.item): (entry.fate, entry.by) for entry in kept.full(S).entries}
    assert fates == {**dict.fromkeys("abcd", ("cleared", 3)), "e": ("shown", None), "sum": ("inert", 5)}


def test_its_items_stand_where_the_first_one_stood_that_was_still_there() -> None:
    kept = told(*LETTERS, wire("history.popped", "x", items=[item("1")]), compacted("c", [item("1"), item("2")], "sum"))

    assert texts(kept) == ["b", "sum", "d"]


def test_what_was_named_before_it_was_told_gives_way_when_it_comes() -> None:
    kept = told(compacted("c", [item("1", 0), item("2", 1)], "sum"), wire("history.popped", "p", items=[item("3")]),
                *LETTERS, appended("3", "e"), appended("4", "f"))  # fmt: skip

    assert texts(kept) == ["sum", "b", "c", "f"]
    [one] = kept.full(S).compactions
    assert (one.covered, one.inert) == ([item("1", 0), item("2", 1)], False)
    fates = {word(entry.item): entry.fate for entry in kept.full(S).entries}
    assert fates == {"sum": "shown", "a": "compacted", "b": "shown", "c": "shown", "d": "compacted", "e": "popped",
                     "f": "shown"}  # fmt: skip


def test_range_with_later_ends_covers_the_items_between_them() -> None:
    kept = told(compacted("c", [{"first": item("1", 1), "last": item("2")}], "sum"), *LETTERS)

    assert texts(kept) == ["a", "sum", "d"]


def test_summary_cleared_before_its_cover_was_recorded_is_not_shown() -> None:
    kept = told(compacted("c", [item("1"), item("1", 1)], "sum"), wire("history.cleared", "x"), *LETTERS)

    assert texts(kept) == ["c", "d"]


def test_output_of_a_removed_call_is_hidden_until_the_call_is_back() -> None:
    cut = [appended("1", call("1"), output("1"), "a"), wire("history.popped", "x", items=[item("1")])]
    kept = told(*cut)

    assert texts(kept) == ["a"]
    assert kept.history(S).left_out == [item("1", 1)]
    assert texts(kept, limit=5) == ["a"]
    assert [entry.fate for entry in kept.full(S).entries] == ["popped", "left out", "shown"]
    assert texts(told(*cut, withdrawn("w", "x"))) == ["call 1", "out 1", "a"]


def test_an_output_whose_call_was_never_here_is_shown() -> None:
    assert texts(told(appended("1", output("1"), "a"))) == ["out 1", "a"]


@pytest.mark.parametrize(
    ("event", "with_it"),
    [
        (wire("history.popped", "x", items=[item("2", 1)]), ["a", "b", "c"]),
        (wire("history.cleared", "x"), []),
        (compacted("x", [item("1")], "sum"), ["sum", "b", "c", "d"]),
        (appended("x", "e"), ["a", "b", "c", "d", "e"]),
    ],
)
def test_what_was_withdrawn_never_happened(event: dict[str, Any], with_it: list[Any]) -> None:
    kept = told(*LETTERS, event)
    assert texts(kept) == with_it

    kept.log.append([withdrawn("w", "x")])

    assert texts(kept) == ["a", "b", "c", "d"]
    assert [
        word(entry.item) for entry in kept.full(S, at=3).entries if entry.fate == "shown" and not entry.summary
    ] == [one for one in with_it if one != "sum"]


def test_a_range_still_ends_where_an_item_was_that_is_withdrawn_or_erased() -> None:
    covers = [{"first": None, "last": item("2", 1)}]
    kept = told(*LETTERS, compacted("c", covers, "sum"), appended("3", "e"), withdrawn("w", "2"))
    assert texts(kept) == ["sum", "e"]

    recorder = MemoryRecorder()
    erased = histories(recorder)
    erased.log.append([*LETTERS, compacted("c", covers, "sum"), appended("3", "e")])
    recorder.erase(2)
    assert texts(erased) == ["sum", "e"]
    assert erased.full(S).ignored == [(2, "its items were erased")]
    assert [word(entry.item) for entry in erased.full(S).entries] == ["a", "b", "sum", "e"]


def test_a_compaction_of_what_was_withdrawn_shows_nothing() -> None:
    kept = told(*LETTERS, compacted("c", [item("1"), item("1", 1)], "sum"), withdrawn("w", "1"))

    assert texts(kept) == ["c", "d"]


def test_what_an_erased_event_took_out_is_not_known_but_a_clear_is_a_clear() -> None:
    recorder = MemoryRecorder()
    kept = histories(recorder)
    kept.log.append([*LETTERS, wire("history.popped", "x", items=[item("1")]), compacted("c", [item("2")], "sum")])
    recorder.erase(3)
    recorder.erase(4)

    assert texts(kept) == ["a", "b", "c", "d"]
    assert kept.full(S).ignored == [
        (3, "the list of items that it removes was erased"),
        (4, "what it covers was erased"),
    ]
    kept.log.append([wire("history.cleared", "y")])
    recorder.erase(5)
    assert texts(kept) == []


def test_what_is_in_quarantine_is_not_shown_until_a_withdrawal_settles_it() -> None:
    kept = told(appended("1", "a"), appended("1", "other"), appended("2", "b"))
    assert texts(kept) == ["a", "b"]

    kept.log.append([withdrawn("w", "1", revision=1)])

    assert sorted(texts(kept)) == ["b", "other"]


def test_rows_of_a_newer_version_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = told(appended("1", "a"))
    monkeypatch.setitem(envelope.SCHEMAS, "history.popped", 2)
    kept.log.append([wire("history.popped", "x", items=[item("1")])])
    monkeypatch.undo()

    for _ in range(2):
        with pytest.raises(UpgradeError, match=r"position 2 is 'history\.popped' version 2"):
            kept.history(S)


def test_row_of_a_newer_type_stops_it_as_it_may_be_of_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = told(appended("1", "a"), wire("session.started", "s"))
    monkeypatch.setattr(history_rows, "TYPES", {"history.appended": object})

    with pytest.raises(UpgradeError, match=r"position 2 is 'session\.started' version 1"):
        Histories(kept.log).history(S)


@pytest.mark.parametrize("through", [1, 2, 9])
def test_misplaced_fork_is_ignored_with_its_reason(through: int) -> None:
    first = [appended("1", "a")] if through == 1 else [wire("session.started", "s")]
    kept = told(*first, wire("history.forked", "f", of="t:b", through=through), appended("2", "b"))

    assert texts(kept) == (["a", "b"] if through == 1 else ["b"])
    assert kept.full(S).ignored == [(2, "a history can only start from one that came before it")]


def test_forks_of_forks_of_one_another_end() -> None:
    kept = histories()
    for n in range(3):
        kept.log.append([appended(f"{n}", f"{n}") | {"session": "t:0"}])
    for n in range(1, 150):
        kept.log.append([wire("history.forked", f"f{n}", f"t:{n}", of=f"t:{n - 1}", through=kept.log.head())])

    assert texts(kept, "t:149") == ["0", "1", "2"]


def test_a_compaction_is_owed_until_one_is_done_or_all_is_cleared() -> None:
    owes = wire("compaction.deferred", "d", response_id="r1")
    for settles in (compacted("c", [], "sum"), wire("history.cleared", "x"), withdrawn("w", "d")):
        kept = told(appended("1", "a"), owes)
        assert kept.history(S).owed == "r1"
        kept.log.append([settles])
        assert kept.history(S).owed is None
    assert told(wire("compaction.deferred", "d")).history(S).owed == ""


def test_a_transcript_is_a_history_where_nobody_appended_one() -> None:
    kept = told(
        wire("message.recorded", "1", role="user", content="hello"),
        wire("thought.recorded", "2", content="hm"),
        wire(CALL, "3", call="c", name="ls", arguments={"path": "."}),
        wire(RESULT, "4", call="c", output="fi"),
        wire(RESULT, "4", call="c", output="file"),
        wire("message.recorded", "5", role="system", content="only for people", extra={"ui_only": True}),
        wire("usage.recorded", "6", counts={"n": 1}),
    )

    assert kept.history(S).items == [
        user("hello"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": '{"path": "."}'},
        {"type": "function_call_output", "call_id": "c", "output": "file"},
    ]
    assert kept.history(S).ids[1] == item("2")
    kept.log.append([compacted("c", [item("1"), item("5")], "sum")])
    assert texts(kept, limit=1) == ["out c"]
    assert texts(kept)[0] == "sum"
    kept.log.append([wire("message.recorded", "1", role="user", content="hello there")])
    assert len(kept.history(S).items) == 4


def test_an_event_that_is_recorded_again_in_another_turn_was_done_once() -> None:
    again = {"turn": "2"}
    kept = told(*LETTERS, wire("history.cleared", "x"), appended("3", "e"), compacted("c", [], "sum"),
                appended("1", "a", "b", **again), wire("history.cleared", "x", **again),
                compacted("c", [], "sum", **again))  # fmt: skip

    assert texts(kept) == ["e", "sum"]
    assert [row.outcome for row in kept.log.read(after=5)] == ["reemitted"] * 3
    assert [one.position for one in kept.full(S).compactions] == [5]


def test_what_was_withdrawn_and_settled_for_another_content_is_stored_once() -> None:
    kept = told(appended("1", "a"), appended("1", "other"), appended("2", "b"), withdrawn("w", "1", revision=1),
                compacted("c", [{"first": None, "last": item("2")}], "sum"))  # fmt: skip

    assert texts(kept) == ["sum"]


def test_transcript_is_the_history_again_after_its_append_is_withdrawn() -> None:
    kept = told(wire("message.recorded", "1", role="user", content="hello"), appended("2", "a"), withdrawn("w", "2"))

    assert texts(kept) == ["hello"]


def test_once_items_are_appended_a_session_holds_those_alone() -> None:
    kept = told(wire("message.recorded", "1", role="user", content="hello"), appended("2", "a"))
    kept.log.append([wire("message.recorded", "3", role="user", content="more")])

    assert texts(kept) == ["a"]
    assert [word(entry.item) for entry in kept.full(S).entries] == ["a"]
    other = histories()
    other.log.append([appended("2", "a"), wire("message.recorded", "3", role="user", content="more")])
    assert texts(other) == ["a"]


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ('Look.\n@ls(c): {"path": "."}', {"path": "."}),
        ("Look.\n```ls\nfiles -l\n```", {"content": "files -l"}),
        ("<tool-use><ls>a &lt; b</ls></tool-use>", {"content": "a < b"}),
    ],
)
def test_a_call_that_stands_in_what_was_said_is_shown_once(said: str, arguments: dict[str, Any]) -> None:
    answered = [wire(CALL, "2", call="c", name="ls", arguments=arguments), wire(RESULT, "3", call="c", output="file")]
    kept = told(wire("message.recorded", "1", role="assistant", content=said), *answered)
    assert kept.history(S).items == [{"role": "assistant", "content": said}, {"role": "system", "content": "file"}]

    kept = told(wire("message.recorded", "1", role="user", content=said), *answered)
    assert texts(kept) == [said, "call c", "out c"]


def test_a_boundary_that_is_recorded_twice_counts_once() -> None:
    once = [*LETTERS, compacted("c", [{"last": item("1", 1)}], "sum", extra={"boundary": "b"})]
    kept = told(*once, compacted("d", [{"last": item("2", 1)}], "sum again", extra={"boundary": "b"}))

    assert texts(kept) == ["sum", "c", "d"]
    assert len(kept.full(S).compactions) == 1
    assert texts(told(*once, compacted("d", [item("2")], "new", extra={"boundary": "other"}))) == ["sum", "new", "d"]
