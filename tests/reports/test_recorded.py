"""Which rule really ran: state files of known rules, and what the log lacks of them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.bandit import Bandit
from tests.log.memory import MemoryRecorder
from tests.projections.telling import exposed, graded, log_of, opened, published
from tests.projections.telling import projected as of_log
from tests.reports.recording import TWO, S, ask, best, document_of, state

from rightful.cli.support.audit_recorded import verdict
from rightful.errors import UsageError
from rightful.importers.bandits.updater_calls import BanditCalls
from rightful.log.log import Log
from rightful.policies import policy_of
from rightful.projections.projected import Projected
from rightful.reports.audits.recorded_rule import RecordedRule, compare_with_rules
from rightful.reports.audits.state_beliefs import parse_state_file
from rightful.times import text_of


class Runner:
    """A bandit, and the log of its calls, each recorded a little after it was saved."""

    def __init__(self) -> None:
        self.at = datetime(2026, 8, 1, 10, 15, tzinfo=UTC)
        self.disk: dict[str, str] = {}
        self.bandit = self.loaded()
        self.log = Log(MemoryRecorder(), clock=lambda: 1)
        self.calls = BanditCalls(self.log, "runner")

    def loaded(self) -> Bandit:
        return Bandit(self.disk, lambda: self.at)

    def update(self, arms: list[str], outcome: float, *, late_s: float = 0, recorded: bool = True, **more: Any) -> None:
        self.at += timedelta(minutes=10)
        self.bandit.update(arms, outcome, **more)
        if recorded:
            self.calls.update(arms, outcome, call=self.at.isoformat(), at=self.at + timedelta(seconds=late_s), **more)

    def some(self) -> None:
        for place in range(12):
            arms = [f"lessons/{name}.md" for name in ("a", "b", "c", "d")][place % 4 :]
            self.update(arms, 0.1 * (place % 7), decay_rate=0.9, context=("code", "opus") if place % 2 else None)

    @property
    def file(self) -> bytes:
        return self.disk["file"].encode()

    def compared(self, **more: Any) -> RecordedRule:
        return compare_with_rules(Projected(self.log), self.file, **more)


def test_a_bandit_whose_calls_were_recorded_is_gptme_bit_for_bit() -> None:
    runner = Runner()
    runner.some()

    found = runner.compared()

    assert best(found).policy == "gptme"
    assert {one.policy: one.close for one in found.fitting}.get("bound, decay session:0.9", 1) > 0  # not bit for bit
    assert (best(found).exact, best(found).wrong, best(found).max_alpha, best(found).max_n) == (7, 0, 0.0, 0)
    assert (found.arms, found.contexts, found.lacks) == (4, 3, ())
    assert found.sha256 == hashlib.sha256(runner.file).hexdigest()


def test_a_file_that_the_newest_session_was_paid_in_is_historical_newest() -> None:
    """The two-file case: y got both rewards."""
    found = ask(state({"y": (2.0, 2.0, 2)}, last=40), *TWO)

    assert [one.policy for one in found.fitting] == ["historical-newest"]
    assert [one.wrong for one in found.candidates if one.policy == "bound"] == [2]


def test_unrecorded_update_is_listed_as_missing_from_the_log() -> None:
    runner = Runner()
    runner.some()
    runner.update(["lessons/new.md"], 0.25, recorded=False)
    runner.update(["lessons/a.md"], 1.0)

    found = runner.compared()

    assert found.fitting == []
    assert best(found).policy == "gptme"
    [lack] = found.lacks
    assert (lack.arm, lack.what, lack.alpha, lack.beta, lack.n) == ("lessons/new.md", "missing", 0.25, 0.75, 1)
    assert (lack.grades, lack.reward) == (1, 0.25)


def test_an_update_that_another_handle_overwrote_is_what_the_file_lost() -> None:
    """Two handles on one file: the last writer wins."""
    runner = Runner()
    runner.update(["lessons/a.md"], 1.0)
    other = runner.loaded()
    runner.update(["lessons/b.md"], 0.75)
    runner.bandit = other
    runner.update(["lessons/a.md"], 0.5)

    found = runner.compared()

    assert found.fitting == []
    [lack] = found.lacks
    assert (lack.arm, lack.what, lack.alpha, lack.beta, lack.n) == ("lessons/b.md", "lost", -0.75, -0.25, None)
    assert (lack.grades, lack.reward, best(found).only_log) == (1, 0.75, 1)


def test_rewards_that_went_another_way_are_neither_missing_nor_lost() -> None:
    found = ask(state({"x": (1.25, 1.75, 1), "y": (1.75, 1.25, 1)}, last=40), *TWO)

    assert best(found).policy == "bound"
    assert {lack.arm: lack.what for lack in found.lacks} == {"x": "other", "y": "other"}
    assert (best(found).max_alpha, best(found).max_beta, best(found).max_n) == (0.5, 0.5, 0)


def test_within_rounding_is_a_fit_that_is_not_bit_for_bit() -> None:
    found = ask(state({"x": (1.75 + 1e-12, 1.25, 1), "y": (1.25, 1.75, 1)}, last=40), *TWO)

    fits = {one.policy: (one.exact, one.close) for one in found.fitting}
    assert fits == {"bound": (1, 1), "gptme": (1, 1)}
    assert not ask(state({"x": (1.75, 1.25, 2), "y": (1.25, 1.75, 1)}, last=40), *TWO).fitting


def test_what_is_later_than_the_file_is_left_out_and_said() -> None:
    found = ask(state({"x": (1.75, 1.25, 1)}, last=30), *TWO, graded("t:c", 1.0, at=200))

    assert "bound" in [one.policy for one in found.fitting]
    assert best(found).until == 30 * S
    assert found.notes == ("2 grades are later than the file's last update and excluded.",)


def test_an_exposure_with_a_files_time_is_never_later() -> None:
    """Its time is only an upper bound: somebody touched the hook's state file since."""
    touched = exposed("t:c", "z", at=500, at_basis="file")

    found = ask(state({"z": (1.5, 1.5, 1)}, last=40), touched, graded("t:c", 0.5, at=30))

    assert [one.policy for one in found.fitting] == ["bound", "gptme"]


