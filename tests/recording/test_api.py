from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.log.memory import MemoryRecorder

import rightful
from rightful import events
from rightful.errors import ConditionFailedError, InvalidEventError, UsageError
from rightful.events import Event
from rightful.field_types import ArmShown
from rightful.identity import composite_key, event_id
from rightful.importers.shared.regrades import ATTEMPTS
from rightful.log.log import Log
from rightful.recording.producer import Producer
from rightful.times import at_of

NOW_US = 1_785_500_000_000_000
AT = datetime(2026, 8, 1, tzinfo=UTC)


@pytest.fixture
def recorder() -> MemoryRecorder:
    return MemoryRecorder()


@pytest.fixture
def log(recorder: MemoryRecorder) -> Log:
    return Log(recorder)


@pytest.fixture
def hook(log: Log) -> Producer:
    return Producer(log, "hook", clock=lambda: NOW_US)


def only(log: Log) -> Any:
    [row] = log.read()
    return row.event


def seqs(log: Log) -> list[tuple[int, float | None]]:
    return [(row.event.seq, getattr(row.event, "reward", None)) for row in log.read()]  # type: ignore[union-attr]


# -- facts -------------------------------------------------------------------------------------


def calls(hook: Producer) -> dict[str, Any]:
    """Every method with the fewest arguments that name the fact, its key, and what it records."""
    of = composite_key
    return {
        "started": (lambda: hook.started("t:a"), of("t:a", "started", None), events.SessionStarted),
        "ended": (lambda: hook.ended("t:a", exit_code=1), of("t:a", "ended", None, 1), events.SessionEnded),
        "link": (
            lambda: hook.link("t:a", "u:b"),
            of("t:a", "linked", "u:b", "native", "native-id"),
            events.SessionLinked,
        ),
        "unlink": (lambda: hook.unlink("t:a", "u:b"), of("t:a", "unlinked", "u:b"), events.SessionUnlinked),
        "exposure": (
            lambda: hook.exposure("t:a", ["x"], turn="1", index=0),
            of("t:a", "exposure", "1", 0),
            events.ExposureRecorded,
        ),
        "grade": (lambda: hook.grade("t:a", 0.5), of("t:a", "overall", "grade", 1), events.GradeRecorded),
        "retract": (lambda: hook.retract("t:a", seq=2), of("t:a", "overall", "retraction", 2), events.GradeRetracted),
        "message": (
            lambda: hook.message("t:a", "user", "hi", turn="1", index=3),
            of("t:a", "message", "1", 3),
            events.MessageRecorded,
        ),
        "tool_call": (
            lambda: hook.tool_call("t:a", "c1", turn="1", name="bash"),
            of("t:a", "tool_call", "1", "c1"),
            events.ToolCallSnapshotted,
        ),
        "tool_result": (
            lambda: hook.tool_result("t:a", "c1", turn="1", output="x"),
            of("t:a", "tool_result", "1", "c1"),
            events.ToolResultSnapshotted,
        ),
        "turn_ended": (lambda: hook.turn_ended("t:a", "1"), of("t:a", "turn_ended", "1"), events.TurnEnded),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("started", "ended", "link", "unlink", "exposure", "grade"),
        *("retract", "message", "tool_call", "tool_result", "turn_ended"),
    ],
)
def test_each_method_derives_its_key_from_the_fact_and_repeats_are_one(hook: Producer, log: Log, name: str) -> None:
    call, key, kind = calls(hook)[name]

    first, again = call(), call()

    assert (first.outcome, first.position, first.id) == ("appended", 1, event_id("hook", key))
    assert (again.outcome, again.position, again.id) == ("duplicate", 1, first.id)
    event = only(log)
    assert type(event) is kind
    assert (event.producer, event.session, event.at) == ("hook", "t:a", at_of(NOW_US))


def test_a_key_and_a_time_of_ones_own_are_taken(hook: Producer, log: Log) -> None:
    receipt = hook.exposure("t:a", [], key="mine", at=AT)

    assert receipt.id == event_id("hook", "mine")
    assert only(log).at == AT


