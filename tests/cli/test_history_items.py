"""How a history is laid out: any width, any item, and nothing that an item or a name holds steers the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.cli.conftest import Run
from tests.cli.test_history import CALL, CHAT, OUTPUT, T, batch, compacted, item, user
from tests.cli.test_transcript import fill

from rightful.cli.output import item_text

PICTURE = "data:image/png;base64," + "iVBO" * 100

SAID: list[tuple[Any, tuple[str, str, tuple[str, ...]]]] = [
    (user("hi"), ("user", "hi", ())),
    (
        user("x") | {"content": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PICTURE}]},
        ("user", "see\n[input_image: image_url [image/png, 422 characters]]", ()),
    ),
    (
        user("x") | {"content": [{"type": "input_file", "file_id": "file_1", "filename": "a.pdf", "detail": None}]},
        ("user", "[input_file: file_id file_1, filename a.pdf]", ()),
    ),
    (
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}, "odd", 1]},
        ("assistant", "[refusal: refusal No.]\nodd\n1", ()),
    ),
    ({"role": "developer", "content": None}, ("developer", "", ())),
    (CALL, ("tool weather (call call_1)", "city: Paris", ())),
    (OUTPUT, ("result of call call_1", "18 C", ())),
    (
        OUTPUT | {"output": [{"type": "input_text", "text": "a"}, {"type": "input_image", "file_id": "f"}]},
        ("result of call call_1", "a\n[input_image: file_id f]", ()),
    ),
    ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, ("thought", "hm", ())),
    (
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        ("thought", "", ("encrypted, 4 characters",)),
    ),
    (
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": PICTURE},
        },
        ("result of call c", "type: computer_screenshot\nimage_url: [image/png, 422 characters]", ()),
    ),
    (
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x\n", "outcome": {"exit_code": 1}}]},
        ("result of call c", '[part: stdout x\n, outcome {"exit_code": 1}]', ()),
    ),
    (
        {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
        ("tool apply_patch (call c)", "type: delete_file\npath: a", ()),
    ),
    (
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"},
        ("result of call c", "no", ("failed",)),
    ),
    (
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}},
        ("tool web_search (call ws)", "type: search\nquery: q", ()),
    ),
    (
        {"type": "mcp_call", "id": "m", "name": "get", "arguments": '{"a":1}', "output": "line\nline"},
        ("tool get (call m)", "a: 1\nresult of call m:\n  line\n  line", ()),
    ),
    (
        {"type": "mcp_call", "id": "m", "name": "get", "arguments": "", "error": "refused"},
        ("tool get (call m)", "result of call m:\n  refused", ("failed",)),
    ),
    (
        {"type": "image_generation_call", "id": "g", "result": "iVBO" * 100},
        ("tool image_generation (call g)", "result of call g:\n  [encoded, 400 characters]", ()),
    ),
    (
        {"type": "mcp_approval_request", "id": "a", "name": "get", "arguments": "{}", "server_label": "s"},
        ("asked a (mcp_approval_request)", "name: get\narguments: {}\nserver_label: s", ()),
    ),
    (
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": False},
        ("answered a (mcp_approval_response)", "approval_request_id: a\napprove: false", ()),
    ),
    (
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "g" * 1500},
        ("compaction", "", ("encrypted, 1,500 characters",)),
    ),
    ({"type": "item_reference", "id": "msg_1"}, ("item_reference", "id: msg_1", ())),
    ({"type": "mcp_list_tools", "id": "l", "tools": []}, ("mcp_list_tools", "id: l\ntools: []", ())),
    ({"type": "from_the_future", "deep": {"a": [1]}}, ("from_the_future", 'deep: {"a": [1]}', ())),
    ({"type": "compaction_trigger"}, ("compaction_trigger", "", ())),
    (
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "ls"}}]},
        ("tool ls (call c)", "", ()),
    ),
    ("bare", ("item", "bare", ())),
    (None, ("item", "", ())),
    ([], ("item", "[]", ())),
    ({}, ("item", "", ())),
    (12.5, ("item", "12.5", ())),
]


@pytest.mark.parametrize(("said", "right"), SAID)
def test_an_item_of_any_type_says_what_a_person_reads_of_it(said: Any, right: tuple[str, str, tuple[str, ...]]) -> None:
    found = item_text.display_of(said)

    assert (found.who, found.text, found.marks) == right


def test_encoded_text_is_whole_with_full() -> None:
    picture = {"role": "user", "content": [{"type": "input_image", "image_url": PICTURE}]}

    assert item_text.display_of(picture, full=True).text == f"[input_image: image_url {PICTURE}]"
    assert (
        item_text.display_of({"type": "compaction", "encrypted_content": "g"}, full=True).text == "encrypted_content: g"
    )
    assert (
        item_text.display_of(user("a" * 300)).text == "a" * 300
    )  # what somebody said is never taken for something encoded


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = ("type", "role", "content", "call_id", "id", "output", "summary", "arguments", "error", "tool_calls", "name")
TYPES = ("message", "function_call", "shell_call_output", "reasoning", "mcp_approval_request", "compaction", "odd")


@settings(max_examples=examples(300), deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON | st.sampled_from(TYPES), max_size=6), st.booleans())
def test_any_item_can_be_shown(odd: Any, full: bool) -> None:
    found = item_text.display_of(odd, full=full)

    assert found.who
    assert isinstance(found.text, str)


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\r\n#99.0  2026-08-01 10:15:00Z  user\n  - #98.0  forged"


def test_text_cannot_steer_the_terminal_nor_pass_for_a_line_of_ours(run: Run, ledger: Path) -> None:
    odd = {"type": HOSTILE, HOSTILE: HOSTILE}
    call = CALL | {"name": HOSTILE, "call_id": HOSTILE}
    fill(
        ledger,
        batch("1", user(HOSTILE), odd, call, {"role": HOSTILE, "content": HOSTILE}, agent=HOSTILE),
        compacted("2", item("1"), items=[user(HOSTILE)], usage={HOSTILE: HOSTILE}),
        batch("3", {"role": "assistant", "content": "x"}, agent=HOSTILE),
    )
    for words in ([], ["--full"], ["--diff"], ["--all"], ["--full", "--all"], ["--diff", "--all"], ["--json"]):
        out = run("history", CHAT, *words).out
        assert not {char for char in out if char != "\n" and not char.isprintable()}, words
        assert [line for line in out.split("\n") if line.startswith(("#99", "  - #98"))] == [], words
    assert run("history", CHAT, "--json").document["items"][-1]["agent"] == HOSTILE
    transcript = run("transcript", CHAT).out
    assert not {char for char in transcript if char != "\n" and not char.isprintable()}


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_no_line_is_wider_than_the_terminal(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    fill(
        ledger,
        batch("1", user("word " * 60), CALL, OUTPUT, agent="A very long name of an agent that goes on"),
        compacted("2", item("1"), items=[user("in short " * 30)], response_id="resp_" + "x" * 60),
    )
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in ([], ["--full"], ["--diff"], ["--diff", "--all"]):
        lines = run("history", CHAT, *words).out.splitlines()
        assert max(map(len, lines)) <= columns, words
        assert {line[:1] for line in lines if "word" in line} <= {" "}, words


def test_a_long_text_is_cut_with_how_to_see_all(run: Run, ledger: Path) -> None:
    long = "x" * 3_000
    fill(ledger, batch("1", user(long)), compacted("2", item("1"), items=[user("y" * 3_000)]))

    assert "    [1,000 more characters; --all shows all]" in run("history", CHAT).out.splitlines()
    assert f"    {long}" in run("history", CHAT, "--full", "--all").out.splitlines()
    out = run("history", CHAT, "--diff").out.splitlines()
    assert f"  - #1.0  user: {'x' * 160} …" in out
    assert out[-1] == "What is long is cut; --all shows all."
    assert run("history", CHAT, "--diff", "--all").out.splitlines()[-2:] == ["  + #2.0  user", f"    {'y' * 3_000}"]


def test_long_compaction_lists_first_items_and_counts_the_rest(run: Run, ledger: Path) -> None:
    whole = {"first": item("1"), "last": item("1", 49)}
    fill(ledger, batch("1", *(user(str(number)) for number in range(50))), compacted("2", whole, items=["sum"]))

    lines = run("history", CHAT, "--diff").out.splitlines()
    assert [line for line in lines if line.startswith("  -")][-2:] == ["  - #1.39  user: 39", "  - and 10 items more"]
    assert lines[-1] == "What is long is cut; --all shows all."
    assert "  - #1.49  user" in run("history", CHAT, "--diff", "--all").out.splitlines()


def test_ten_thousand_items_are_shown_by_their_end(run: Run, ledger: Path) -> None:
    fill(ledger, *(batch(str(number), *(user(f"{number} {at}") for at in range(100))) for number in range(100)))

    lines = run("history", CHAT).out.splitlines()
    assert lines[1].startswith("10,000 items, ")
    assert lines[3] == "9,800 earlier items not shown; --limit 0 shows all."
    assert lines[-2:] == [f"#100.99  {T}  user", "    99 99"]
    assert len(run("history", CHAT, "--full", "--json").document["entries"]) == 10_000


def test_in_a_process_of_its_own_the_answer_is_piped_whole(run: Run, ledger: Path) -> None:
    fill(ledger, batch("1", user("café \ud800")))
    words = [sys.executable, "-m", "rightful", "--ledger", str(ledger), "history", CHAT]

    piped = subprocess.run(
        words, capture_output=True, check=True, env={"PYTHONPATH": ":".join(sys.path), "LC_ALL": "C"}
    )
    assert b"    caf" in piped.stdout
    document = json.loads(subprocess.run([*words, "--json"], capture_output=True, check=True).stdout)
    assert document["items"][0]["escaped"] is True


def test_an_empty_message_of_the_assistant_is_shown_as_empty(run: Run, ledger: Path) -> None:
    outside = Path(__file__).parents[1] / "outside" / "09-empty-assistant-and-two-blocks"
    name = "00000000-0000-4000-8000-000000000001"
    assert run("import", "claude-code", outside / f"{name}.jsonl").code == 0

    lines = run("history", name).out.splitlines()

    assert lines[-2].endswith("  assistant")
    assert lines[-1] == "    (empty)"
