"""A file that was written under one rule until a time and under another after it, against an own small updater."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field, replace

import pytest
from tests.projections.telling import decayed, exposed, graded, log_of
from tests.projections.telling import projected as of_log
from tests.reports.recording import TWO, S, ask, document_of, state
from tests.strategies import Wire

from rightful import limits
from rightful.cli.support.audit_recorded import verdict
from rightful.policies import PRESETS
from rightful.reports.audits.recorded_rule import RecordedRule, compare_with_rules
from rightful.times import text_of

NEWEST, ADDITIVE, BOUND = ("newest", "additive"), ("bound", "additive"), ("bound", "last_wins")
Rule = tuple[str, str]
NAMES = {NEWEST: "historical-newest", ADDITIVE: "gptme", BOUND: "bound"}
NAMES_WITH_DECAYS = {NEWEST: "historical-newest, decay events", ADDITIVE: "gptme", BOUND: "bound, decay events"}


@dataclass
class Grade:
    at: int
    session: str
    reward: float
    seq: int


@dataclass
class Past:
    """A generated log: sessions with their arms and the time at which they were shown, grades, decays."""

    shown: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    grades: list[Grade] = field(default_factory=list)
    decays: list[tuple[int, float]] = field(default_factory=list)

    @property
    def events(self) -> list[Wire]:
        timed = [(at, exposed(name, *arms, at=at)) for name, (at, arms) in self.shown.items()]
        timed += [(grade.at, graded(grade.session, grade.reward, at=grade.at, seq=grade.seq)) for grade in self.grades]
        timed += [(at, decayed(gamma, at=at)) for at, gamma in self.decays]
        return [event for _, event in sorted(timed, key=lambda pair: pair[0])]

    @property
    def end(self) -> int:
        return max(grade.at for grade in self.grades)


def past(seed: int, *, with_decays: bool, sessions: int = 14) -> Past:
    """Return sessions that overlap, so that the newest one is often not the graded one; a third is graded again."""
    rng, made = random.Random(seed), Past()
    times = iter(range(10, 100_000, 10))
    waiting: list[tuple[str, int]] = []
    for number in range(sessions):
        name = f"t:{number}"
        made.shown[name] = (next(times), rng.sample("abcdefg", rng.randint(1, 3)))
        waiting += [(name, 1)]
        while len(waiting) > rng.randint(0, 3):
            session, seq = waiting.pop(rng.randrange(len(waiting)))
            made.grades.append(Grade(next(times), session, rng.random(), seq))
            if seq < 3 and rng.random() < 0.33:
                waiting.append((session, seq + 1))
        if with_decays and rng.random() < 0.5:
            made.decays.append((next(times), rng.uniform(0.8, 0.99)))
    for session, seq in waiting:
        made.grades.append(Grade(next(times), session, rng.random(), seq))
    return made


def written(of: Past, *phases: tuple[Rule, int | None], replaces: bool = False) -> bytes:
    """Return the file of an updater that follows each rule until its time.

    A rule of `last_wins` replaces what it paid for the run itself; with `replaces` also what it would have paid
    before its own time.
    """
    credits_: list[tuple[Grade, Rule, str, float, float, int]] = []
    gone: list[tuple[str, float, float, int]] = []
    for grade in sorted(of.grades, key=lambda grade: grade.at):
        place = next(i for i, (_, until) in enumerate(phases) if until is None or grade.at <= until)
        join, revision = rule = phases[place][0]
        newest = max((name for name in of.shown if of.shown[name][0] <= grade.at), key=lambda name: of.shown[name][0])
        if revision == "last_wins":
            earlier = [credit for credit in credits_ if credit[0].session == grade.session]
            credits_ = [credit for credit in credits_ if credit not in earlier or credit[1] != rule]
            if replaces and not any(credit[1] == rule for credit in earlier) and earlier:
                old = max((one for one in of.grades if one.session == grade.session and one.at < grade.at),
                          key=lambda one: one.at)  # fmt: skip
                gone += [(arm, -old.reward, old.reward - 1.0, old.at) for arm in of.shown[grade.session][1]]
        paid = grade.session if join == "bound" else newest
        credits_ += [(grade, rule, arm, grade.reward, 1.0 - grade.reward, grade.at) for arm in of.shown[paid][1]]
    held: dict[str, tuple[float, float, int]] = {}
    rows = [(arm, up, down, at, 1) for _, _, arm, up, down, at in credits_]
    for arm, up, down, at, n in [*rows, *((*one, -1) for one in gone)]:
        left = 1.0
        for when, gamma in of.decays:
            left *= gamma if when > at else 1.0
        alpha, beta, count = held.get(arm, (1.0, 1.0, 0))
        held[arm] = (alpha + left * up, beta + left * down, count + n)
    return state(held, last=of.end)


def asked(of: Past, data: bytes) -> RecordedRule:
    return compare_with_rules(of_log(log_of(*of.events)), data)


PAIRS = [(NEWEST, BOUND), (NEWEST, ADDITIVE), (BOUND, NEWEST), (ADDITIVE, BOUND), (BOUND, ADDITIVE)]


@pytest.mark.sweep
@pytest.mark.parametrize("with_decays", [False, True])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_one_change_of_rule_is_found_with_its_time(first: Rule, second: Rule, *, with_decays: bool) -> None:
    """Row A12: nothing fitted."""
    names = NAMES_WITH_DECAYS if with_decays else NAMES
    changed = 0
    for seed in range(8):
        of = past(seed, with_decays=with_decays)
        at = random.Random(seed).randint(of.grades[3].at, of.grades[-3].at - 1)
        data = written(of, (first, at), (second, None))
        found = asked(of, data)
        if data in {written(of, (first, None)), written(of, (second, None))} or found.fitting:
            assert (bool(found.fitting), found.changes) == (True, ())
            continue
        changed += 1
        mine = [one for one in found.changes if (one.first, one.second) == (names[first], names[second])]
        assert any(one.after <= at * S < one.before for one in mine), (seed, at, found.changes)
        for one in mine:
            assert (one.grades_first, one.grades_second) == (
                sum(grade.at * S <= one.after for grade in of.grades),
                sum(grade.at * S >= one.before for grade in of.grades),
            )
    assert changed >= 4


def test_regrade_after_the_change_may_replace_the_earlier_grade() -> None:
    replaced = 0
    for seed, first in itertools.product(range(8), (ADDITIVE, NEWEST)):
        of = past(seed, with_decays=False)
        at = of.grades[len(of.grades) // 2].at
        data = written(of, (first, at), (BOUND, None), replaces=True)
        found = asked(of, data)
        if data != written(of, (first, at), (BOUND, None)) and not found.fitting:
            replaced += 1
            mine = [one for one in found.changes if (one.first, one.second) == (NAMES[first], "bound")]
            assert any(one.after <= at * S < one.before for one in mine)
    assert replaced >= 3


@pytest.mark.parametrize("with_decays", [False, True])
@pytest.mark.parametrize("rule", [NEWEST, ADDITIVE, BOUND])
def test_file_of_one_rule_is_not_a_change(rule: Rule, *, with_decays: bool) -> None:
    names = NAMES_WITH_DECAYS if with_decays else NAMES
    for seed in range(6):
        of = past(seed, with_decays=with_decays)
        found = asked(of, written(of, (rule, None)))

        assert (names[rule] in [one.policy for one in found.fitting], found.changes) == (True, ())


@pytest.mark.parametrize("with_decays", [False, True])
def test_file_that_no_single_change_explains_fits_nothing(*, with_decays: bool) -> None:
    """The rule changed and changed back; or one weight is another."""
    for seed in range(4):
        of = past(seed, with_decays=with_decays, sessions=30)
        third = len(of.grades) // 3
        twice = written(of, (NEWEST, of.grades[third].at), (ADDITIVE, of.grades[2 * third].at), (NEWEST, None))
        other = replace(of, grades=[replace(of.grades[0], reward=of.grades[0].reward / 2), *of.grades[1:]])
        edited = written(other, (NEWEST, of.grades[third].at), (ADDITIVE, None))

        for data in (twice, edited):
            found = asked(of, data)
            assert (found.fitting, found.changes) == ([], ())
            assert verdict(found).startswith("No rule fits;")


FIVE = [
    exposed("t:a", "x", at=10), exposed("t:b", "y", at=20), graded("t:a", 0.75, at=30),
    graded("t:b", 0.5, at=40), graded("t:a", 0.25, at=50, seq=2),
]  # fmt: skip


def test_words_and_json_name_the_rules_and_the_time() -> None:
    found = ask(state({"y": (2.25, 1.75, 2), "x": (1.25, 1.75, 1)}, last=50), *FIVE)

    assert verdict(found) == (
        "No rule fits alone, but one change of rule explains all 2 arms within 1e-9: `historical-newest` until a time "
        "from 1970-01-01T00:00:30Z and before 1970-01-01T00:00:50Z, `bound` after it. "
        "1 more change explains the file as well: `historical-newest` then `gptme`."
    )
    document = document_of(found)
    assert (document["fits"], len(document["changes"])) == ([], 2)
    assert document["changes"][0] == {
        "first": "historical-newest",
        "first_hash": PRESETS["historical-newest"].hash,
        "second": "bound",
        "second_hash": PRESETS["bound"].hash,
        "after": 30 * S,
        "before": 50 * S,
        "grades_first": 1,
        "grades_second": 1,
        "until": 50 * S,
    }


def test_run_with_too_many_grades_is_not_tried_before_a_change() -> None:
    """Each of its grades would cost a settlement; the other rules are tried all the same."""
    many = [graded("t:a", 0.5, at=100 + place, seq=2 + place) for place in range(limits.CHANGE_REVISIONS)]
    n = len(many)
    data = state({"x": (1.0 + n / 2, 1.0 + n / 2, n), "y": (1.75, 1.25, 1)}, last=100 + n)
    other_way = state({"x": (1.5, 1.5, 1), "y": (1.5, 1.5, 1)}, last=100 + n)

    found = ask(data, *TWO[:3], *many)

    assert {(one.first, one.second) for one in found.changes} == {("historical-newest", "gptme")}
    assert ask(other_way, *TWO[:3], *many[:-1]).changes != ()
    assert ask(other_way, *TWO[:3], *many).changes == ()


def timed(data: bytes, **last: int | None) -> bytes:
    """Return a state file whose arms have these times of their last update; seconds."""
    document = json.loads(data)
    for arm, at in last.items():
        document["arms"][arm] |= {} if at is None else {"last_updated": text_of(at * S)}
    return json.dumps(document).encode()


TURNED = [
    exposed("t:a", "x", at=1_000), exposed("t:c", "x", at=2_000), exposed("t:b", "y", at=3_000),
    graded("t:a", 0.75, at=10_000), graded("t:c", 0.75, at=20_000),
]  # fmt: skip
EITHER = {("historical-newest", "bound"), ("historical-newest", "gptme"), ("bound", "historical-newest"),
          ("gptme", "historical-newest")}  # fmt: skip
FIRST_NEWEST = {pair for pair in EITHER if pair[0] == "historical-newest"}


@pytest.mark.parametrize(
    ("last", "pairs"),
    [
        ({"x": 20_001, "y": 10_001}, FIRST_NEWEST),
        ({"x": 10_001, "y": 20_001}, EITHER - FIRST_NEWEST),
        ({"x": 20_001}, FIRST_NEWEST),
        ({"y": 10_001}, FIRST_NEWEST),
        ({}, EITHER),
        ({"x": 20_001, "y": 20_001}, EITHER),  # an updater that paid both grades at once
        ({"x": 10_030, "y": 20_030}, EITHER - FIRST_NEWEST),
        ({"x": 5, "y": 5}, EITHER),  # times that agree with no rule
    ],
)
def test_the_arms_own_times_rule_out_the_reverse_change(last: dict[str, int], pairs: set[tuple[str, str]]) -> None:
    """Each arm got one of two equal grades, so the numbers alone fit both directions."""
    data = timed(state({"x": (1.75, 1.25, 1), "y": (1.75, 1.25, 1)}, last=20_001), **last)

    found = ask(data, *TURNED)

    assert {(change.first, change.second) for change in found.changes} == pairs
    if len(pairs) > 2:
        assert verdict(found).endswith(
            " 3 more changes explain the file as well: `historical-newest` then `bound`, "
            "`historical-newest` then `gptme`, `gptme` then `historical-newest`."
        )