def test_arms_are_names_or_names_with_their_probability_or_structs(hook: Producer, log: Log) -> None:
    hook.exposure("t:a", ["x", ArmShown("y", 0.5)], withheld={"z": 0.25, "w": None}, context=["code", None], key="k")

    event = only(log)
    assert event.arms == (ArmShown("x"), ArmShown("y", 0.5))
    assert event.withheld == (ArmShown("z", 0.25), ArmShown("w"))
    assert event.context == ("code", None)


def test_all_that_a_type_models_can_be_given(hook: Producer, log: Log) -> None:
    hook.started("t:a", run_nonce="n", harness="h", model="m", cwd="/", work_item="w", extra={"x": 1})
    hook.grade("t:a", outcome="productive", rubric="style", per_arm={"x": 1.0}, exposure_session="t:b", seq=7)
    hook.tool_call("t:a", "c", name="bash", arguments={"a": 1}, complete=True, index=4, turn="1")
    hook.turn_ended("t:a", "1", stop_reason="done", event_count=3, dropped_count=1, previous="0")

    started, graded, called, ended = (row.event for row in log.read())
    assert started.extra == {"x": 1}  # type: ignore[union-attr]
    assert (graded.reward, graded.outcome, graded.rubric, graded.seq) == (None, "productive", "style", 7)  # type: ignore[union-attr]
    assert (called.arguments, called.complete, called.index) == ({"a": 1}, True, 4)  # type: ignore[union-attr]
    assert (ended.event_count, ended.dropped_count, ended.previous) == (3, 1, "0")  # type: ignore[union-attr]


def test_a_call_grows_under_one_key(hook: Producer) -> None:
    states: list[dict[str, Any]] = [{"arguments": {}}, {"arguments": {"command": "ls"}}, {"arguments": {}}]

    outcomes = [hook.tool_call("t:a", "c", turn="1", name="bash", **state).outcome for state in states]

    assert outcomes == ["appended", "refined", "duplicate"]


def test_two_starts_with_different_nonces_are_two_facts(hook: Producer) -> None:
    assert [hook.started("t:a", run_nonce=nonce).outcome for nonce in ("1", "2", "1")] == [
        "appended",
        "appended",
        "duplicate",
    ]


@pytest.mark.parametrize("given", [{}, {"turn": "1"}, {"index": 1}])
def test_call_without_key_turn_and_index_is_refused_and_writes_nothing(
    hook: Producer, log: Log, given: dict[str, Any]
) -> None:
    with pytest.raises(
        InvalidEventError, match=r"Expected `key`, or `turn` and `index`, which make one - at `\$\.key`"
    ):
        hook.message("t:a", "user", "hi", **given)
    with pytest.raises(InvalidEventError):
        hook.exposure("t:a", ["x"], **given)
    assert log.head() == 0


def test_an_invalid_fact_is_raised_with_its_place(hook: Producer, log: Log) -> None:
    with pytest.raises(InvalidEventError) as caught:
        hook.exposure("t:a", {"x": 1.5}, key="k")
    assert (caught.value.what, caught.value.place) == ("Expected `float` <= 1.0", "$.arms[0].p_inject")
    with pytest.raises(InvalidEventError):
        hook.grade("t:a", 7)
    with pytest.raises(InvalidEventError):
        hook.grade("t:a", seq=1)
    assert log.head() == 0


def test_a_conflict_is_a_receipt(hook: Producer) -> None:
    hook.exposure("t:a", ["x"], key="k")

    assert hook.exposure("t:a", ["y"], key="k").outcome == "conflict"


def test_any_event_can_be_recorded_with_producer_and_time_filled_in(hook: Producer, log: Log) -> None:
    receipt = hook.record({"type": "thought.recorded", "session": "t:a", "key": "k", "content": "hm"})

    assert receipt.id == event_id("hook", "k")
    assert (only(log).content, only(log).at) == ("hm", at_of(NOW_US))
    with pytest.raises(InvalidEventError):
        hook.record({"type": "no.such"})


@pytest.mark.parametrize("name", ["", "two words", "-x", "x" * 129, "a\n", "\ud800"])
def test_a_producers_name_has_a_form(log: Log, name: str) -> None:
    with pytest.raises(InvalidEventError, match=r"Expected a producer's name, got .* - at `\$\.producer`"):
        Producer(log, name)
    assert Producer(log, "x" * 128).name == "x" * 128