def test_call_recorded_right_after_the_save_belongs_to_the_file() -> None:
    runner = Runner()
    runner.some()
    runner.update(["lessons/a.md"], 0.5, late_s=2.5)

    assert [one.policy for one in runner.compared().fitting] == ["gptme"]


def test_nightly_decay_belongs_to_the_file_despite_its_time() -> None:
    runner = Runner()
    runner.some()
    runner.at += timedelta(hours=8)
    runner.bandit.decay(0.5)
    runner.calls.decay(0.5, call="nightly", at=runner.at)
    wanted = runner.file
    runner.update(["lessons/a.md"], 1.0)

    assert [one.policy for one in compare_with_rules(Projected(runner.log), wanted).fitting] == ["gptme"]


def test_the_balance_that_this_file_opened_is_not_held_against_the_file() -> None:
    data = state({"x": (1.75, 1.25, 1), "y": (1.25, 1.75, 1)}, last=40)
    itself = opened(at=50, arms=HELD, through=text_of(40 * S), sha256=hashlib.sha256(data).hexdigest())

    found = ask(data, *TWO, itself)

    assert "bound" in [one.policy for one in found.fitting]
    assert "opening balance of this file is excluded" in found.notes[0]
    assert not any("without opening balances" in one.policy for one in found.candidates)
    assert ask(data, itself).fitting == []  # which would fit itself


HELD = {"x": {"alpha": 1.75, "beta": 1.25, "n": 1}, "y": {"alpha": 1.25, "beta": 1.75, "n": 1}}


def test_an_older_balance_counts_and_is_tried_without() -> None:
    older = opened(at=5, arms={"x": {"alpha": 3.0, "beta": 1.0, "n": 2}}, through=text_of(5 * S))

    found = ask(state({"x": (3.75, 1.25, 3), "y": (1.25, 1.75, 1)}, last=40), *TWO, older)
    assert [one.policy for one in found.fitting] == ["bound", "gptme"]

    found = ask(state({"x": (1.75, 1.25, 1), "y": (1.25, 1.75, 1)}, last=40), *TWO, older)
    assert {"bound, without opening balances", "gptme, without opening balances"} == {
        one.policy for one in found.fitting
    }


