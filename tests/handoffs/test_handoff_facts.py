"""Who hands over, by what is found of them, and what happens where that disagrees."""

from __future__ import annotations

import pytest
from tests.handoffs.handoff_steps import AT, RUN, A, Step, rows, step_of

from rightful.errors import HandoffMismatchError
from rightful.events import HandoffTaken, HandoffWritten
from rightful.handoffs.writer_identity import facts_of
from rightful.ledger import Ledger


@pytest.fixture
def step(ledger: Ledger) -> Step:
    """Makes steps of some session."""
    return step_of(ledger)


def test_both_sides_keep_what_was_found_of_them(step: Step, ledger: Ledger) -> None:
    writer = {"RIGHTFUL_SESSION": A, "RIGHTFUL_RUN_NONCE": "n1", "CLAUDE_CODE_SESSION_ID": "a"}
    step(**writer, GPTME_SESSION_ID="41c2").put("meta", "x", session=A)
    step(cwd="/w/sub dir", CODEX_THREAD_ID="t", GPTME_SESSION_ID="41c2").take("meta", session=A, key="k")

    written, taken = (row.event for row in ledger.read())

    assert isinstance(written, HandoffWritten)
    assert isinstance(taken, HandoffTaken)
    assert written.found is not None
    assert taken.found is not None
    assert (written.found.run_nonce, written.found.native_id, written.found.cwd) == ("n1", "claude-code:a", "file:///w")
    assert written.extra == {"form": "text", "natives": ["claude-code:a", "gptme-session:41c2"]}
    assert (taken.found.run_nonce, taken.found.native_id, taken.found.cwd) == (None, "codex:t", "file:///w/sub%20dir")
    assert taken.extra == {"key": "k", "natives": ["codex:t", "gptme-session:41c2"]}
    assert (taken.session, taken.name) == (A, "meta")


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("CLAUDE_CODE_SESSION_ID", "claude-code:x"),
        ("CC_SESSION_ID", "claude-code:x"),
        ("CODEX_THREAD_ID", "codex:x"),
        ("COPILOT_AGENT_SESSION_ID", "copilot:x"),
        ("GPTME_CONVERSATION_ID", "gptme:x"),
        ("GPTME_SESSION_ID", "gptme-session:x"),
    ],
)
def test_each_agent_tells_its_commands_which_session_they_are_in(variable: str, name: str) -> None:
    assert facts_of({variable: "x"}, None).natives == (name,)
    assert facts_of({variable: " "}, None).natives == facts_of({variable: "unknown"}, None).natives == ()


@pytest.mark.parametrize("act", ["put", "take"])
@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"RIGHTFUL_SESSION": RUN}, f"RIGHTFUL_SESSION states that this step runs in {RUN}"),
        ({"CLAUDE_CODE_SESSION_ID": "other"}, "the environment states that this step runs in claude-code:other"),
    ],
)
def test_a_session_that_the_environment_contradicts_is_refused(
    step: Step, ledger: Ledger, act: str, environ: dict[str, str], why: str
) -> None:
    step().put("meta", "x", session=A)
    caller = step(**environ)

    with pytest.raises(HandoffMismatchError) as error:
        caller.put("meta", "x", session=A) if act == "put" else caller.take("meta", session=A)

    assert str(error.value) == (
        f"Handoff 'meta' of {A}: {why}. Nothing was handed over. "
        "Pass the session that this step runs in, or link the two sessions."
    )
    assert error.value.exit_code == 3
    assert len(rows(ledger)) == 1


@pytest.mark.parametrize(
    "environ",
    [
        {"RIGHTFUL_SESSION": A},
        {"RIGHTFUL_SESSION": RUN, "CLAUDE_CODE_SESSION_ID": "a"},
        {"CLAUDE_CODE_SESSION_ID": "a", "CODEX_THREAD_ID": "inner"},
        {"CODEX_THREAD_ID": "of another tool, which may have begun this one"},
    ],
)
def test_a_session_that_nothing_contradicts_is_taken_at_its_word(step: Step, environ: dict[str, str]) -> None:
    step(**environ).put("meta", "x", session=A)

    assert step(**environ).take("meta", session=A).payload == "x"


