from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightful import limits, times
from rightful.app import Ledger
from rightful.errors import InvalidEventError, RightfulError, UsageError
from rightful.events import HandoffTaken, HandoffWritten, MessageRecorded
from rightful.ledger.log import Log
from rightful.ledger.recorded import Receipt
from rightful.producers.handoff_facts import HandoffMismatchError, SameRun, facts_of
from rightful.producers.handoffs import Handoffs, NothingToTakeError

A, B, RUN = "claude-code:a", "claude-code:b", "run:mine"
AT = "2026-08-01T10:00:00Z"
AT_US = 1_785_578_400_000_000

Step = Callable[..., Handoffs]


@pytest.fixture
def step(ledger: Ledger) -> Step:
    """A step of some session, with an environment of its own."""

    def made(*, same_run: SameRun | None = None, cwd: str = "/w", **environ: str) -> Handoffs:
        return Handoffs(ledger.log, clock=lambda: AT_US, environ=environ, cwd=Path(cwd), same_run=same_run)

    return made


def rows(ledger: Ledger) -> list[tuple[str, str]]:
    return [(row.type, row.outcome) for row in ledger.read()]


@pytest.mark.parametrize(
    "payload",
    ["text\n", "", "NUL \x00 and half \ud800", b"\xff\x00\n", b"", {"pr": 7, "nan": None}, [1, 2.5], 7, None, True],
    ids=repr,
)
def test_what_is_put_is_taken_as_it_was(step: Step, payload: Any) -> None:
    step().put("meta", payload, session=A)

    taken = step().take("meta", session=A)

    assert (taken.payload, type(taken.payload)) == (payload, type(payload))
    assert (taken.name, taken.session, taken.position, taken.repeated) == ("meta", A, 1, False)


def test_what_was_taken_is_gone(step: Step, ledger: Ledger) -> None:
    step().put("meta", "one", session=A)
    step().take("meta", session=A)

    with pytest.raises(NothingToTakeError) as error:
        step().take("meta", session=A)

    assert str(error.value) == (
        f"handoff 'meta' of {A}: what was put last, at {AT} (position 1), was taken at {AT} by {A} (position 2); "
        "nothing was handed over. Put it first, or repeat the take that got it with the same key."
    )
    assert error.value.exit_code == 1
    assert rows(ledger) == [("handoff.written", "appended"), ("handoff.taken", "appended")]


def test_what_nobody_put_cannot_be_taken(step: Step, ledger: Ledger) -> None:
    step().put("meta", "of another session", session=B)
    step().put("other", "of another name", session=A)

    with pytest.raises(NothingToTakeError, match="that session put nothing under this name"):
        step().take("meta", session=A)

    assert len(rows(ledger)) == 2


def test_the_same_name_in_two_sessions_never_meets(step: Step) -> None:
    step().put("meta", "of a", session=A)
    step().put("meta", "of b", session=B)

    assert step().take("meta", session=A).payload == "of a"
    assert step().take("meta", session=B).payload == "of b"


def test_what_was_put_last_is_taken_and_never_what_is_older(step: Step) -> None:
    for payload in ("old", "new"):
        step().put("meta", payload, session=A)

    assert step().take("meta", session=A).payload == "new"
    with pytest.raises(NothingToTakeError, match="and all that was put before is older"):
        step().take("meta", session=A)


def test_a_take_with_a_key_gets_the_same_again_whatever_was_put_meanwhile(step: Step, ledger: Ledger) -> None:
    step().put("meta", "one", session=A)
    first = step().take("meta", session=A, key="step-2")
    step().put("meta", "two", session=A)

    again = step(cwd="/elsewhere").take("meta", session=A, key="step-2")

    assert again == first._replace(repeated=True)
    assert step().take("meta", session=A, key="step-3").payload == "two"
    assert len(rows(ledger)) == 4


def test_a_key_is_of_one_session_and_one_name(step: Step) -> None:
    step().put("meta", "of a", session=A)
    step().take("meta", session=A, key="k")

    with pytest.raises(NothingToTakeError):
        step().take("meta", session=B, key="k", put_by=A)


def test_one_key_of_a_taker_is_for_each_session_that_it_takes_from(step: Step) -> None:
    for session, payload in ((A, "of a"), (B, "of b")):
        step().put("meta", payload, session=session)

    taken = [step().take("meta", session="t:c", put_by=session, key="k").payload for session in (A, B, A)]

    assert taken == ["of a", "of b", "of a"]


