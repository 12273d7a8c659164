from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.handoffs.handoff_steps import AT, AT_US, RUN, A, B, Step, rows, step_of

from rightful import limits, times
from rightful.errors import HandoffMismatchError, InvalidEventError, NothingToTakeError, RightfulError, UsageError
from rightful.events import MessageRecorded
from rightful.handoffs import handoff_rows
from rightful.handoffs.handoffs import Handoffs
from rightful.ledger import Ledger
from rightful.log.log import Log
from rightful.log.rows import Receipt


@pytest.fixture
def step(ledger: Ledger) -> Step:
    """Makes steps of some session."""
    return step_of(ledger)


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
        f"Handoff 'meta' of {A}: the last put, at {AT} (position 1), was taken at {AT} by {A} (position 2). "
        "Nothing was handed over. Put it first, or repeat an earlier take with its key."
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
    with pytest.raises(NothingToTakeError, match="earlier puts are never handed out"):
        step().take("meta", session=A)


def test_a_take_with_a_key_gets_the_same_again(step: Step, ledger: Ledger) -> None:
    step().put("meta", "one", session=A)
    first = step().take("meta", session=A, key="step-2")

    again = step(cwd="/elsewhere").take("meta", session=A, key="step-2")

    assert again == first._replace(repeated=True)
    assert len(rows(ledger)) == 2


@pytest.mark.parametrize("taker", [A, B])
def test_a_key_never_gets_what_is_older_than_what_was_put_last(step: Step, ledger: Ledger, taker: str) -> None:
    """A skill with a fixed key is used twice in a session: the second time it must not get the first one's."""
    step().put("meta", "one", session=A)
    step().take("meta", session=taker, put_by=A, key="step-2")
    step().put("meta", "two", session=A)

    with pytest.raises(HandoffMismatchError, match=r"\(position 1\), before the last put, .* \(position 3\)"):
        step().take("meta", session=taker, put_by=A, key="step-2")
    assert len(rows(ledger)) == 3
    assert step().take("meta", session=taker, put_by=A, key="step-3").payload == "two"


def test_a_put_is_not_repeated_once_another_one_stands_in_its_place(step: Step) -> None:
    """It would look as if it waited, and the next take got the other one."""
    step().put("meta", "one", session=A, key="k")
    step().put("meta", "two", session=A)

    with pytest.raises(HandoffMismatchError, match=r"\(position 1\), before the last put, .* \(position 2\)"):
        step().put("meta", "one", session=A, key="k")
    assert step().take("meta", session=A).payload == "two"


def test_the_same_take_that_another_made_since_we_looked_is_given_again(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    step().put("meta", "one", session=A)
    look = handoff_rows.last_put

    def looked(*args: Any) -> Any:
        monkeypatch.undo()
        assert not step(cwd="/elsewhere").take("meta", session=A, key="step-2").repeated
        return look(*args)

    monkeypatch.setattr(handoff_rows, "last_put", looked)
    taken = step().take("meta", session=A, key="step-2")

    assert (taken.payload, taken.repeated) == ("one", True)


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
        with pytest.raises(UsageError, match=r"is not a session name\. Nothing was handed over"):
            act()


def test_an_empty_key_is_refused(step: Step) -> None:
    """A variable of a script that was not set must not make all calls one."""
    with pytest.raises(UsageError, match="The key is empty"):
        step().put("meta", "x", session=A, key="")
    with pytest.raises(UsageError, match="The key is empty"):
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


def test_repeated_take_gets_the_same_if_the_other_ends_between_two_reads(step: Step, ledger: Ledger) -> None:
    class Looking(Log):
        def read(self, **asked: Any) -> Any:
            found = list(super().read(**asked))
            if asked.get("types") == ["handoff.taken"] and not found:
                step().take("meta", session=A, key="k")
            return iter(found)

    step().put("meta", "x", session=A)
    mine = Handoffs(Looking(ledger.log.recorder), clock=lambda: AT_US, environ={}, cwd=Path("/w"))

    assert mine.take("meta", session=A, key="k")[3:] == ("x", times.at_of(AT_US), 1, mine_id(ledger), True)


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

    with pytest.raises(HandoffMismatchError, match="which links join to another run"):
        ledger.take_handoff("meta", session=RUN)
    monkeypatch.delenv("CODEX_THREAD_ID")
    assert ledger.take_handoff("meta", session=RUN, key="k").payload == {"pr": 7}


@pytest.mark.parametrize("error", [HandoffMismatchError("n", A, "why", "Do."), NothingToTakeError("n", A, "why")])
def test_the_errors_survive_a_pickle(error: RightfulError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
