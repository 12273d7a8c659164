"""What a program appends to a history: items of the Responses API of every type, who spoke, what was used, forks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.log.facts import fact
from tests.transcripts.folding import SESSION, folded, log_of, rows_of

from rightful.identity import event_id
from rightful.projections.transcripts import fold

Wire = dict[str, Any]


def batch(key: str, *items: Any, **more: Any) -> Wire:
    return fact("history.appended", key, items=list(items), **more)


def entries(*events: Wire) -> list[Wire]:
    found: list[Wire] = folded(events).as_dict()["entries"]
    return found


def user(text: str) -> Wire:
    return {"role": "user", "content": text}


CALLS: list[tuple[list[Wire], tuple[Any, ...]]] = [
    (
        [
            {"type": "computer_call", "call_id": "c", "id": "cu", "action": {"type": "click"}, "status": "completed"},
            {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        ],
        ("c", "computer", {"type": "click"}, {"type": "computer_screenshot"}),
    ),
    (
        [{"type": "computer_call", "call_id": "c", "actions": [{"type": "wait"}]}],
        ("c", "computer", [{"type": "wait"}], None),
    ),
    (
        [
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x", "stderr": ""}]},
        ],
        ("c", "shell", {"commands": ["ls"]}, [{"stdout": "x", "stderr": ""}]),
    ),
    (
        [
            {"type": "local_shell_call", "call_id": "c", "id": "l", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "c", "output": "x"},
        ],
        ("c", "local_shell", {"command": ["ls"]}, "x"),
    ),
    (
        [
            {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no such file"},
        ],
        ("c", "apply_patch", {"type": "delete_file", "path": "a"}, "no such file"),
    ),
    (
        [{"type": "file_search_call", "id": "f", "queries": ["q"], "results": [{"text": "hit"}]}],
        ("f", "file_search", ["q"], [{"text": "hit"}]),
    ),
    (
        [{"type": "code_interpreter_call", "id": "i", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]}],
        ("i", "code_interpreter", "1+1", [{"type": "logs", "logs": "2"}]),
    ),
    (
        [{"type": "image_generation_call", "id": "g", "result": "iVBO", "status": "completed"}],
        ("g", "image_generation", None, "iVBO"),
    ),
    (
        [
            {"type": "tool_search_call", "call_id": "c", "arguments": {"query": "q"}},
            {"type": "tool_search_output", "call_id": "c", "tools": [{"name": "t"}]},
        ],
        ("c", "tool_search", {"query": "q"}, [{"name": "t"}]),
    ),
    (
        [{"type": "mcp_call", "id": "m", "name": "get", "arguments": "{}", "error": "refused"}],
        ("m", "get", {}, "refused"),
    ),
]


@pytest.mark.parametrize(("items", "right"), CALLS)
def test_a_call_of_any_kind_of_tool_is_shown_with_its_result(items: list[Wire], right: tuple[Any, ...]) -> None:
    [one] = entries(batch("1", *items))

    assert (one["call"], one["name"], one["arguments"], one.get("output")) == right


def test_an_item_whose_type_is_no_text_is_data() -> None:
    [one] = entries(batch("1", {"type": ["function_call"], "role": "user"}))

    assert (one["kind"], one["name"]) == ("data", "item")


def test_a_call_without_an_id_of_its_own_is_known_by_the_items() -> None:
    [one] = entries(batch("1", {"type": "tool_search_call", "id": "ts", "call_id": None, "arguments": {"a": 1}}))

    assert (one["kind"], one["call"]) == ("tool_call", "ts")


def test_a_thought_that_only_its_provider_can_read_says_so() -> None:
    [one] = entries(batch("1", {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAA"}))

    assert (one["kind"], one["text"], one["extra"]) == ("thought", "", {"encrypted_content": "gAAA"})


def test_item_shows_its_agent_and_response_but_a_user_is_not_an_agent() -> None:
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}
    found = entries(batch("1", user("go"), answer, agent="Triage", response_id="resp_1"), batch("2", answer))

    assert [one.get("agent") for one in found] == [None, "Triage", None]
    assert [one.get("response_id") for one in found] == ["resp_1", "resp_1", None]


def test_what_batches_and_compactions_used_is_summed_each_response_once() -> None:
    used = {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    events = [
        batch("1", user("a"), response_id="resp_1", usage=used),
        batch("2", user("b"), response_id="resp_1", usage=used),
        batch("3", user("c"), response_id="resp_2", usage={"input_tokens": 5}),
        batch("4", user("d"), usage={"input_tokens": 1}),
        fact("history.compacted", "5", items=[], response_id="resp_2", usage={"input_tokens": 100}),
    ]
    transcript = folded(events)

    assert transcript.usage.total == {"input_tokens": 116, "output_tokens": 2}
    usages = [one for one in transcript.as_dict()["entries"] if one["kind"] == "usage"]
    assert [one.get("of") for one in usages] == ["resp_1", "resp_2", None, event_id("hook", "5")]


def test_each_response_of_two_runs_counts_though_all_have_one_id() -> None:
    same = {"response_id": "resp_fake", "usage": {"requests": 1}}
    batches = [batch(f"{run}{at}", user("a"), run=run, ordinal=at, **same) for run in ("r", "q") for at in (0, 1)]

    assert folded(batches).usage.total == {"requests": 2}


def test_a_contradiction_of_a_batch_that_says_what_it_used_is_marked_once() -> None:
    found = entries(batch("1", user("a"), usage={"n": 1}), batch("1", user("b"), usage={"n": 1}))

    assert [(one["kind"], len(one.get("conflicts", []))) for one in found] == [("message", 1), ("usage", 0)]


def test_a_fork_and_a_compaction_that_is_owed_are_told_where_they_happened() -> None:
    forked = fact("history.forked", "f", session="t:b", of=SESSION, through=1)
    owed = fact("compaction.deferred", "d", session="t:b", response_id="resp_1", store=False, reason="an approval")
    log = log_of([batch("1", user("a")), forked, owed, batch("2", user("b"), session="t:b")])
    document = fold("t:b", rows_of(log, "t:b")).as_dict()

    assert [one["kind"] for one in document["entries"]] == ["history_forked", "compaction_deferred", "message"]
    first, second, _ = document["entries"]
    assert (first["of"], first["through"], first["position"]) == (SESSION, 1, 2)
    assert (second["response_id"], second["reason"]) == ("resp_1", "an approval")


def test_session_that_was_only_forked_has_an_uncounted_transcript() -> None:
    transcript = folded([fact("history.forked", "f", of="t:b", through=0)])

    assert (transcript.completeness, transcript.why) == ("unknown", "its history does not count what was said")


def test_a_compaction_of_a_fork_counts_what_it_covers_of_the_other_history() -> None:
    items = [[event_id("hook", key), 0] for key in ("1", "2", "3", "never")]
    log = log_of(
        [
            batch("1", user("a")),
            batch("2", user("b")),
            fact("history.forked", "f", session="t:b", of=SESSION, through=2),
            batch("3", user("c"), session="t:b"),
            fact("history.compacted", "k", session="t:b", covers=items, items=["sum"]),
        ]
    )
    transcript = fold("t:b", rows_of(log, "t:b"), others=lambda name, until: rows_of(log, name)[:until])

    [one] = [one for one in transcript.entries if one.kind == "history_compacted"]
    assert (one.covered, one.elsewhere, one.unresolved) == ([[4, 4]], 2, 1)


def test_a_run_goes_on_with_what_was_imported_and_says_nothing_again() -> None:
    """An app that moved its sessions: the import's items, then those of its own runs."""
    imported = [
        batch("1", user("a"), producer="import"),
        fact("usage.recorded", "u", producer="import", counts={"input_tokens": 2}, of="resp_0"),
    ]
    run = batch("2", user("b"), run="r", ordinal=0, response_id="resp_1", usage={"input_tokens": 3})
    read = batch("3", user("c"), producer="other", read={"position": 1})
    bare = batch("4", user("d"), producer="another")
    transcript = folded([*imported, run, read, bare])

    assert [one.text for one in transcript.entries if one.kind == "message"] == ["a", "b", "c"]
    assert transcript.left_out == {"another": 1}
    assert transcript.usage.total == {"input_tokens": 5}


def test_run_is_omitted_if_another_producer_records_the_messages() -> None:
    message = fact("message.recorded", "1", role="user", content="a", producer="tool")
    transcript = folded([message, batch("2", user("a"), run="r", ordinal=0)])

    assert [one.text for one in transcript.entries] == ["a"]
    assert transcript.left_out == {"hook": 1}
