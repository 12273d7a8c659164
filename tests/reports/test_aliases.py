"""Aliases that the ledger's arms speak of: proposed where nothing speaks against it, with the evidence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.projections.telling import exposed, graded, linked, log_of, mentioned, opened, projected, withdrawn
from tests.strategies import Wire

from rightful.policies import PRESETS, policy_of
from rightful.projections.projected import Projected
from rightful.reports.aliases.arm_aliases import Group, Proposals, proposals

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
    assert ask(*shown(*arms)) == Proposals(groups=(), not_proposed=(), arm_aliases={})


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
    assert "the policy already has aliases of" in refused(two).why


def test_arms_that_only_a_grade_or_a_balance_names_are_seen() -> None:
    state = {"alpha": 3.0, "beta": 1.0, "n": 7}
    events = [*shown(ABS), opened(arms={REL: state}), graded("t:z", 0.5, per_arm={BARE: 1.0})]

    found = ask(*events)

    assert found.arm_aliases == {ABS: REL, BARE: REL}
    assert (found.groups[0].spellings[0].arm, found.groups[0].spellings[0].credits) == (REL, 7)


def test_an_empty_ledger_proposes_nothing() -> None:
    assert msgspec.to_builtins(ask()) == {"groups": (), "not_proposed": (), "arm_aliases": {}}


def test_a_lesson_and_a_skill_of_one_path_are_two() -> None:
    lesson, skill = "/ws/lessons/git.md", "/ws/skills/git.md"

    assert refused(ask(*shown(lesson, skill))).why.startswith("the same file name in different folders")
    assert ask(*shown(lesson, lesson, skill, skill, "skills/git.md", "lessons/git.md")).arm_aliases == {
        "lessons/git.md": lesson,
        "skills/git.md": skill,
    }


def test_a_bare_name_that_may_be_a_lesson_or_a_skill_is_neither() -> None:
    assert len(refused(ask(*shown("/ws/lessons/git.md", "/ws/skills/git.md", "git.md"))).spellings) == 3
    assert ask(*shown("/ws/skills/git.md", "git.md")).arm_aliases == {"/ws/skills/git.md": "git.md"}


def test_linked_sessions_of_one_run_separate_two_names() -> None:
    """Of two repositories of which one hook writes the one session's name, and one the other's."""
    events = [*shown(ABS, OTHER), exposed("w:a", ABS), exposed("u:n", OTHER), linked("w:a", "u:n")]

    assert refused(ask(*events)).why.startswith("session w:a was shown lessons of")
    assert ask(*events[:-1]).arm_aliases != {}


def test_a_sanitised_form_distinguishes_what_its_session_saw() -> None:
    events = [exposed("t:a/b", ABS), exposed("t:a_b", OTHER, alias=True)]

    assert "session t:a/b was shown lessons of" in refused(ask(*events)).why
    assert ask(*events, mentioned("t:a.b")).arm_aliases != {}  # it fits two, and is nobody's


def test_withdrawn_exposures_separate_no_names_but_excluded_ones_do() -> None:
    both = exposed("t:both", ABS, OTHER, key="e")
    other = exposed("t:both", "z", key="e", at=101)

    assert ask(*shown(ABS, OTHER), both, other, withdrawn("e", 1)).arm_aliases != {}
    assert "session t:both" in refused(ask(*shown(ABS, OTHER), both, without_sessions=["t:both"])).why


def test_two_spellings_shown_in_one_run_are_not_proposed() -> None:
    twice = exposed("t:both", REL, f"./{REL}")

    assert refused(ask(*shown(REL), twice)).why == f"session t:both was shown both ./{REL} and {REL}"


def test_what_an_alias_was_shown_with_is_listed_for_its_arm_too() -> None:
    both = exposed("t:both", SUB, OTHER)

    found = ask(*shown(REL, OTHER), both, arm_aliases={SUB: REL})

    assert refused(found).why.startswith("session t:both was shown lessons of /home/dev/ws-2/lessons and of contrib/")


def titled(session: str, arm: str, title: object, **more: Any) -> Wire:
    return exposed(session, "first.md", arm, extra={"lessons": [{"title": "First"}, {"title": title}]}, **more)


def test_names_whose_recorded_titles_differ_are_two_lessons() -> None:
    events = [titled("t:a", ABS, "Deploy to production"), titled("t:b", OTHER, "Peeling potatoes")]

    assert refused(ask(*events)).why == (
        f"their recorded titles differ: {OTHER} is 'peeling potatoes' and {ABS} is 'deploy to production'"
    )
    assert ask(*events, titled("t:c", ABS, " Peeling Potatoes ")).arm_aliases != {}  # it was renamed
    assert ask(titled("t:a", ABS, "Deploy"), titled("t:b", OTHER, None), exposed("t:c", REL)).arm_aliases != {}


def test_details_that_are_no_titles_of_the_arms_are_skipped() -> None:
    odd = [
        exposed("t:b", OTHER, extra={"lessons": [{"title": "B"}, {"title": "C"}]}),
        exposed("t:c", OTHER, extra={"lessons": "B"}),
        exposed("t:d", OTHER, extra={"lessons": ["B"]}),
        exposed("t:e", OTHER),
    ]

    assert ask(titled("t:a", ABS, "A"), *odd).arm_aliases == {ABS: OTHER}


def test_a_model_is_no_lesson_of_that_name() -> None:
    assert ask(*shown("gpt-4.1", "lessons/gpt-4.1")) == Proposals(groups=(), not_proposed=(), arm_aliases={})
    assert ask(*shown("lessons/gpt-4.1", "/ws/lessons/gpt-4.1")).arm_aliases != {}


def test_folders_that_are_two_do_not_become_one_by_way_of_a_third() -> None:
    one, two, third = "/ws/lessons", "/contrib/lessons", "lessons"
    apart = exposed("t:both", f"{one}/p.md", f"{two}/q.md")
    names = [f"{one}/x.md", f"{third}/x.md", f"{two}/y.md", f"{third}/y.md"]

    found = ask(*shown(*names), apart)

    assert found.groups == ()
    assert [group.path for group in found.not_proposed] == ["x.md", "y.md"]
    assert found.not_proposed[0].why == (
        "other proposals would merge two folders. "
        "session t:both was shown lessons of /contrib/lessons and of /ws/lessons: two repositories"
    )
    assert [group.path for group in ask(*shown(*names)).groups] == ["x.md", "y.md"]
    assert [group.path for group in ask(*shown(*names[:2]), apart).groups] == ["x.md"]


POOL = [
    f"{root}{path}"
    for root in ("/ws/lessons/", "/ws2/lessons/", "lessons/", "./lessons/", "/ws/skills/", "")
    for path in ("x.md", "y.md", "tools/x.md", "gpt-4.1")
]
NAMES = ("t:a/b", "t:a_b", "t:c", "w:d", "w:e")


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from(POOL), max_size=2), st.sampled_from(POOL))),
    st.sets(st.sampled_from([("w:d", "t:c"), ("w:e", "t:a/b"), ("w:e", "t:c")]), max_size=2),
)
def test_no_proposal_merges_two_arms_that_one_run_was_shown(
    told: list[tuple[str, list[str], str]], links: set[tuple[str, str]]
) -> None:
    exposures = [
        exposed(name, *arms, withheld=(held,), alias=name == "t:a_b", key=f"e{at}")
        for at, (name, arms, held) in enumerate(told)
    ]

    found = ask(*exposures, *(linked(*pair) for pair in sorted(links)))

    linked_names = [name for pair in links for name in pair]
    sound = len({*linked_names}) == len(linked_names)
    run_of = {other: session for session, other in links} if sound else {}
    if any(name == "t:a/b" for name, *_ in told) or ("w:e", "t:a/b") in links:
        run_of["t:a_b"] = run_of.get("t:a/b", "t:a/b")
    saw: dict[str, set[str]] = {}
    for name, arms, held in told:
        saw.setdefault(run_of.get(name, name), set()).update({*arms, held})
    for group in found.groups:
        names = {one.arm for one in group.spellings}
        assert all(len(names & seen) <= 1 for seen in saw.values())
