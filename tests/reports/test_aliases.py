"""Aliases that the ledger's arms speak of: proposed where nothing speaks against it, with the evidence."""

from __future__ import annotations

from typing import Any

import pytest
from tests.projections.telling import exposed, graded, log_of, opened, projected
from tests.strategies import Wire

from rightful.policies import PRESETS, policy_of
from rightful.projections.projected import Projected
from rightful.reports.aliases import Group, Proposals, as_dict, proposals

ABS, REL, SUB, BARE = (
    "/home/dev/ws/lessons/tools/x.md",
    "lessons/tools/x.md",
    "contrib/lessons/tools/x.md",
    "tools/x.md",
)
OTHER = "/home/dev/ws-2/lessons/tools/x.md"


def asked(*events: Wire) -> Projected:
    return projected(log_of(*events))


def ask(*events: Wire, prefer: str | None = None, **policy: Any) -> Proposals:
    return proposals(asked(*events), policy_of(policy), prefer=prefer)


def shown(*arms: str, at: float = 100, reward: float = 0.75) -> list[Wire]:
    """Each arm to a session of its own, all graded."""
    events = []
    for place, arm in enumerate(arms):
        events += [exposed(f"t:{arm} {place}", arm, at=at), graded(f"t:{arm} {place}", reward, at=at + 1)]
    return events


def test_one_lesson_under_several_paths_is_proposed_with_its_evidence() -> None:
    """The 224 phantom lessons: gptme, a hook, a repository and a submodule write one lesson each in their way."""
    events = [*shown(ABS, ABS, REL, BARE, SUB, OTHER), exposed("t:late", "gpt-4.1", "y.md", withheld=(REL,))]

    found = ask(*events)

    [group] = found.groups
    assert (group.path, group.arm) == ("tools/x.md", ABS)
    assert [(one.arm, one.exposures, one.withheld, one.credits) for one in group.spellings] == [
        (ABS, 2, 0, 2),
        (REL, 1, 1, 1),
        (BARE, 1, 0, 1),
        (SUB, 1, 0, 1),
        (OTHER, 1, 0, 1),
    ]
    assert found.arm_aliases == {REL: ABS, BARE: ABS, SUB: ABS, OTHER: ABS}
    assert "the same path tools/x.md below" in group.why
    assert "and without a folder" in group.why
    assert found.not_proposed == ()


def test_the_merged_belief_is_all_evidence_above_one_prior() -> None:
    loaded = asked(*shown(ABS, ABS, reward=0.25), *shown(REL, BARE, at=200, reward=1.0))
    apart = loaded.posteriors(PRESETS["bound"]).arms
    pairs = proposals(loaded, PRESETS["bound"]).arm_aliases

    whole = loaded.posteriors(policy_of({"arm_aliases": pairs})).arms

    assert list(whole) == [ABS]
    assert whole[ABS].alpha == 1.0 + sum(one.alpha - 1.0 for one in apart.values()) == 3.5
    assert (whole[ABS].beta, whole[ABS].n) == (2.5, 4)


def test_what_begins_as_preferred_stays() -> None:
    assert ask(*shown(ABS, ABS, REL), prefer="lessons/").arm_aliases == {ABS: REL}
    assert ask(*shown(ABS, ABS, REL), prefer="/nowhere").arm_aliases == {REL: ABS}


def test_the_name_with_the_most_credits_stays_and_then_the_one_shown_most() -> None:
    assert ask(*shown(REL, ABS, ABS)).groups[0].arm == ABS
    assert ask(exposed("t:a", REL), exposed("t:b", ABS), exposed("t:c", ABS)).groups[0].arm == ABS
    assert ask(exposed("t:a", REL), exposed("t:b", ABS)).groups[0].arm == REL  # the shorter


def refused(found: Proposals) -> Group:
    assert found.groups == ()
    [group] = found.not_proposed
    assert group.arm is None
    return group


def test_two_repositories_that_one_session_uses_are_two() -> None:
    """It was shown a lesson of each; so their lessons of one path are two lessons too."""
    both = exposed("t:both", "/home/dev/ws/lessons/a.md", "/home/dev/contrib/lessons/b.md")
    contrib = "/home/dev/contrib/lessons/tools/x.md"

    group = refused(ask(*shown(ABS, contrib, BARE), both))

    assert [one.arm for one in group.spellings] == [BARE, ABS, contrib]
    assert group.why == (
        "session t:both was shown lessons of /home/dev/contrib/lessons and of /home/dev/ws/lessons: "
        "two repositories with the same path"
    )