def test_a_decay_by_session_is_found_from_what_evidence_is_left() -> None:
    events = [
        one
        for place in range(9)
        for one in (exposed(f"t:{place}", "x", at=10 * place), graded(f"t:{place}", 0.1 * place, at=10 * place + 5))
    ]
    asked = of_log(log_of(*events)).posteriors(policy_of({"decay": {"mode": "session", "gamma": 0.9}})).arms["x"]

    found = ask(state({"x": (asked.alpha, asked.beta, 9)}, last=100), *events)

    assert best(found).policy == "bound, decay session:0.9"
    assert best(found).fits


def test_a_rule_that_is_asked_for_is_tried_too() -> None:
    policy = policy_of({"credit": "split", "revision": "additive"})
    shown = [exposed("t:a", "x", "y", at=10), graded("t:a", 1.0, at=30)]

    found = ask(state({"x": (1.5, 1.0, 1), "y": (1.5, 1.0, 1)}, last=40), *shown, extra_rules=[("mine", policy)])

    assert [(one.policy, one.policy_hash) for one in found.fitting] == [("mine", policy.hash)]


def test_the_calls_of_one_updater_are_tried_alone() -> None:
    """A hook and a judge write to the same ledger."""
    runner = Runner()
    runner.some()
    shown = exposed("t:a", "lessons/a.md", at=1_785_579_000)
    runner.log.append([shown, graded("t:a", 1.0, at=1_785_579_001)])

    assert [one.policy for one in runner.compared().fitting] == ["gptme, paid by runner/overall"]


def test_decay_of_another_updater_is_not_in_the_file() -> None:
    """Row A1: the harness decays a bandit of its own, though it grades nothing."""
    runner = Runner()
    runner.some()
    other = BanditCalls(runner.log, "harness")
    other.decay(0.5, call="nightly", at=runner.at - timedelta(minutes=15))

    found = runner.compared()

    assert [one.policy for one in found.fitting][:1] == ["gptme, paid by runner/overall"]
    assert found.fitting[0].exact == found.arms + found.contexts


def test_as_of_is_what_had_been_recorded_by_then() -> None:
    found = ask(state({"x": (1.75, 1.25, 1)}), *TWO, as_of=3)

    assert found.through == 3
    assert "bound" in [one.policy for one in found.fitting]


def test_a_file_that_rightful_published_is_reported() -> None:
    data = state({})
    assert ask(data, *TWO, published(hashlib.sha256(data).hexdigest())).notes[-1] == (
        "Rightful published this file itself (position 5)."
    )


def test_an_arm_at_the_prior_that_was_never_selected_is_no_difference() -> None:
    """A refused call makes one."""
    found = ask(state({"x": (1.75, 1.25, 1), "y": (1.25, 1.75, 1), "z": (1.0, 1.0, 0)}, last=40), *TWO)

    assert (best(found).exact, best(found).fits) == (3, True)


def test_file_that_shares_no_arm_with_the_log_cannot_be_determined() -> None:
    """Row A9: it was told as about 2 credits of 2 arms that the file lost."""
    found = ask(state({"p": (1.75, 1.25, 1), "q": (1.25, 1.75, 1)}, last=40), *TWO)

    assert (found.common, found.is_decidable, found.fitting) == (0, False, [])
    assert verdict(found).startswith("It cannot be determined which rule wrote the file: no arm in common.")
    assert ask(state({"x": (9.0, 1.0, 8), "q": (1.25, 1.75, 1)}, last=40), *TWO).common == 1


def test_contexts_are_compared_only_where_the_file_keeps_them() -> None:
    shown = [exposed("t:a", "x", context=["code"], at=10), graded("t:a", 0.75, at=30)]

    assert best(ask(state({"x": (1.75, 1.25, 1)}, last=40), *shown)).fits