def test_a_put_with_a_key_is_stored_once(step: Step, ledger: Ledger) -> None:
    first = step().put("meta", {"t": (1, float("nan"))}, session=A, key="k")
    again = step(cwd="/elsewhere").put("meta", {"t": (1, float("nan"))}, session=A, key="k")

    assert (again.outcome, again.id, again.position) == ("duplicate", first.id, 1)
    assert rows(ledger) == [("handoff.written", "appended")]


def test_puts_without_a_key_are_each_one(step: Step, ledger: Ledger) -> None:
    for _ in range(2):
        step().put("meta", "same", session=A)

    assert rows(ledger) == [("handoff.written", "appended")] * 2


@pytest.mark.parametrize("other", ["two", b"one", ["one"]])
def test_a_key_that_stands_for_another_payload_is_refused(step: Step, ledger: Ledger, other: Any) -> None:
    step().put("meta", "one", session=A, key="k")

    with pytest.raises(HandoffMismatchError, match="another payload was put with this key at position 1"):
        step().put("meta", other, session=A, key="k")

    assert rows(ledger) == [("handoff.written", "appended")]


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
        ({"RIGHTFUL_SESSION": RUN}, f"this step is in {RUN}, says RIGHTFUL_SESSION"),
        ({"CLAUDE_CODE_SESSION_ID": "other"}, "this step is in claude-code:other, says its environment"),
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
        f"handoff 'meta' of {A}: {why}; nothing was handed over. "
        "Give the session that this step runs in, or record their link."
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
    with pytest.raises(HandoffMismatchError, match="this step is in codex:theirs, and links join that to another run"):
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
        "by a step of the run with nonce n1, and this step is of that with nonce n2",
    ),
    (
        {"CODEX_THREAD_ID": "one"},
        {"CODEX_THREAD_ID": "two"},
        "by a step in codex:one, and this step is in codex:two",
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

    assert f"it was put at {AT} (position 1) {why}; nothing was handed over" in str(taking.value)
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


def test_another_session_takes_what_it_names(step: Step, ledger: Ledger) -> None:
    step(CLAUDE_CODE_SESSION_ID="a", RIGHTFUL_RUN_NONCE="n1").put("review", "please", session=A)
    taker = step(CLAUDE_CODE_SESSION_ID="b", RIGHTFUL_RUN_NONCE="n2")

    taken = taker.take("review", session=B, put_by=A, key="k")

    assert (taken.session, taken.payload) == (A, "please")
    assert [row.session for row in ledger.read()] == [A, B]
    assert taker.take("review", session=B, put_by=A, key="k").repeated
    with pytest.raises(NothingToTakeError, match=f"by {B}"):
        step(CLAUDE_CODE_SESSION_ID="a").take("review", session=A)


@pytest.mark.parametrize("session", ["", "a", "unknown", "claude-code:", "claude-code:unknown"])
def test_a_session_must_be_named_in_full(step: Step, session: str) -> None:
    for act in (
        lambda: step().put("meta", "x", session=session),
        lambda: step().take("meta", session=session),
        lambda: step().take("meta", session=A, put_by=session),
    ):
        with pytest.raises(UsageError, match="names no session; nothing was handed over"):
            act()


def test_an_empty_key_is_refused(step: Step) -> None:
    """A variable of a script that was not set must not make all calls one."""
    with pytest.raises(UsageError, match="the key is empty"):
        step().put("meta", "x", session=A, key="")
    with pytest.raises(UsageError, match="the key is empty"):
        step().take("meta", session=A, key=" ")


def test_a_payload_that_is_none_or_too_long_is_refused(step: Step, ledger: Ledger) -> None:
    for payload in ({1, 2}, "x" * (limits.EVENT_BYTES + 1)):
        with pytest.raises(InvalidEventError):
            step().put("meta", payload, session=A)

    assert rows(ledger) == []


class Overtaken(Log):
    """A log to which another writes just before the first append."""

    def __init__(self, ledger: Ledger, other: Callable[[], object]) -> None:
        super().__init__(ledger.log.recorder)
        self._other: Callable[[], object] | None = other

    def append(self, *args: Any, **more: Any) -> list[Receipt]:
        """Let the other one be faster once."""
        other, self._other = self._other, None
        if other is not None:
            other()
        return super().append(*args, **more)


def overtaken(ledger: Ledger, other: Callable[[], object], **environ: str) -> Handoffs:
    return Handoffs(Overtaken(ledger, other), clock=lambda: AT_US, environ=environ, cwd=Path("/w"))


def test_a_put_never_takes_the_place_of_anothers_that_came_meanwhile(step: Step, ledger: Ledger) -> None:
    other = step(RIGHTFUL_RUN_NONCE="n2")
    mine = overtaken(ledger, lambda: other.put("meta", "theirs", session="t:shared"), RIGHTFUL_RUN_NONCE="n1")

    with pytest.raises(HandoffMismatchError, match="it waits already"):
        mine.put("meta", "mine", session="t:shared")

    assert rows(ledger) == [("handoff.written", "appended")]


def test_the_same_put_from_another_folder_meanwhile_is_stored_once(step: Step, ledger: Ledger) -> None:
    mine = overtaken(ledger, lambda: step(cwd="/elsewhere").put("meta", "x", session=A, key="k"))

    assert mine.put("meta", "x", session=A, key="k").outcome == "duplicate"
    assert rows(ledger) == [("handoff.written", "appended")]


def test_a_take_gets_what_was_put_meanwhile(step: Step, ledger: Ledger) -> None:
    step().put("meta", "old", session=A)
    mine = overtaken(ledger, lambda: step().put("meta", "new", session=A))

    assert mine.take("meta", session=A).payload == "new"


@pytest.mark.parametrize("cwd", ["/w", "/elsewhere"])
def test_the_same_take_meanwhile_gets_the_same(step: Step, ledger: Ledger, cwd: str) -> None:
    step().put("meta", "x", session=A)
    mine = overtaken(ledger, lambda: step(cwd=cwd).take("meta", session=A, key="k"))

    assert mine.take("meta", session=A, key="k")[3:] == ("x", times.at_of(AT_US), 1, mine_id(ledger), True)
    assert rows(ledger) == [("handoff.written", "appended"), ("handoff.taken", "appended")]


def mine_id(ledger: Ledger) -> str:
    [row] = ledger.read(types=["handoff.taken"])
    return row.id


def test_a_take_that_another_one_wins_meanwhile_gets_nothing(step: Step, ledger: Ledger) -> None:
    step().put("meta", "x", session=A)
    mine = overtaken(ledger, lambda: step().take("meta", session=B, put_by=A))

    with pytest.raises(NothingToTakeError, match=f"was taken at {AT} by {B}"):
        mine.take("meta", session=A)
    assert rows(ledger) == [("handoff.written", "appended"), ("handoff.taken", "appended")]


@pytest.mark.parametrize("between", [0, 63, 64, 600])
def test_what_was_put_last_is_found_however_much_was_written_since(step: Step, ledger: Ledger, between: int) -> None:
    step().put("meta", "old", session=A)
    step().put("meta", "x", session=A)
    step().put("other", "y", session=A)
    others = [
        MessageRecorded(producer="p", key=str(at), session=A, at=times.at_of(AT_US), role="user")
        for at in range(between)
    ]
    ledger.append(others)

    assert step().take("meta", session=A).payload == "x"


def test_a_list_says_what_waits_what_was_taken_and_what_was_replaced(step: Step) -> None:
    step().put("meta", "old", session=A)
    step().put("meta", "new", session=A)
    step().put("data", b"\xff", session=A)
    step().take("meta", session=B, put_by=A)

    listed = step().listed(A)

    assert [(one.name, one.form, one.state, one.taken_by) for one in listed] == [
        ("meta", "text", "replaced", None),
        ("meta", "text", "taken", B),
        ("data", "bytes", "waits", None),
    ]
    assert step().listed(B) == []


def test_the_ledger_hands_over_for_this_process_and_asks_its_links(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RIGHTFUL_SESSION", "RIGHTFUL_RUN_NONCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CODEX_THREAD_ID", "mine")
    ledger.put_handoff("meta", {"pr": 7}, session=RUN, key="k")
    ledger.producer("p").link("run:other", "codex:mine", as_="native", evidence="native-id")

    with pytest.raises(HandoffMismatchError, match="links join that to another run"):
        ledger.take_handoff("meta", session=RUN)
    monkeypatch.delenv("CODEX_THREAD_ID")
    assert ledger.take_handoff("meta", session=RUN, key="k").payload == {"pr": 7}


@pytest.mark.parametrize("error", [HandoffMismatchError("n", A, "why", "Do."), NothingToTakeError("n", A, "why")])
def test_the_errors_survive_a_pickle(error: RightfulError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
