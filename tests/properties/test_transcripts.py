"""The fold of a transcript against the rules said plainly, and against how its events arrive."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.transcripts import model
from tests.transcripts.folding import SESSION, conversation, cut, folded, log_of, rows_of
from tests.transcripts.sequences import Record, called, done, gave, said, shuffled, used, wires

from rightful.events import Event
from rightful.log.refine import grows
from rightful.log.rows import recorded
from rightful.projections.transcripts import fold

Wire = dict[str, Any]

ARGUMENTS: list[Any] = [None, {}, {"c": "l"}, {"c": "ls"}, {"c": "cat"}]
OUTPUTS: list[Any] = [None, "", "x", "xy", "z"]
WAITS = "DEFERRED_NOT_EXECUTED: later"

keys = st.sampled_from([str(n) for n in range(8)])
common = st.fixed_dictionaries(
    {
        "key": keys,
        "producer": st.sampled_from(["p"] * 3 + ["q"]),
        "turn": st.sampled_from([None, "1", "1", "2", "3"]),
        "index": st.sampled_from([None, None, 0, 1, 2, 3]),
    }
)


def of_type(name: str, fields: st.SearchStrategy[Wire]) -> st.SearchStrategy[Wire]:
    fixed = {"type": name, "session": SESSION, "at": "2026-08-01T10:15:00Z"}
    return st.tuples(common, fields).map(lambda both: fixed | both[0] | {"key": f"{name} {both[0]['key']}"} | both[1])


calls = of_type(
    "tool_call.snapshotted",
    st.fixed_dictionaries(
        {
            "call": st.sampled_from("aabbc"),
            "name": st.sampled_from(["bash", "bash", "read", None]),
            "arguments": st.sampled_from(ARGUMENTS),
        }
    ),
)
results = of_type(
    "tool_result.snapshotted",
    st.fixed_dictionaries({"call": st.sampled_from("aab"), "output": st.sampled_from(OUTPUTS)})
    | st.fixed_dictionaries(
        {"call": st.sampled_from("aab"), "output": st.sampled_from([WAITS, WAITS, "", "x"]), "is_error": st.just(True)}
    ),
)
messages = of_type(
    "message.recorded",
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": st.sampled_from(["a", "ab", "c"])}
    ),
)
ends = of_type(
    "turn.ended",
    st.fixed_dictionaries(
        {"turn": st.sampled_from(["1", "2"]), "stop_reason": st.sampled_from([None, "paused", "end"])}
    ),
)
payloads = st.fixed_dictionaries({"toolCallId": st.sampled_from("aabc")}, optional={"approved": st.booleans()})
interactions = st.sampled_from(["interaction.requested", "interaction.answered"]).flatmap(
    lambda name: of_type(name, st.fixed_dictionaries({"interaction": st.sampled_from("gh"), "payload": payloads}))
)
usages = of_type(
    "usage.recorded",
    st.fixed_dictionaries(
        {
            "of": st.sampled_from([None, "r"]),
            "counts": st.dictionaries(st.sampled_from("io"), st.integers(0, 3), max_size=2),
        }
    ),
)
events = st.lists(st.one_of(calls, calls, results, results, messages, ends, interactions, usages), max_size=14)


def shown(entry: Any) -> tuple[Any, ...]:
    """An entry in the form of the model."""
    one = entry.as_dict()
    contradicted, position = len(one.get("conflicts", [])), one["position"]
    match one["kind"]:
        case "tool_call":
            told = (one["call"], one.get("name"), one.get("arguments"), one.get("output"))
            return ("tool_call", *told, one.get("unpaired", False), contradicted, position)
        case "message":
            return ("message", one["role"], one["text"], contradicted, position)
        case "turn_ended":
            return ("turn_ended", one["turn"], one.get("stop_reason"), contradicted, position)
        case "usage":
            return ("usage", one.get("of"), one["counts"], contradicted, position)
        case kind:
            return (kind, one["interaction"], one["payload"], contradicted, position)


def plainly(log: Any) -> list[Wire]:
    """The rows as a reader sees them, each an object."""
    found = []
    for stored in rows_of(log):
        row = recorded(stored, "here")
        assert isinstance(row.event, Event)
        fields = {name: getattr(row.event, name) for name in row.event.__struct_fields__}
        found.append(fields | {"id": row.id, "type": row.type, "position": row.position, "outcome": row.outcome})
    return found


@settings(max_examples=examples(600), deadline=None)
@given(events)
def test_the_fold_says_what_the_rules_say(sent: list[Wire]) -> None:
    log = log_of(sent)

    assert [shown(one) for one in fold(SESSION, rows_of(log)).entries] == model.told(plainly(log))


@settings(max_examples=examples(150), deadline=None)
@given(events, st.randoms(use_true_random=False))
def test_neither_batches_nor_repetition_change_a_transcript(sent: list[Wire], random_: random.Random) -> None:
    once = folded(sent, revisions=True).as_dict()
    stutters = [one for event in sent for one in [event] * random_.randint(1, 3)]
    again = sent[: random_.randint(0, len(sent))]

    assert folded(stutters, sizes=cut(stutters, random_), revisions=True).as_dict() == once
    assert folded([*sent, *again], sizes=cut(sent, random_), revisions=True).as_dict() == once


@settings(max_examples=examples(200), deadline=None)
@given(events)
def test_every_row_is_of_one_entry_and_every_answer_is_shown(sent: list[Wire]) -> None:
    """Said without a word of how calls and results are paired: whatever pairs them, it drops none."""
    log = log_of([event | {"producer": "p"} for event in sent])
    transcript = fold(SESSION, rows_of(log), revisions=True)

    entries = [one.as_dict() for one in transcript.entries]
    told = [row["position"] for one in entries for row in [*one["rows"], *one.get("conflicts", [])]]
    assert sorted(told) == [row.position for row in rows_of(log)]
    outputs = [one["output"] for one in entries if one.get("output") is not None]
    for fact in model.in_order(plainly(log)):
        if fact["type"] == "tool_result.snapshotted" and fact["output"] not in (None, WAITS):
            assert any(grows(output, fact["output"]) for output in outputs)


@settings(max_examples=examples(150), deadline=None)
@given(events)
def test_rows_that_were_read_in_one_go_or_one_by_one_fold_to_the_same(sent: list[Wire]) -> None:
    rows = rows_of(log_of(sent))

    assert fold(SESSION, iter(rows)).as_dict() == fold(SESSION, rows).as_dict()


GROWING = ["", "l", "ls -", "ls -la"]


@st.composite
def turns(draw: st.DrawFn) -> list[Record]:
    """Turns of a producer that counts: calls and results that grow, messages and usage between, each turn closed."""
    records: list[Record] = []
    for turn in ["turn-1", "turn-2", "turn-3"][: draw(st.integers(1, 3))]:
        open_calls: dict[str, int] = {}
        given_: dict[str, int] = {}
        steps = draw(st.lists(st.sampled_from(["say", "call", "call", "give", "use"]), max_size=8))
        for index, step in enumerate(steps):
            call = f"{turn} {draw(st.sampled_from('ab'))}"
            if step == "call" and call not in given_ and open_calls.get(call) != len(GROWING) - 1:
                open_calls[call] = open_calls.get(call, -1) + 1
                arguments = {"command": GROWING[open_calls[call]]} if open_calls[call] else {}
                records.append(called(index, call, "bash", arguments, turn))
            elif step == "give" and call in open_calls and given_.get(call) != len(GROWING) - 1:
                given_[call] = given_.get(call, -1) + 1
                records.append(gave(index, call, GROWING[given_[call]], turn))
            elif step == "use":
                records.append(used(index, turn, input=index))
            else:
                records.append(said(index, f"{index}", turn))
        records.append(done(len(steps), turn))
    return records


@settings(max_examples=examples(200), deadline=None)
@given(turns(), st.randoms(use_true_random=False))
@example([called(0, "a", "bash", {}), gave(1, "a", ""), gave(2, "a", "x"), done(3)], random.Random(1))
def test_the_order_of_arrival_within_a_turn_changes_no_word(records: list[Record], random_: random.Random) -> None:
    in_order = wires(records)
    mixed = wires(shuffled(records, random_))
    name = "agenta:s1"

    right = conversation(folded(in_order, name).as_dict())
    assert conversation(folded(mixed, name, cut(mixed, random_)).as_dict()) == right
    assert folded(in_order, name).completeness == "complete"
