from __future__ import annotations

import json
from typing import Any

import pytest
from tests.hooking import CC, after_tool, before_tool, given

from rightful import limits
from rightful.errors import InvalidEventError
from rightful.integrations.claude_code.hook_events import EVENTS, events_of, input_of, session_id_of
from rightful.ledger import Ledger

AT_US = 1_785_579_400_000_000


def event(value: dict[str, Any], nonce: str = "n1") -> dict[str, Any]:
    [found] = events_of(value, AT_US, nonce)
    return found


def test_a_start_says_harness_model_folder_and_how_it_came_about() -> None:
    found = event(given("SessionStart", source="startup", model="claude-sonnet-4-6", cwd="/home/dev"))

    assert {name: found[name] for name in found if name not in {"key", "extra"}} == {
        "type": "session.started", "producer": "claude-code-hook", "session": f"claude-code:{CC}",
        "at": "2026-08-01T10:16:40Z", "harness": "claude-code", "model": "claude-sonnet-4-6", "cwd": "/home/dev",
    }  # fmt: skip
    assert found["extra"] == {"source": "startup", "transcript_path": "/t.jsonl", "permission_mode": "default"}


def test_what_is_no_text_is_kept_beside_the_fields_of_a_start() -> None:
    found = event(given("SessionStart", source="startup", model={"id": "m"}))

    assert "model" not in found
    assert found["extra"]["model"] == {"id": "m"}


def test_repeated_startup_is_the_same_fact_and_a_resume_is_another() -> None:
    startup, resume = given("SessionStart", source="startup"), given("SessionStart", source="resume")

    assert event(startup, "n1")["key"] == event(startup, "n2")["key"]
    assert event(resume, "n1")["key"] != event(resume, "n2")["key"]
    assert event(startup)["key"] != event(startup | {"cwd": "/elsewhere"})["key"]


def test_an_end_says_why() -> None:
    found = event(given("SessionEnd", reason="prompt_input_exit"))

    assert found["type"] == "session.ended"
    assert found["extra"]["reason"] == "prompt_input_exit"
    assert found["key"] != event(given("SessionEnd", reason="prompt_input_exit"), "n2")["key"]


def test_a_call_and_its_result_carry_the_agents_own_id() -> None:
    called = event(before_tool(agent_id="a1"))
    answered = event(after_tool(duration_ms=12))

    assert (called["key"], called["call"], called["name"]) == (f'["{CC}","call","toolu_1"]', "toolu_1", "Bash")
    assert (called["arguments"], called["complete"], called["extra"]) == ({"command": "ls"}, True, {"agent_id": "a1"})
    assert (answered["key"], answered["call"]) == (f'["{CC}","result","toolu_1"]', "toolu_1")
    assert (answered["output"], answered["is_error"], answered["complete"]) == ({"stdout": "a\n"}, False, True)
    assert answered["extra"] == {"tool_name": "Bash", "duration_ms": 12}


def test_a_failed_tool_answers_with_its_error() -> None:
    failed = after_tool(hook_event_name="PostToolUseFailure", error="exit 1", is_interrupt=False)
    del failed["tool_response"]

    found = event(failed)

    assert (found["type"], found["output"], found["is_error"]) == ("tool_result.snapshotted", "exit 1", True)
    assert found["extra"] == {"tool_name": "Bash", "is_interrupt": False}


@pytest.mark.parametrize("own", [None, "", 7, "x" * (limits.WORD_CHARS + 1)])
def test_calls_without_id_are_identified_by_input_and_occurrence(own: Any) -> None:
    first, second = event(before_tool(tool_use_id=own), "n1"), event(before_tool(tool_use_id=own), "n2")
    answered = event(after_tool(tool_use_id=own), "n3")
    other = event(before_tool(tool_use_id=own, tool_input={"command": "pwd"}))

    assert first["call"] == second["call"] == answered["call"] != other["call"]
    assert first["key"] != second["key"]
    assert json.loads(first["key"])[-1] == "n1"


def test_the_longest_id_of_a_call_is_taken_unchanged() -> None:
    assert event(before_tool(tool_use_id="x" * limits.WORD_CHARS))["call"] == "x" * limits.WORD_CHARS


@pytest.mark.parametrize("name", ["UserPromptSubmit", "Stop", "Notification", "SomethingNew"])
def test_other_hook_events_say_nothing_of_their_own(name: str) -> None:
    assert events_of(given(name, prompt="secret"), AT_US, "n") == []


@pytest.mark.parametrize("session", ["unknown", "", "  ", None, 7, "a\x00b"])
@pytest.mark.parametrize("name", ["SessionStart", "PreToolUse", "Stop"])
def test_a_call_that_names_no_session_is_refused(session: Any, name: str) -> None:
    with pytest.raises(InvalidEventError, match="session id"):
        events_of(before_tool(hook_event_name=name, session_id=session), AT_US, "n")


def test_session_is_named_exactly_as_written() -> None:
    assert session_id_of({"session_id": "a/b ü"}) == "a/b ü"


@pytest.mark.parametrize("raw", [b"rubbish", b"[1]", b'"text"', b"\xff\xfe\xfa", b"{", b"{" * 100_000])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidEventError):
        input_of(raw)


def test_bytes_that_are_not_utf_8_are_kept(ledger: Ledger) -> None:
    raw = json.dumps(after_tool(tool_response="@")).encode().replace(b"@", b"\xe9")

    [receipt] = ledger.append(events_of(input_of(raw), AT_US, "n"))

    assert receipt.outcome == "appended"


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_that_is_made_fits_its_type(name: str, ledger: Ledger) -> None:
    events = events_of(before_tool(hook_event_name=name, source="clear", reason="other"), AT_US, "n")

    assert [receipt.outcome for receipt in ledger.append(events)] == ["appended"] * len(events)
    assert [receipt.outcome for receipt in ledger.append(events)] == ["duplicate"] * len(events)