def test_json_has_stable_keys() -> None:
    document = document_of(ask(state({"x": (1.75, 1.25, 1)}, last=40), *TWO))

    assert list(document) == [
        "fits", "nearest", "sha256", "arms", "contexts", "last_updated", "through", "grades", "credited", "common",
        "candidates", "changes", "lacks", "notes",
    ]  # fmt: skip
    assert (document["fits"], document["nearest"], document["last_updated"]) == ([], "bound", 40 * S)
    assert (document["grades"], document["credited"]) == (2, 2)
    assert document["candidates"][0]["fits"] is False
    assert document["lacks"][0] == {
        "arm": "y",
        "context": None,
        "alpha": -0.25,
        "beta": -0.75,
        "n": None,
        "what": "lost",
    }


# The files.


def test_all_four_shapes_are_read() -> None:
    when = {"total_rewards": 1, "last_updated": "1970-01-01T00:00:40"}
    gptme = {
        "arms": {"x": {"arm_id": "x", "alpha": 2.5, "beta": 1, "total_selections": 2, **when}},
        "contextual_arms": {"x": {'["code", null]': {"arm_id": "x", "alpha": 1.5, "beta": 1.5, "total_selections": 1}}},
    }
    hook = {"arms": {"/abs/x.md": {"alpha": 2.2, "beta": 3.1, "confounded": True}}}
    judged = {"arms": {"quote-paths": {"helpful": 4, "harmful": 1}, "x": {"alpha": 2.0, "beta": 1.5}}}
    pm = {"arms": {"pm-model:ci-fix:opus": {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}

    assert parse_state_file(json.dumps(gptme).encode()).beliefs == {
        ("x", None): (2.5, 1.0, 2, 40 * S),
        ("x", ("code", None)): (1.5, 1.5, 1, None),
    }
    assert parse_state_file(json.dumps(hook).encode()).beliefs == {("/abs/x.md", None): (2.2, 3.1, None, None)}
    assert parse_state_file(json.dumps(judged).encode()).beliefs == {("x", None): (2.0, 1.5, None, None)}
    assert parse_state_file(json.dumps(pm).encode()).beliefs == {("pm-model:ci-fix:opus", None): (1.7, 1.3, 1, None)}
    assert parse_state_file(json.dumps(judged).encode()).notes[0].startswith("1 of its arms have only a judge's counts")


def test_the_time_of_a_file_is_its_newest_one() -> None:
    """A refused call that a decay saved leaves an arm newer than the file says it is."""
    arms = {"x": {"alpha": 2, "beta": 1, "last_updated": "2026-08-01T10:15:09+00:00"}, "y": {"alpha": 1, "beta": 1}}

    assert parse_state_file(
        json.dumps({"arms": arms, "last_updated": "2026-08-01T10:15:00+00:00"}).encode()
    ).last_us == (1_785_579_309 * S)
    assert (
        parse_state_file(
            json.dumps({"arms": arms | {"x": {"alpha": 2, "beta": 1, "last_updated": "now"}}}).encode()
        ).last_us
        is None
    )


@pytest.mark.parametrize("value", [True, "2", 0, -1.0, None, 1e999, 10**400])
def test_what_is_no_number_above_zero_is_skipped_and_said(value: object) -> None:
    found = parse_state_file(
        json.dumps({"arms": {"x": {"alpha": value, "beta": 1.0}, "y": {"alpha": 2, "beta": 1}}}).encode()
    )

    assert list(found.beliefs) == [("y", None)]
    assert "1 of its arms could not be read" in found.notes[0]


def test_a_context_that_is_none_is_skipped() -> None:
    odd = {"x": {"null": {"alpha": 2, "beta": 1}, "[1]": {"alpha": 2, "beta": 1}, "[": {"alpha": 2, "beta": 1}}}
    found = parse_state_file(json.dumps({"arms": {}, "contextual_arms": odd}).encode())

    assert (found.beliefs, found.notes[0][:1]) == ({}, "3")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"arms":[]}', b'{"arms":null}', b'{"sessions":{}}'])
def test_what_is_no_state_file_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="not a bandit state"):
        parse_state_file(data)
