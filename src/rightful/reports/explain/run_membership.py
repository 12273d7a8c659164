"""Why a session belongs to its run, the state of each link, and remedies for an unknown run."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from rightful.projections.credit.runs import IN_FORCE, SECOND_GUESS, UNDONE, UNLINKS, UNUSABLE, VOID, WEAKER
from rightful.projections.facts import identity_claims
from rightful.projections.facts.facts import NATIVE, RELATIONS, IdentityClaim
from rightful.reports.explain.case import Case
from rightful.reports.explain.phrases import (
    DESK,
    REWARD,
    Remedy,
    exposure_event,
    grade_event,
    link_event,
    listed,
    withdrawal_event,
)

LINK_STATES = {
    IN_FORCE: "in force", UNUSABLE: "conflicting", VOID: "withdrawn", UNLINKS: "unlinks",
    UNDONE: "unlinked", WEAKER: "weaker", SECOND_GUESS: "weaker",
}  # fmt: skip
"""The display name of each link state."""


class Link(msgspec.Struct, frozen=True):
    """A link or unlink, and its state.

    Attributes:
        other: The name that it joins.
        relation: `native`, `resume`, `retry`, `subagent`.
        evidence: What the claim rests on.
        state: `in force`, `conflicting`, `withdrawn`, `unlinks`, `unlinked` or `weaker`.
        reason: Why, in a sentence.
        producer: Who claims it; filled in from the log.
    """

    position: int
    session: str
    other: str
    relation: str
    evidence: str
    state: str
    reason: str
    id: str = ""
    producer: str = ""


class Run(NamedTuple):
    """Which run a session belongs to.

    Attributes:
        name: The own name of the run; None if it is not known.
        reason: In a sentence.
        remedies: What would settle a doubt.
    """

    name: str | None
    reason: str
    remedies: list[Remedy]


def run_of(case: Case, number: int) -> Run:
    """Return which run a session belongs to, or why it is not known."""
    members = case.component(number)
    names = [case.text(name) for name in members]
    name, runs = case.text(number), case.inputs.runs
    if not runs.ambiguous[number]:
        own = case.text(int(runs.of[number]))
        if len(names) == 1:
            return Run(own, f"No link joins {name} with another name, so it is a run of its own.", [])
        return Run(own, f"Links join {listed(names)} into one run; {own} is its own name.", [])
    reason, remedies = _doubt(case, number, members)
    return Run(None, f"It is not known which run {name} belongs to: {reason}", remedies)


def _doubt(case: Case, number: int, members: list[int]) -> tuple[str, list[Remedy]]:
    reused = [name for name in members if case.inputs.runs.reused[name]]
    if reused:
        contradiction = next(
            (claim for claim in identity_claims.in_force(case.facts, case.through) if claim.name == reused[0]), None
        )
        return _twice_started(case, reused[0]) if contradiction is None else _contradicted(case, contradiction)
    forced = [link for link in case.links if link[3] == IN_FORCE and link[1] in members]
    others = {other for _, _, other, *_ in forced}
    owners = [name for name in members if name not in others]
    if not owners:
        last = forced[-1]
        reason = f"the links form a cycle, so none of {_texts(case, members)} is the run's own name."
        return reason, [_unlink(case, [last], "Withdraw the link that is wrong, such as the last one.")]
    if len(owners) > 1:
        chosen = number if number in owners else owners[0]
        wrong = [link for link in forced if link[1] in owners and link[1] != chosen]
        reason = f"{_texts(case, owners)} are linked into one run and each is a run's own name."
        what = f"Withdraw the links that are wrong; if {case.text(chosen)} is the run, these"
        return reason, [_unlink(case, wrong, f"{what}.")]
    marked = {other for _, _, other, _, relation, _ in forced if relation != RELATIONS[NATIVE]}
    natives = [name for name in members if name in others and name not in marked]
    chosen = number if number in natives else min(natives, key=lambda name: (not case.was_shown(name), name))
    wrong = [link for link in forced if link[2] in natives and link[2] != chosen]
    reason = (
        f"{_texts(case, natives)} are both claimed to be native names of {case.text(owners[0])}, and a run has one."
    )
    what = f"Withdraw the links that are wrong; if {case.text(chosen)} is the native name, these"
    return reason, [_unlink(case, wrong, f"{what}. If one continues the other, link it again as `resume` or `retry`.")]


def _texts(case: Case, numbers: list[int]) -> str:
    return listed([case.text(number) for number in numbers])


def _unlink(case: Case, links: list[tuple[int, int, int, int, str, str]], what: str) -> Remedy:
    at_us = case.latest_us()
    pairs = sorted({(session, other) for _, session, other, *_ in links})
    return Remedy(what, [link_event("session.unlinked", case.text(a), case.text(b), at_us) for a, b in pairs])


def _twice_started(case: Case, reused: int) -> tuple[str, list[Remedy]]:
    left_out = {*case.quarantine.unusable.tolist(), *case.quarantine.void.tolist()}
    mine = [start for start in case.facts.starts if start.name == reused and start.position <= case.through]
    starts = [start for start in mine if start.position not in left_out]
    first = starts[0]
    second = next(start for start in starts if start.nonce != first.nonce)
    name = case.text(reused)
    reason = (
        f"{name} started twice, with nonce {first.nonce!r} (#{first.position}) and with {second.nonce!r} "
        f"(#{second.position}), so two runs used the name."
    )
    own_name = f"{name}@{first.nonce}"
    what = (
        f"No event can part two runs under one name afterwards. Give each a name of its own: record again under "
        f"such a name ({own_name}) what that run was shown, and its grade."
    )
    rows = case.facts.shown_of.rows([reused])
    at_us = int(case.facts.shown["at"][rows].min()) if len(rows) else case.latest_us()
    grade = grade_event(own_name, (DESK, "overall"), 1, at_us, reward=REWARD)
    return reason, [Remedy(what, [exposure_event(own_name, at_us, []), grade])]


def _contradicted(case: Case, claim: IdentityClaim) -> tuple[str, list[Remedy]]:
    name = case.text(claim.name)
    source = identity_claims.FIELD if name.startswith("claude-code:") else "file name"
    reason = (
        f"its sources contradict each other on the session id: #{claim.position} is recorded under {name}, and its "
        f"{source} names {claim.named}, so an exposure under this name may belong to either."
    )
    what = (
        f"If the {source} of #{claim.position} was wrong and the row is of {name}, withdraw the row; the same "
        "for each such row."
    )
    return reason, [Remedy(what, [withdrawal_event(name, claim.event, claim.revision, case.latest_us())])]


def links_of(case: Case, numbers: set[int]) -> list[Link]:
    """Return the links that name one of some sessions, each with its state."""
    found = []
    for row, session, other, state, relation, evidence in case.links:
        if session in numbers or other in numbers:
            position = int(case.facts.links["pos"][row])
            fields = (position, case.text(session), case.text(other), relation, evidence)
            found.append(Link(*fields, LINK_STATES[state], _why(case, row, state)))
    return found


def _why(case: Case, row: int, state: int) -> str:
    table: Any = case.facts.links
    session, other = int(table["session"][row]), int(table["other"][row])
    a, b = case.text(session), case.text(other)
    match state:
        case s if s == IN_FORCE:
            return f"It joins {b} to {a}."
        case s if s == UNLINKS:
            return f"It withdraws the links from {a} to {b} before it."
        case s if s == UNUSABLE:
            return "Its id is in conflict, so it joins nothing until an `event.withdrawn` settles it."
        case s if s == VOID:
            return f"{case.withdrawn_text(int(table['pos'][row]))} joins anything."
        case s if s == UNDONE:
            later = [link for link in case.links if link[3] == UNLINKS and link[1:3] == (session, other)]
            return f"It was withdrawn by the `session.unlinked` at #{int(table['pos'][later[-1][0]])}."
        case _:
            better = _better(case, session, other, state)
            return f"A `cwd-window` claim is a guess; the better evidence at #{better} is used instead."


def _better(case: Case, session: int, other: int, state: int) -> int:
    for row, first, two, is_state, relation, evidence in case.links:
        rival = two == other if state == WEAKER else first == session and relation == RELATIONS[NATIVE]
        if rival and is_state == IN_FORCE and evidence != "cwd-window":
            return int(case.facts.links["pos"][row])
    return int(case.facts.links["pos"][case.links[0][0]])
