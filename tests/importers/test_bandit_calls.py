"""Calls of another updater's bandit: one append a call, safe to repeat, refused where the updater refuses."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.log.memory import MemoryRecorder

from rightful.errors import InvalidEventError
from rightful.identity import event_id
from rightful.importers.bandits.updater_calls import BanditCalls
from rightful.log.log import Log
from rightful.policies import PRESETS, Policy, policy_of
from rightful.projections.projected import Projected

AT_TEXT = "2026-08-01T10:15:00Z"
AT = datetime(2026, 8, 1, 10, 15, tzinfo=UTC)
GPTME, BOUND = PRESETS["gptme"], PRESETS["bound"]


@pytest.fixture
def log() -> Log:
    return Log(MemoryRecorder(), clock=lambda: 1)


@pytest.fixture
def calls(log: Log) -> BanditCalls:
    return BanditCalls(log, "runner", clock=lambda: 1_785_579_300_000_000)


def events(log: Log) -> list[dict[str, Any]]:
    return [json.loads(msgspec.json.encode(row.event)) for row in log.read()]


def alphas(log: Log, policy: Policy = GPTME) -> dict[str, float]:
    return {arm: one.alpha for arm, one in Projected(log).posteriors(policy).arms.items()}


def test_an_update_is_an_exposure_and_a_grade_in_one_append(log: Log, calls: BanditCalls) -> None:
    receipts = calls.update(
        ["b", "a", "b"], 0.25, call="c/1", context=("code", None), per_arm_rewards={"a": 0.5, "z": 9.0}, decay_rate=0.9
    )

    assert [(one.outcome, one.id) for one in receipts] == [
        ("appended", event_id("runner", '["exposure","c/1"]')),
        ("appended", event_id("runner", '["grade","c/1"]')),
    ]
    shown, grade = events(log)
    for one in (shown, grade):
        assert (one["producer"], one["session"], one["at"]) == ("runner", "bandit-call:runner#c/1", AT_TEXT)
    assert (shown["arms"], shown["context"]) == ([{"arm": "b"}, {"arm": "a"}, {"arm": "b"}], ["code", None])
    assert (grade["reward"], grade["per_arm"], grade["decay_rate"]) == (0.25, {"a": 0.5}, 0.9)
    assert (grade["seq"], grade["exposure_session"]) == (1, None)


def test_recording_a_call_again_writes_nothing(log: Log, calls: BanditCalls) -> None:
    got = []
    for at in (AT, None):
        got = [
            *calls.update(["a"], "productive", call="1", session="gptme:fox", at=at),
            *calls.update(["a"], 0.5, call="2", session="gptme:fox", at=at),
            calls.decay(0.5, call="3", at=at),
            calls.pruned(["a"], [("a", ("code",))], call="4", at=at),
        ]

    assert [receipt.outcome for receipt in got] == ["duplicate"] * 6
    assert log.head() == 6
    assert [one.get("seq") for one in events(log)] == [None, 1, None, 2, None, None]


def test_session_of_several_updates_pays_each_once_and_the_last_by_default(log: Log, calls: BanditCalls) -> None:
    """By the historical rule both calls paid; by the bound one the second is a regrade of the first."""
    calls.update(["a"], 1.0, call="1", session="gptme:fox")
    calls.update(["b"], 0.5, call="2", session="gptme:fox")

    assert alphas(log) == {"a": 2.0, "b": 1.5}
    assert alphas(log, BOUND) == {"b": 1.5}


def test_calls_of_no_session_pay_under_every_rule(log: Log, calls: BanditCalls) -> None:
    calls.update(["a"], 1.0, call="1", at=AT)
    calls.update(["a", "b"], "noop", call="2", at=AT + timedelta(microseconds=1))

    for name in ("gptme", "bound", "historical-newest"):
        found = Projected(log).posteriors(PRESETS[name])
        assert {arm: (one.alpha, one.beta, one.n) for arm, one in found.arms.items()} == {
            "a": (2.0, 2.0, 2),
            "b": (1.0, 2.0, 1),
        }


def test_two_updaters_may_use_the_same_ids(log: Log, calls: BanditCalls) -> None:
    calls.update(["a"], 1.0, call="1")
    BanditCalls(log, "runner-2").update(["b"], 1.0, call="1", at=AT)

    assert alphas(log) == {"a": 2.0, "b": 2.0}


@pytest.mark.parametrize("outcome", [7.0, -1.0, float("nan"), float("inf")])
def test_a_number_that_no_arm_uses_is_kept_and_pays_nothing(log: Log, calls: BanditCalls, outcome: float) -> None:
    calls.update([], outcome, call="1", decay_rate=0.5)
    calls.update(["a"], outcome, call="2", per_arm_rewards={"a": 0.25})

    assert alphas(log) == {"a": 1.25}
    grades = [one for one in events(log) if one["type"] == "grade.recorded"]
    assert [(one["reward"], one["extra"]) for one in grades] == [(0.0, {"outcome": repr(outcome)})] * 2


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"arms": ["a"], "outcome": 1.5}, r"\$\.reward"),
        ({"arms": ["a"], "outcome": "odd"}, r"\$\.outcome"),
        ({"arms": ["a", "b"], "outcome": 1.0, "per_arm_rewards": {"b": float("nan")}}, r"\$\.per_arm"),
        ({"arms": "abc", "outcome": 1.0}, r"\$\.arms"),
        ({"arms": ["a"], "outcome": 1.0, "decay_rate": 0.0}, r"\$\.decay_rate"),
        ({"arms": [""], "outcome": 1.0}, r"\$\.arms"),
        ({"arms": ["a"], "outcome": 1.0, "session": "nobody"}, r"\$\.session"),
    ],
)
def test_a_call_that_the_updater_refuses_writes_nothing_at_all(
    log: Log, calls: BanditCalls, said: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidEventError, match=place):
        calls.update(**said, call="1")

    assert log.head() == 0


def test_what_is_no_decay_prune_or_name_is_refused(log: Log, calls: BanditCalls) -> None:
    with pytest.raises(InvalidEventError, match="gamma"):
        calls.decay(1.5, call="1")
    with pytest.raises(InvalidEventError, match="arms"):
        calls.pruned([""], call="1")
    with pytest.raises(InvalidEventError, match="producer"):
        BanditCalls(log, "no name")

    assert log.head() == 0


def test_calls_of_one_session_from_many_threads_get_distinct_seqs(log: Log, calls: BanditCalls) -> None:
    def some(thread: int) -> None:
        for number in range(10):
            calls.update(["a"], 0.5, call=f"{thread}/{number}", session="gptme:fox")

    threads = [threading.Thread(target=some, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(one["seq"] for one in events(log) if one["type"] == "grade.recorded") == list(range(1, 41))
    assert alphas(log) == {"a": 21.0}


def test_the_calls_of_one_updater_can_be_asked_for_alone(log: Log, calls: BanditCalls) -> None:
    """A hook's exposures and a judge's grades in the same ledger do not disturb a parity replay."""
    calls.update(["a"], 1.0, call="1", session="gptme:fox")
    common = {"producer": "hook", "at": "2026-08-01T10:15:00Z", "session": "gptme:fox"}
    log.append([{**common, "type": "exposure.recorded", "key": "e", "arms": [{"arm": "a"}, {"arm": "b"}]}])
    log.append([{**common, "type": "grade.recorded", "key": "g", "reward": 0.5, "seq": 1}])

    alone = policy_of({**GPTME.as_dict(), "graders": ["runner/overall"]})
    assert alphas(log, alone) == {"a": 2.0}
    assert alphas(log) == {"a": 2.5, "b": 1.5}
