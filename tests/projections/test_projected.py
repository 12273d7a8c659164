"""Projected: answers kept up with the log, at any position, whatever stops a fold in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import (
    alphas,
    exposed,
    graded,
    linked,
    log_of,
    mentioned,
    opened,
    projected,
    published,
    retracted,
    withdrawn,
)  # fmt: skip

from rightful.errors import DamagedRowError, UsageError
from rightful.log.rows import Stored
from rightful.policies import Policy, policy_of
from rightful.projections import projected as module
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.session_names import Names
from rightful.projections.projected import Projected
from rightful.times import at_of

ONE = [exposed("t:a/b", "x"), graded("t:a_b", 0.5)]
HELD = {"h": {"alpha": 2.0, "beta": 1.0, "n": 1}}
STANDING = [
    *ONE,
    linked("t:r", "u:r"),
    graded("t:r", 0.5),
    graded("t:s", 0.5, exposure_session="t:shown"),
    graded("t:w", 0.5, key="w"),
    graded("t:w", 0.25, key="w"),
]
LATER = [
    pytest.param([exposed("u:r", "x")], id="an exposure under the tool's name"),
    pytest.param([exposed("t:shown", "x")], id="the exposure that a grade pointed at"),
    pytest.param([exposed("t:elsewhere", "x", key=ONE[0]["key"])], id="a conflict from elsewhere"),
    pytest.param([withdrawn("w", 1, "judge")], id="the end of a conflict"),
    pytest.param([opened(arms=HELD)], id="a balance"),
    pytest.param([opened(arms=HELD, through="1970-01-01T00:05:00Z")], id="a balance that holds the grades"),
    pytest.param([opened(arms=HELD), exposed("t:z", "z"), published("a" * 64), graded("t:z", 0.5)], id="our own bytes"),
    pytest.param([mentioned("t:a:b")], id="a second name that the alias fits"),
    pytest.param([graded("t:a:b", outcome="unknown")], id="a grade that is none"),
    pytest.param([linked("t:a_b", "u:n"), linked("t:c", "u:n")], id="links"),
    pytest.param([exposed("t:a_b", "y")], id="an exact match"),
    pytest.param([graded("t:a/b", 0.25)], id="a second run that reaches it"),
    pytest.param([graded("t:c", 0.25, exposure_session="t:a/b")], id="a grade that points at it"),
    pytest.param([retracted("t:a_b", 2)], id="a retraction"),
    pytest.param([graded("t:a_b", 0.75, seq=2), exposed("t:z", "z")], id="a regrade"),
]


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("plain", [True, False])
def test_what_comes_later_changes_the_kept_answer_as_a_replay_would(
    later: list[dict[str, Any]], plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not plain:
        monkeypatch.setattr("rightful.projections.facts.fold.is_plain", lambda _: False)
    log = log_of(*STANDING)
    kept = projected(log)
    before = kept.posteriors(Policy())
    log.append(later)

    after = kept.posteriors(Policy())

    assert after == projected(log).posteriors(Policy())
    assert (after.arms, after.counters) != (before.arms, before.counters)


def test_a_kept_answer_is_shifted_and_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(*ONE)
    kept = projected(log)
    kept.posteriors(Policy())
    monkeypatch.delattr(module, "tally")
    log.append([exposed("t:c", "y"), graded("t:c", 0.75)])

    assert alphas(kept.posteriors(Policy())) == {"x": 1.5, "y": 1.75}


def test_more_touched_names_than_is_worth_it_are_settled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_NAMES", 1)
    log = log_of(*ONE)
    kept = projected(log)
    kept.posteriors(Policy())
    monkeypatch.delattr(Names, "closure")
    log.append([exposed(f"t:{number}", "y") for number in range(3)] + [graded("t:1", 0.75)])

    assert alphas(kept.posteriors(Policy())) == {"x": 1.5, "y": 1.75}


def test_of_many_policies_the_last_few_are_kept_and_all_are_answered() -> None:
    log = log_of(*ONE)
    kept = projected(log)
    policies = [policy_of({"skew_s": float(number)}) for number in range(3 * module.CACHED_POLICIES)]
    for policy in policies:
        kept.posteriors(policy)
    log.append([graded("t:a_b", 0.75, seq=2)])

    assert {kept.posteriors(policy).arms["x"].alpha for policy in policies} == {1.75}
    assert len(kept._policy_sums) == module.CACHED_POLICIES


class Failing(FakeLog):
    """Fails before a page, once."""

    fails_before: int | None = None
    error: BaseException = DamagedRowError("the ledger", 3, "told so")

    def scan(self, after: int = 0, until: int | None = None) -> Iterator[list[Stored]]:
        for page in super().scan(after, until):
            if page[0].position == self.fails_before:
                self.fails_before = None
                raise self.error
            yield page


def failing(error: BaseException) -> tuple[Failing, Projected]:
    log = Failing(page=1)
    log.error = error
    log.append(ONE)
    kept = projected(log)
    kept.posteriors(Policy())
    log.append([mentioned("t:a:b"), exposed("t:c", "y"), graded("t:c", 0.75)])
    log.fails_before = 4
    return log, kept


@pytest.mark.parametrize("error", [DamagedRowError("the ledger", 4, "told so"), KeyboardInterrupt(), MemoryError()])
def test_a_fold_that_was_stopped_leaves_no_stale_answer(error: BaseException) -> None:
    """The row that was folded before the failure made the alias ambiguous."""
    log, kept = failing(error)
    with pytest.raises(type(error)):
        kept.posteriors(Policy())

    got = kept.posteriors(Policy())

    assert got == projected(log).posteriors(Policy())
    assert alphas(got) == {"y": 1.75}


def test_a_fold_that_was_stopped_by_its_listener_is_folded_once() -> None:
    log = FakeLog(page=1)
    log.append(ONE)
    kept = projected(log)

    def stop(reached: int, _: int) -> None:
        if reached == len(ONE):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.catch_up(stop)

    assert kept.posteriors(policy_of({"revision": "additive"})).arms["x"].n == 1


def test_a_page_that_was_folded_in_half_is_folded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are in the columns, and the position is not."""
    additive = policy_of({"revision": "additive"})
    log = log_of(*ONE)
    kept = projected(log)
    with monkeypatch.context() as full:
        full.delattr(Facts, "tick_all")
        with pytest.raises(AttributeError):
            kept.posteriors(additive)

    assert kept.posteriors(additive).arms["x"].n == 1


