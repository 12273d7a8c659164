"""What each reader reads back of what was planned for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import (
    AFTER,
    EVENTS,
    GIT,
    NOON,
    OLD,
    TESTS,
    applied,
    arm,
    ledger_with,
    plan_of,
    state,
    text,
    written,
)
from tests.projections.telling import exposed, graded
from tests.readers_of_tools import FRESH, KEYS, Bandit, hook_scores, hybrid_score, hybrid_scores, pm_arms

from rightful.errors import BackfillRefusedError, TargetError
from rightful.importers.bandits.bandit_file import read
from rightful.importers.bandits.bandit_formats import FORMATS

TIME = "1970-01-01T12:03:20+00:00"  # of the later grade


def backfilled(folder: Path, target: Path, reader: str, events: Any = EVENTS, **more: Any) -> dict[str, Any]:
    path = ledger_with(folder, events)
    applied(path, plan_of(path, target, reader, **more))
    found: dict[str, Any] = json.loads(target.read_bytes())
    return found


def test_gptme_sessions_loads_what_is_written_and_writes_the_same_bytes(tmp_path: Path) -> None:
    target = written(
        tmp_path / "s" / "bandit-state.json", state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.5344999999999995, 1.0, 2))
    )

    backfilled(tmp_path, target, "gptme-sessions")

    bandit = Bandit(target)
    assert bandit.said != FRESH
    numbers = {
        name: (one.alpha, one.beta, one.total_selections, one.total_rewards) for name, one in bandit.arms.items()
    }
    assert numbers == {GIT: (4.0, 3.0, 5, 4), OLD: (2.5344999999999995, 1.0, 2, 2), TESTS: (1.75, 1.25, 1, 1)}
    assert {name: one.last_updated for name, one in bandit.arms.items()} == {
        GIT: TIME, OLD: "1970-01-01T08:00:00+00:00", TESTS: "1970-01-01T12:01:00+00:00",
    }  # fmt: skip
    assert (bandit.total_sessions, bandit.created, bandit.last_updated) == (9, "1970-01-01T01:00:00+00:00", TIME)
    inside = bandit.contexts[GIT]["code", None]
    assert (inside.alpha, inside.beta, inside.total_selections) == (1.75, 1.25, 1)
    assert bandit.text().encode() == target.read_bytes()


def test_arms_of_gptme_sessions_have_six_keys_in_order(tmp_path: Path) -> None:
    document = backfilled(tmp_path, tmp_path / "bandit-state.json", "gptme-sessions")

    every = [*document["arms"].values(), *(one for of in document["contextual_arms"].values() for one in of.values())]
    assert len(every) == 4
    assert {tuple(one) for one in every} == {KEYS}


def test_contextual_arms_stand_there_only_where_there_are_some(tmp_path: Path) -> None:
    events = [exposed("t:a", GIT), graded("t:a", 0.5)]

    document = backfilled(tmp_path, tmp_path / "bandit-state.json", "gptme-sessions", events)

    assert list(document) == ["arms", "total_sessions", "created", "last_updated"]
    assert document["created"] == "1970-01-01T00:01:40+00:00"
    assert document["arms"][GIT]["total_rewards"] == 0  # a half is no success to gptme_sessions


def test_a_file_of_before_with_lesson_path_becomes_one_with_arm_id(tmp_path: Path) -> None:
    old = arm(GIT, 3.5, 1.5, 3)
    target = written(tmp_path / "b.json", {"arms": {GIT: {"lesson_path": old.pop("arm_id"), **old}}})

    backfilled(tmp_path, target, "gptme-sessions")

    assert (Bandit(target).arms[GIT].alpha, Bandit(target).arms[GIT].total_selections) == (4.5, 5)


def test_the_lesson_hook_keeps_what_an_arm_has_beyond_the_numbers(tmp_path: Path) -> None:
    target = written(
        tmp_path / "b.json", state(arm(GIT, 1.0, 9.0, 8, confounded=True), arm(OLD, 2.0, 2.0, 2, note="é"))
    )

    document = backfilled(tmp_path, target, "lesson-hook")

    assert document["arms"][GIT]["confounded"] is True
    assert document["arms"][OLD]["note"] == "é"
    assert (document["arms"][GIT]["alpha"], document["arms"][GIT]["beta"]) == (2.0, 10.0)
    assert hook_scores(target) == {GIT: 0.5, TESTS: 1.75 / 3.0, OLD: 0.5}


def test_hybrid_matcher_keeps_judge_counters_and_own_keys(tmp_path: Path) -> None:
    judge = {"helpful": 4, "harmful": 1, "false_positive": 0, "noop": 2}
    old = {
        "arms": {
            "git": judge,
            "lessons/tests.md": {"alpha": 2.0, "beta": 1.5, "noop": 3},
            "x.md": {"beta": 2, "alpha": 6},
        }
    }
    target = written(tmp_path / "b.json", old | {"policy": 3})
    aliases = {"arm_aliases": {GIT: "git", TESTS: "lessons/tests.md"}}

    document = backfilled(tmp_path, target, "gptme-hybrid", policy=aliases)

    assert document["arms"] == {
        "git": judge | {"alpha": 2.0, "beta": 2.0},
        "lessons/tests.md": {"alpha": 2.75, "beta": 1.75, "noop": 3},
        "x.md": {"beta": 2.0, "alpha": 6.0},
    }
    assert document["policy"] == 3
    assert hybrid_score(target, GIT, "git") == pytest.approx((0.5 + 5 / 9) / 2)
    assert hybrid_score(target, TESTS) == pytest.approx((2.75 / 4.5 + 1 / 5) / 2)
    assert hybrid_scores(target)["x.md"] == 0.75


def test_a_judges_counters_stay_when_the_belief_is_rebuilt(tmp_path: Path) -> None:
    old = {"arms": {"x": {"alpha": 9.0, "beta": 1.0, "helpful": 2}, "y": {"alpha": 4.0, "beta": 1.0}}}
    target = written(tmp_path / "b.json", old)

    document = backfilled(tmp_path, target, "gptme-hybrid", old="rebuilt", force=True)

    assert document["arms"]["x"] == {"helpful": 2}
    assert "y" not in document["arms"]
    assert document["arms"][GIT] == {"alpha": 2.0, "beta": 2.0}


MODEL = "pm-model:ci-fix:opus"


def test_pm_dispatch_gets_its_three_numbers_and_its_own_arms_alone(tmp_path: Path) -> None:
    target = written(
        tmp_path / "bandit-state.json", {"arms": {MODEL: {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}
    )
    events = [*EVENTS, exposed("t:c", MODEL, at=NOON + 300), graded("t:c", 1.0, at=NOON + 400)]

    backfilled(tmp_path, target, "pm-dispatch", events)

    assert target.read_bytes() == text({"arms": {MODEL: {"alpha": 2.7, "beta": 1.3, "total_selections": 2}}})
    assert pm_arms(target) == {MODEL: (2.7, 1.3, 2)}


def test_pm_dispatch_finds_the_state_before_in_its_own_backup(tmp_path: Path) -> None:
    before = {"arms": {MODEL: {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}
    target = written(tmp_path / "bandit-state.json", before)
    events = [exposed("t:c", MODEL, at=NOON + 300), graded("t:c", 1.0, at=NOON + 400)]

    backfilled(tmp_path, target, "pm-dispatch", events)
    target.write_bytes(b"{torn")

    assert pm_arms(target) == {MODEL: (1.7, 1.3, 1)}
    assert (tmp_path / "bandit-state.json.bak").read_bytes() == text(before)


def test_arms_of_pm_dispatch_stay_out_of_every_other_file(tmp_path: Path) -> None:
    events = [*EVENTS, exposed("t:c", MODEL, at=NOON + 300), graded("t:c", 1.0, at=NOON + 400)]
    path = ledger_with(tmp_path, events)

    for reader in ("gptme-sessions", "lesson-hook", "gptme-hybrid"):
        plan = plan_of(path, tmp_path / "new.json", reader)
        assert {one.arm for one in plan.changes} == set(AFTER)
        assert [note for note in plan.notes if "another tool " in note] == [
            f"arms of another tool are not written: 1, such as {MODEL}"
        ]


@pytest.mark.parametrize(
    ("reader", "document", "what"),
    [
        ("gptme-sessions", state(arm(GIT, 1.0, 1.0, 1, confounded=True)), f"{GIT} has `confounded`"),
        ("gptme-sessions", {"arms": {"git": {"helpful": 4, "noop": 1}}}, "git has `helpful`, `noop`"),
        ("gptme-sessions", state(arm(MODEL, 1.0, 1.0, 1)), f"{MODEL} is an arm of pm-dispatch"),
        ("lesson-hook", state(arm(MODEL, 1.0, 1.0, 1)), f"{MODEL} is an arm of pm-dispatch"),
        ("lesson-hook", {"arms": {"git": {"helpful": 4}}}, "git has no `alpha` and `beta`"),
        ("gptme-hybrid", state(arm(MODEL, 1.0, 1.0, 1)), f"{MODEL} is an arm of pm-dispatch"),
        ("pm-dispatch", state(arm(GIT, 1.0, 1.0, 1)), f"{GIT} is not an arm of pm-dispatch"),
        (
            "pm-dispatch",
            {"arms": {MODEL: {"alpha": 1, "beta": 1, "total_selections": 0, "arm_id": MODEL}}},
            f"{MODEL} has `arm_id`",
        ),
    ],
)
def test_a_mix_of_forms_is_refused_with_what_it_is(
    tmp_path: Path, reader: str, document: dict[str, Any], what: str
) -> None:
    target = written(tmp_path / "b.json", document)

    plan = plan_of(ledger_with(tmp_path), target, reader)

    assert any(f"mixes forms: {what}" in one for one in plan.refusals), plan.refusals


def test_file_that_gptme_sessions_rejects_can_be_forced(tmp_path: Path) -> None:
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3, confounded=True)))
    assert Bandit(target).said == FRESH
    path = ledger_with(tmp_path)

    plan = plan_of(path, target, force=True)
    applied(path, plan)

    assert f"dropped: confounded of {GIT}" in plan.notes
    assert Bandit(target).said != FRESH
    assert Bandit(target).arms[GIT].alpha == 4.0


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a complete JSON document"),
        (text(state(arm(GIT, 1.0, 1.0, 1)))[:-9], "not a complete JSON document"),
        (b"\xff\xfe", "not a complete JSON document"),
        (b"[]", "no object `arms`"),
        (b'{"arms": null}', "no object `arms`"),
        (b"{}", "no object `arms`"),
        (text({"arms": {"a": 3}}), "Expected an object"),
        (b'{"arms": {"a": {"alpha": NaN, "beta": 1}}}', "Expected `alpha` as a number above 0, got nan"),
        (text({"arms": {"a": {"alpha": True, "beta": 1}}}), "Expected `alpha`"),
        (text({"arms": {"a": {"alpha": 1, "beta": 0}}}), "Expected `beta`"),
        (text({"arms": {"a": {"total_selections": -1}}}), "Expected `total_selections`"),
        (text({"arms": {"a": {"total_rewards": 1.5}}}), "Expected `total_rewards` as a whole number"),
        (text({"arms": {}, "contextual_arms": {"a": {"code": {}}}}), "a context as a JSON list"),
        (text({"arms": {}, "contextual_arms": {"a": 3}}), "Expected an object"),
    ],
)
def test_a_torn_file_and_a_number_that_no_posterior_has_are_refused(tmp_path: Path, data: bytes, why: str) -> None:
    target = tmp_path / "b.json"
    target.write_bytes(data)

    with pytest.raises(TargetError, match=why):
        plan_of(ledger_with(tmp_path), target)
    assert target.read_bytes() == data


def test_a_reader_that_would_find_no_arm_is_said(tmp_path: Path) -> None:
    path = ledger_with(tmp_path, [exposed("t:a", "lessons/git.md"), graded("t:a", 1.0)])

    notes = plan_of(path, tmp_path / "b.json", "lesson-hook").notes

    [said] = [note for note in notes if "looks up" in note]
    assert said.startswith("no arm has the form that lesson-hook looks up (a lesson by its absolute path), so it finds")
    assert said.endswith("none of them; map them in the policy's arm_aliases")
    assert plan_of(path, tmp_path / "b.json", "lesson-hook", {"arm_aliases": {"lessons/git.md": GIT}}).notes == ()


def test_the_four_readers_have_a_form_each() -> None:
    assert list(FORMATS) == ["gptme-sessions", "lesson-hook", "gptme-hybrid", "pm-dispatch"]
    assert read("b.json", b'{"arms": {}}').arms == {}


def test_contexts_of_the_file_that_would_go_are_refused(tmp_path: Path) -> None:
    inside = {GIT: {'["old"]': arm(GIT, 2.0, 1.0, 1), '["code", null]': arm(GIT, 2.0, 1.0, 1)}}
    target = written(tmp_path / "b.json", state(arm(GIT, 3.0, 2.0, 3), contextual_arms=inside))
    path = ledger_with(tmp_path)

    assert plan_of(path, target).notes == ()
    plan = plan_of(path, target, old="rebuilt")
    [refusal] = plan.refusals
    assert refusal.startswith(f'contexts of the file would be dropped (1 of 2, such as ["old"] of {GIT})')
    assert refusal.endswith("with --force they go; without --rebuild they stay")
    with pytest.raises(BackfillRefusedError, match="contexts of the file would be dropped"):
        applied(path, plan)
    assert plan_of(path, target, old="rebuilt", force=True).forced


def test_lesson_hook_keeps_other_keys_and_writes_arm_id(tmp_path: Path) -> None:
    old = arm(GIT, 3.0, 2.0, 3, note=1)
    before = {"arms": {GIT: {"lesson_path": old.pop("arm_id"), **old}}, "policy": 3}

    document = backfilled(tmp_path, written(tmp_path / "b.json", before), "lesson-hook")

    assert document["policy"] == 3
    assert list(document["arms"][GIT]) == [*KEYS, "note"]


def test_an_arm_that_its_tool_updated_later_than_any_credit_keeps_its_time(tmp_path: Path) -> None:
    late = arm(GIT, 3.0, 2.0, 3) | {"last_updated": "1970-01-01T13:00:00+00:00"}

    document = backfilled(tmp_path, written(tmp_path / "b.json", state(late)), "gptme-sessions", force=True)

    assert document["arms"][GIT]["last_updated"] == "1970-01-01T13:00:00+00:00"
    assert document["arms"][GIT]["alpha"] == 3.0  # the file's newest time says that it holds the grades already