# -- grades of those who keep no seq -----------------------------------------------------------


def test_the_first_grade_has_seq_1_and_each_other_value_the_next(hook: Producer, log: Log) -> None:
    receipts = [hook.grade("t:a", reward) for reward in (0.8, 0.5, 0.5, 0.8)]

    assert [receipt.outcome for receipt in receipts] == ["appended", "appended", "duplicate", "appended"]
    assert receipts[2].position == receipts[1].position
    assert seqs(log) == [(1, 0.8), (2, 0.5), (3, 0.8)]


@pytest.mark.parametrize(
    "changed",
    [
        {"outcome": "failed"},
        {"per_arm": {"x": 0.1}},
        {"salience": {"x": 0.1}},
        {"exposure_session": "t:b"},
        {"decay_rate": 0.9},
        {"extra": {"note": 1}},
    ],
)
def test_whatever_a_grade_says_makes_it_another_value(hook: Producer, log: Log, changed: dict[str, Any]) -> None:
    hook.grade("t:a", 0.8)

    assert hook.grade("t:a", 0.8, **changed).outcome == "appended"
    assert hook.grade("t:a", 0.8, **changed).outcome == "duplicate"
    assert [seq for seq, _ in seqs(log)] == [1, 2]


def test_the_time_is_no_part_of_the_value(hook: Producer) -> None:
    hook.grade("t:a", 0.8, at=AT)

    assert hook.grade("t:a", 0.8).outcome == "duplicate"


def test_another_session_rubric_or_producer_counts_for_itself(hook: Producer, log: Log) -> None:
    other = Producer(log, "judge")
    for _ in range(2):
        hook.grade("t:a", 0.8)
        hook.grade("t:b", 0.8)
        hook.grade("t:a", 0.8, rubric="style")
        other.grade("t:a", 0.8)

    assert [seq for seq, _ in seqs(log)] == [1, 1, 1, 1]


def test_a_seq_that_was_given_is_gone_on_from_whatever_order_it_came_in(hook: Producer, log: Log) -> None:
    hook.grade("t:a", 0.9, seq=7)
    hook.grade("t:a", 0.1, seq=3)

    assert hook.grade("t:a", 0.9).outcome == "duplicate"
    assert hook.grade("t:a", 0.1).outcome == "appended"
    assert seqs(log)[-1] == (8, 0.1)


def test_seq_zero_counts_too(hook: Producer, log: Log) -> None:
    hook.grade("t:a", 0.9, seq=0)

    assert hook.grade("t:a", 0.9).outcome == "duplicate"
    hook.grade("t:a", 0.5)
    assert seqs(log) == [(0, 0.9), (1, 0.5)]


def test_a_key_names_the_first_value_and_later_ones_with_their_seq(hook: Producer) -> None:
    key = composite_key("W", "E", "grade")

    ids = [hook.grade("t:a", reward, key=key).id for reward in (0.8, 0.5, 0.5)]

    assert ids == [
        event_id("hook", key),
        event_id("hook", composite_key(key, 2)),
        event_id("hook", composite_key(key, 2)),
    ]


def test_a_retraction_is_a_seq_and_a_grade_after_it_re_instates(hook: Producer, log: Log) -> None:
    hook.grade("t:a", 0.8)
    outcomes = [hook.retract("t:a", reason="wrong").outcome, hook.retract("t:a", reason="still").outcome]
    again = hook.grade("t:a", 0.8)

    assert outcomes == ["appended", "duplicate"]
    assert again.outcome == "appended"
    assert seqs(log) == [(1, 0.8), (2, None), (3, 0.8)]


def test_there_is_nothing_to_take_back_before_there_is_a_grade(hook: Producer, log: Log) -> None:
    hook.grade("t:a", 0.8, rubric="style")

    with pytest.raises(UsageError, match="hook/overall has not graded t:a; there is no grade to retract"):
        hook.retract("t:a")
    assert log.head() == 1