def test_links_prove_a_session_or_refute_it(step: Step, ledger: Ledger) -> None:
    def joined(one: str, other: str) -> bool | None:
        return {(RUN, "codex:mine"): True, (RUN, "codex:theirs"): False}.get((one, other))

    step(same_run=joined, CODEX_THREAD_ID="mine").put("meta", "x", session=RUN)
    assert step(same_run=joined, CODEX_THREAD_ID="mine").take("meta", session=RUN).payload == "x"
    step().put("meta", "y", session=RUN)
    with pytest.raises(HandoffMismatchError, match="this step runs in codex:theirs, which links join to another run"):
        step(same_run=joined, CODEX_THREAD_ID="theirs").take("meta", session=RUN)

    assert step(same_run=joined, CODEX_THREAD_ID="unknown-to-all").take("meta", session=RUN).payload == "y"


def test_steps_of_one_run_may_be_sessions_of_their_own(step: Step) -> None:
    """`codex exec` draws a thread a call; the nonce says that both are of the run."""
    run = {"RIGHTFUL_SESSION": RUN, "RIGHTFUL_RUN_NONCE": "n1"}
    step(**run, CODEX_THREAD_ID="one").put("meta", "x", session=RUN)

    assert step(**run, CODEX_THREAD_ID="two").take("meta", session=RUN).payload == "x"


def test_a_resumed_session_is_the_same_run_where_a_link_says_so(step: Step) -> None:
    def joined(one: str, other: str) -> bool | None:
        return {one, other} == {"claude-code:a", "claude-code:resumed"} or None

    step(CLAUDE_CODE_SESSION_ID="a").put("meta", "x", session=A)

    taker = step(same_run=joined, CLAUDE_CODE_SESSION_ID="resumed")
    assert taker.take("meta", session=A).payload == "x"


OTHERS = [
    (
        {"RIGHTFUL_RUN_NONCE": "n1"},
        {"RIGHTFUL_RUN_NONCE": "n2"},
        "by a step of the run with nonce n1, but this step belongs to the run with nonce n2",
    ),
    (
        {"CODEX_THREAD_ID": "one"},
        {"CODEX_THREAD_ID": "two"},
        "by a step in codex:one, but this step runs in codex:two",
    ),
]


@pytest.mark.parametrize(("theirs", "mine", "why"), OTHERS)
def test_two_runs_that_use_one_name_get_nothing_of_each_other(
    step: Step, ledger: Ledger, theirs: dict[str, str], mine: dict[str, str], why: str
) -> None:
    step(**theirs).put("meta", "theirs", session="t:shared")

    with pytest.raises(HandoffMismatchError) as taking:
        step(**mine).take("meta", session="t:shared")
    with pytest.raises(HandoffMismatchError) as putting:
        step(**mine).put("meta", "mine", session="t:shared")

    assert f"it was put at {AT} (position 1) {why}. Nothing was handed over" in str(taking.value)
    assert f"it waits already, and was put at {AT} (position 1) {why}" in str(putting.value)
    assert len(rows(ledger)) == 1
    assert step(**theirs).take("meta", session="t:shared").payload == "theirs"
    assert step(**mine).put("meta", "mine", session="t:shared").outcome == "appended"


@pytest.mark.parametrize(("theirs", "mine", "why"), OTHERS)
def test_a_key_of_another_run_gets_nothing(step: Step, theirs: dict[str, str], mine: dict[str, str], why: str) -> None:
    step(**theirs).put("meta", "theirs", session="t:shared", key="k")
    step(**theirs).take("meta", session="t:shared", key="k")

    with pytest.raises(HandoffMismatchError, match=f"it was taken with this key .* {why}"):
        step(**mine).take("meta", session="t:shared", key="k")
    with pytest.raises(HandoffMismatchError, match=f"it was put with this key .* {why}"):
        step(**mine).put("meta", "theirs", session="t:shared", key="k")


def test_one_tool_in_common_is_enough_to_be_the_same_run(step: Step) -> None:
    step(CODEX_THREAD_ID="one", CLAUDE_CODE_SESSION_ID="a").put("meta", "x", session=A)

    assert step(CODEX_THREAD_ID="two", CLAUDE_CODE_SESSION_ID="a").take("meta", session=A).payload == "x"