def test_what_a_session_was_denied_shows_its_folders_too() -> None:
    assert "session t:both" in refused(ask(*shown(ABS, OTHER), exposed("t:both", ABS, withheld=(OTHER,)))).why
    assert ask(*shown(ABS, OTHER), exposed("t:a", ABS), exposed("t:b", "z", withheld=(OTHER,))).arm_aliases != {}


def test_one_file_name_in_different_folders_is_left_to_a_person() -> None:
    """Every skill is a SKILL.md."""
    skills = ["/ws/skills/review/SKILL.md", "/ws/skills/deploy/SKILL.md", "/ws2/skills/deploy/SKILL.md"]

    found = ask(*shown(*skills, skills[1]))

    assert found.arm_aliases == {skills[2]: skills[1]}
    [group] = found.not_proposed
    assert (group.path, len(group.spellings), group.spellings[0].credits) == ("SKILL.md", 3, 2)
    assert group.why.startswith("the same file name in different folders")


def test_a_bare_file_name_is_only_that_of_a_file_right_below_the_folder() -> None:
    assert ask(*shown("lessons/x.md", "x.md")).arm_aliases == {"lessons/x.md": "x.md"}
    assert refused(ask(*shown(REL, "x.md"))).path == "x.md"


@pytest.mark.parametrize(
    "arms",
    [
        ("tools/x.md", "other/tools/x.md"),  # no folder says where a lesson's path begins
        ("opus", "anthropic/opus"),
        ("/lessons/tools/x", "lessons/tools/x"),  # no file
        ("https://a.b/lessons/x.md", "lessons/x.md"),
        ("../lessons/x.md", "lessons/x.md"),
        ("lessons/Tools/x.md", "lessons/tools/x.md2"),
    ],
)
def test_what_is_no_path_of_a_lesson_is_nothing_to_it(arms: tuple[str, str]) -> None:
    assert ask(*shown(*arms)) == Proposals(groups=(), not_proposed=())


def test_two_ways_of_writing_one_path_are_one() -> None:
    assert ask(*shown("lessons/tools/x.md", "./lessons//tools/x.md")).arm_aliases == {
        "./lessons//tools/x.md": "lessons/tools/x.md"
    }
    assert ask(*shown("C:\\ws\\lessons\\tools\\x.md", REL, REL)).arm_aliases == {"C:\\ws\\lessons\\tools\\x.md": REL}


def test_of_two_folders_of_lessons_the_inner_one_counts() -> None:
    inner = "/home/dev/ws/lessons/archive/lessons/tools/x.md"

    assert ask(*shown(REL, REL, inner)).arm_aliases == {inner: REL}


def test_aliases_of_the_policy_are_kept_and_their_arm_stays() -> None:
    found = ask(*shown(ABS, ABS, REL, BARE), arm_aliases={BARE: REL})

    assert found.arm_aliases == {ABS: REL}
    assert [one.credits for one in found.groups[0].spellings] == [2, 2]
    assert ask(*shown(ABS, ABS, REL), arm_aliases={BARE: REL}, prefer="/home/").arm_aliases == {ABS: REL}
    two = ask(*shown(ABS, REL, "a", "b"), arm_aliases={"a": ABS, "b": REL})
    assert "the policy has aliases of" in refused(two).why


def test_arms_that_only_a_grade_or_a_balance_names_are_seen() -> None:
    state = {"alpha": 3.0, "beta": 1.0, "n": 7}
    events = [*shown(ABS), opened(arms={REL: state}), graded("t:z", 0.5, per_arm={BARE: 1.0})]

    found = ask(*events)

    assert found.arm_aliases == {ABS: REL, BARE: REL}
    assert (found.groups[0].spellings[0].arm, found.groups[0].spellings[0].credits) == (REL, 7)


def test_an_empty_ledger_proposes_nothing() -> None:
    assert as_dict(ask()) == {"groups": (), "not_proposed": (), "arm_aliases": {}}