@pytest.mark.parametrize("reward", [0.8, 0.2])
def test_grade_in_conflict_is_followed_by_a_new_seq_and_never_equal(hook: Producer, log: Log, reward: float) -> None:
    hook.grade("t:a", 0.8, seq=1)
    assert hook.grade("t:a", 0.2, seq=1).outcome == "conflict"

    assert hook.grade("t:a", reward).outcome == "appended"
    assert seqs(log)[-1] == (2, reward)


def test_an_erased_grade_keeps_its_seq_from_being_used_again(
    hook: Producer, log: Log, recorder: MemoryRecorder
) -> None:
    hook.grade("t:a", 0.8)
    recorder.erase(1)

    assert hook.grade("t:a", 0.5).outcome == "appended"
    assert [row.event.seq for row in log.read() if isinstance(row.event, Event)] == [2]  # type: ignore[attr-defined]


class Overtaken(MemoryRecorder):
    """Somebody else grades after each of our first reads and before our append."""

    def __init__(self, rivals: Iterator[float]) -> None:
        super().__init__()
        self.rivals = rivals
        self.overtaking = False

    def decide(self, decision: Any, *, timeout_s: float | None = None, inline: bool = False) -> int:
        if not self.overtaking and (reward := next(self.rivals, None)) is not None:
            self.overtaking = True
            Producer(Log(self), "hook").grade("t:a", reward)
            self.overtaking = False
        return super().decide(decision, timeout_s=timeout_s, inline=inline)


def test_when_somebody_is_faster_the_value_is_decided_again() -> None:
    recorder = Overtaken(iter([0.1, 0.2]))

    receipt = Producer(Log(recorder), "hook").grade("t:a", 0.9)

    assert receipt.outcome == "appended"
    assert seqs(Log(recorder)) == [(1, 0.1), (2, 0.2), (3, 0.9)]


def test_when_somebody_is_faster_with_the_same_value_it_is_his() -> None:
    recorder = Overtaken(iter([0.9]))

    receipt = Producer(Log(recorder), "hook").grade("t:a", 0.9)

    assert (receipt.outcome, receipt.position) == ("duplicate", 1)
    assert seqs(Log(recorder)) == [(1, 0.9)]


def test_two_first_values_under_one_key_are_no_conflict() -> None:
    """The id stands there with another content, but the condition failed first."""

    class Rival(Overtaken):
        def decide(self, decision: Any, *, timeout_s: float | None = None, inline: bool = False) -> int:
            if not self.events and not self.overtaking:
                self.overtaking = True
                Producer(Log(self), "hook").grade("t:a", 0.1, key="k")
            return MemoryRecorder.decide(self, decision, timeout_s=timeout_s, inline=inline)

    recorder = Rival(iter([]))
    Producer(Log(recorder), "hook").grade("t:a", 0.9, key="k")

    assert [row.outcome for row in Log(recorder).read()] == ["appended", "appended"]
    assert seqs(Log(recorder)) == [(1, 0.1), (2, 0.9)]


def test_it_gives_up_when_others_are_always_faster() -> None:
    recorder = Overtaken(iter([number / 1_000 for number in range(ATTEMPTS)]))

    with pytest.raises(ConditionFailedError):
        Producer(Log(recorder), "hook").grade("t:a", 0.9)
    assert len(recorder.events) == ATTEMPTS


def test_threads_that_grade_at_once_lose_no_value(tmp_path: Path) -> None:
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        rewards = [number / 10 for number in range(8)]
        threads = [threading.Thread(target=ledger.producer("judge").grade, args=("t:a", one)) for one in rewards]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = seqs(ledger.log)
    assert [seq for seq, _ in found] == list(range(1, 9))
    assert sorted(reward or 0.0 for _, reward in found) == rewards


@pytest.mark.parametrize("field", ["arms", "withheld"])
def test_a_text_is_no_list_of_arms(ledger: rightful.Ledger, field: str) -> None:
    """Its letters would be arms for ever."""
    shown: dict[str, Any] = {"arms": [], "turn": "1", "index": 0, field: "git"}

    with pytest.raises(InvalidEventError, match="got `str`") as refused:
        ledger.producer("x").exposure("a:b", **shown)

    assert refused.value.place == f"$.{field}"
    assert list(ledger.read()) == []
