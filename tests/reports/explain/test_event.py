from __future__ import annotations

from typing import Any

import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import (
    decayed,
    exposed,
    graded,
    linked,
    log_of,
    mentioned,
    opened,
    published,
    started,
    told,
    unlinked,
    withdrawn,
)
from tests.reports.explaining import projected

from rightful.errors import UsageError
from rightful.identity import event_id
from rightful.policies import policy_of
from rightful.reports.explain import EventExplained, explain_event, position_of


def event(log: FakeLog, position: int, as_of: int | None = None, **policy: Any) -> EventExplained:
    return explain_event(projected(log), log, policy_of(policy), position, as_of=as_of)  # type: ignore[arg-type]


def test_row_is_shown_unchanged_with_its_fields() -> None:
    log = log_of(exposed("t:a", "x", withheld=("y",)), graded("t:a", 0.8))

    found = event(log, 1)

    assert (found.position, found.id, found.type, found.outcome) == (
        1,
        log.stored[0].envelope.id,
        "exposure.recorded",
        "appended",
    )
    assert (found.producer, found.session, found.at) == ("hook", "t:a", "1970-01-01T00:01:40Z")
    assert found.body == {"arms": [{"arm": "x"}], "withheld": [{"arm": "y"}]}
    assert found.exposure is not None
    assert (found.exposure.state, found.exposure.grade) == ("paid", 2)
    assert found.used_by == ["The grade at #2 paid its arms: x."]
    assert found.verdict == (
        "#1: `exposure.recorded` of t:a, written by hook (appended). "
        "It is paid: judge/overall seq 1 (#2) paid its arms."
    )


def test_a_grade_names_the_exposures_and_arms_that_it_paid() -> None:
    found = event(log_of(exposed("t:a", "x", "y"), graded("t:a", 0.8)), 2)

    assert found.grade is not None
    assert (found.grade.bin, found.grade.exposures, found.grade.arms) == ("credited", [1], ["x", "y"])
    assert found.used_by == ["The arms that it paid: x and y."]


def test_nothing_is_said_twice_and_what_nobody_used_is_used_by_nobody() -> None:
    log = log_of(exposed("t:a", "x"), graded("t:b", 0.8), linked("t:a", "u:n"))

    for position in (1, 2, 3):
        found = event(log, position)
        part = found.exposure or found.grade or found.link
        assert part is not None
        assert part.reason in found.verdict
        assert all(part.reason not in one for one in found.used_by)
    assert [event(log, position).used_by for position in (1, 2)] == [[], []]


def test_all_revisions_of_an_id_stand_with_which_of_them_is_shown() -> None:
    log = log_of(exposed("t:a", "x", key="e"), exposed("t:a", "y", key="e"), withdrawn("e", 2))

    found = event(log, 2)

    assert [(one.position, one.revision, one.outcome, one.shown, one.withdrawn) for one in found.revisions] == [
        (1, 1, "appended", True, False),
        (2, 2, "conflict", False, True),
    ]
    assert found.used_by[-1] == "The `event.withdrawn` at #3 withdraws revision 2 of its id."
    assert position_of(log, event_id("hook", "e")) == 1  # type: ignore[arg-type]
    assert [one.withdrawn for one in event(log, 2, as_of=2).revisions] == [False, False]


def uses(log: FakeLog, position: int, **policy: Any) -> str:
    return " ".join(event(log, position, **policy).used_by)


def test_a_link_tells_which_run_it_makes() -> None:
    log = log_of(linked("w:a", "u:n"), linked("w:b", "u:m"), unlinked("w:b", "u:m"))

    assert uses(log, 1) == "Links join w:a and u:n into one run; w:a is its own name."
    assert event(log, 2).link is not None
    assert "It was withdrawn by the `session.unlinked` at #3." in event(log, 2).verdict