def test_progress_is_reported_after_every_page() -> None:
    log = FakeLog(page=2)
    log.append([mentioned(f"t:{number}") for number in range(5)])
    heard: list[tuple[int, int]] = []

    projected(log).catch_up(lambda reached, goal: heard.append((reached, goal)))

    assert heard == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize("as_of", [-1, 3])
def test_a_position_that_is_not_in_the_ledger_is_refused(as_of: int) -> None:
    with pytest.raises(UsageError, match="ends at 2"):
        projected(log_of(*ONE)).posteriors(Policy(), as_of=as_of)


def test_position_nought_is_the_empty_ledger() -> None:
    got = projected(log_of(*ONE)).posteriors(Policy(), as_of=0)

    assert (got.through, got.arms, got.counters) == (0, {}, {})


@pytest.mark.parametrize(("second", "through"), [(99, 0), (100, 1), (199, 1), (200, 3), (249, 3), (250, 4), (999, 5)])
def test_a_time_is_the_longest_prefix_recorded_by_then(second: int, through: int) -> None:
    """The row of 150 was recorded after that of 200, so it is recorded at 200."""
    shown = [exposed(f"t:{at}", at=at) for at in (100, 200, 150, 250, 300)]
    log = log_of(*shown)
    asked = projected(log)

    for as_of in (at_of(second * 1_000_000), at_of(second * 1_000_000).isoformat()):
        assert asked.posteriors(Policy(), as_of=as_of).through == through