def test_retired_balance_names_the_publication_that_rebuilt_its_file() -> None:
    rebuilt = published("c" * 64) | {"extra": {"retires": [event_id("hook", "b")]}}
    log = log_of(opened(key="b"), rebuilt)

    assert uses(log, 1) == (
        "The publication at #2 rebuilt its file from the log alone, so its numbers no longer count."
    )
    taken_back = {"rollback": True, "rolled_back": log.stored[1].envelope.id}
    assert log.append([published("d" * 64) | {"extra": taken_back}]) == ["appended"]
    assert uses(log, 1) == "It is the opening balance in force of bandit.json, added to the prior of its arms."


def test_a_balance_tells_whether_it_counts_and_what_counts_instead() -> None:
    log = log_of(
        opened(at=10), opened(at=20, sha256="b" * 64), published("c" * 64), opened(source="two", sha256="c" * 64)
    )

    assert uses(log, 1) == "The balance of the same source at #2 is newer and counts instead."
    assert uses(log, 2) == "It is the opening balance in force of bandit.json, added to the prior of its arms."
    assert uses(log, 2, balances=[]) == "The policy excludes balances of this source (`balances`)."
    assert uses(log, 4) == "It was opened from bytes that Rightful published itself, so it does not count."


def test_a_publication_tells_what_superseded_it() -> None:
    first = published("a" * 64)
    log = log_of(first, published("b" * 64), published("c" * 64) | {"supersedes": event_id("hook", first["key"])})

    assert event(log, 1).used_by == [
        "The publication at #2 wrote the same file after it.",
        "The publication at #3 supersedes it.",
    ]
    assert uses(log, 3) == "It is the newest publication to bandit.json."


def test_a_withdrawal_tells_what_it_settled() -> None:
    twice = [exposed("t:a", "x", key="e"), exposed("t:a", "y", key="e")]
    one = event_id("hook", "e")

    assert (
        uses(log_of(*twice, withdrawn("e", 2)), 3)
        == f"It withdraws revision 2 of {one} (#2), which settles its conflict."
    )
    thrice = log_of(*twice, exposed("t:a", "z", key="e"), withdrawn("e", 2))
    assert uses(thrice, 4) == f"It withdraws revision 2 of {one} (#2); 2 of its rows still contradict each other."
    alone = log_of(twice[0], withdrawn("e", 1))
    assert uses(alone, 2) == f"It withdraws revision 1 of {one} (#1), which its producer no longer derives."
    assert uses(alone, 1) == "The `event.withdrawn` at #2 withdraws revision 1 of its id."
    foreign = log_of(twice[0], withdrawn("e", 1) | {"producer": "stranger"})
    assert uses(foreign, 2) == (
        f"It withdraws revision 1 of {one} (#1), which is not in conflict and belongs to another producer (hook), so "
        "it changes nothing."
    )


def test_other_types_say_who_reads_them() -> None:
    log = log_of(started("t:a", "n1"), decayed(0.5), mentioned("t:a"), graded("t:a", outcome="unknown"))

    assert uses(log, 1) == "No link joins t:a with another name, so it is a run of its own."
    assert uses(log, 2).startswith("Only policies with decay `events`")
    assert uses(log, 3) == "Attribution does not read events of this type. They only show that the session exists."
    assert uses(log, 4) == "The outcome `unknown` is not a grade: the run still waits for one."


def test_an_erased_row_says_so_and_what_it_was() -> None:
    log = log_of(told("message.recorded", "t:a", 10, {"role": "user", "content": "secret"}))
    log.erase(1)

    found = event(log, 1)

    assert (found.body, found.verdict) == (
        None,
        "#1: `message.recorded` of t:a, written by hook (appended). Its content was erased.",
    )


def test_a_position_that_is_not_there_is_refused() -> None:
    log = log_of(mentioned("t:a"))

    for position in (0, 2):
        with pytest.raises(UsageError, match=f"position {position} is not in this ledger, which ends at 1"):
            event(log, position)


def test_without_projections_the_row_is_reported_and_its_use_is_not() -> None:
    log = log_of(exposed("t:a", "x"), graded("t:a", 0.8))

    found = explain_event(None, log, policy_of({}), 1)  # type: ignore[arg-type]

    assert (found.used_by, found.exposure) == ([], None)
    assert found.verdict.endswith("Its use is unknown: the projections cannot be built.")
    assert [one.position for one in found.revisions] == [1]
