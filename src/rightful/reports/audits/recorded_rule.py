"""Which rule really ran: every candidate held against a bandit's recorded state file.

A state file holds what some updater made of the grades it saw, up to the file's last update. So
each candidate is replayed from the log as it stood then by the events' own times (an imported log
was recorded later), and compared arm by arm: bit for bit, within `CLOSE`, or not. What is left
over says what the log lacks: credits that the file has, or updates that the file lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import structs

from rightful.policies import PRESETS, EventDecay, Policy, SessionDecay
from rightful.projections.arithmetic.sums import Context, Key, ordered
from rightful.projections.credit.posteriors import Posterior, posteriors_of
from rightful.projections.credit.settle import settle
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.log_clock import latest_at_us
from rightful.projections.projected import Projected
from rightful.reports.audits.rule_changes import RuleChange, rule_changes
from rightful.reports.audits.state_beliefs import StateFile, parse_state_file
from rightful.reports.audits.updater_cutoffs import CLOSE, count_grades, cutoffs, estimated_gamma, facts_until

CALLS = "bandit-call:"
"""What the names of an updater's recorded calls begin with (`producers.bandits.calls`)."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, held against the file.

    Attributes:
        until: The latest time of an event that was looked at; microseconds since 1970, UTC. None: all.
        exact: How many beliefs are the file's bit for bit, selections included where it has them.
        close: How many others are within `CLOSE`.
        max_alpha: The largest difference in alpha; a belief that one side lacks is at the prior.
        fits: Whether this rule could have written the file: nothing differs and neither side has more.
    """

    policy: str
    policy_hash: str
    until: int | None
    exact: int
    close: int
    differ: int
    only_file: int
    only_log: int
    max_alpha: float
    max_beta: float
    max_n: int
    fits: bool

    @property
    def wrong(self) -> int:
        """How many beliefs do not agree."""
        return self.differ + self.only_file + self.only_log


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """What the file has of one arm beyond the log, or the log beyond the file.

    Attributes:
        context: The context; None for the arm itself.
        alpha: alpha of the file less that of the log; `beta` and `n` likewise.
        n: None where the file does not count selections.
        what: `missing`: the file has credits that the log lacks. `lost`: the log has credits that
            the file lacks. `changed`: as many credits, and more or less evidence. `other`: the
            rewards went another way.
    """

    arm: str
    context: Context | None
    alpha: float
    beta: float
    n: int | None
    what: str

    @property
    def grades(self) -> int:
        """About how many grades that is; exactly so many where the file counts them."""
        return max(round(abs(self.evidence)), 1) if self.n is None else abs(self.n)

    @property
    def evidence(self) -> float:
        """How much evidence that is: alpha and beta."""
        return self.alpha + self.beta

    @property
    def reward(self) -> float | None:
        """Their mean reward; None where it is none."""
        mass = self.evidence
        return self.alpha / mass if mass and 0.0 <= self.alpha / mass <= 1.0 else None


class RecordedRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which rule wrote a state file; also the JSON of the answer.

    Attributes:
        fits: The names of the rules that fit, the best first; none where the log cannot distinguish the rules.
        nearest: The name of the best rule.
        arms: How many arms the file has.
        contexts: How many arms in a context.
        last_updated: Its last update; microseconds since 1970, UTC. None where it has no time.
        grades: How many grades the log holds up to the file's time.
        credited: How many arms that belong into such a file the log has, under any rule.
        common: How many arms of the file the log names, in an exposure or as credited by any rule.
        candidates: Every rule, the best first.
        changes: If no rule fits, every change from one rule to another that explains the file.
        lacks: What does not agree under the best one.
    """

    fits: tuple[str, ...]
    nearest: str
    sha256: str
    arms: int
    contexts: int
    last_updated: int | None
    through: int
    grades: int
    credited: int
    common: int
    candidates: tuple[Candidate, ...]
    changes: tuple[RuleChange, ...]
    lacks: tuple[Lack, ...]
    notes: tuple[str, ...]

    @property
    def nearest_rules(self) -> list[Candidate]:
        """The best rule, and all rules with the same distance."""
        return [candidate for candidate in self.candidates if _order(candidate) == _order(self.candidates[0])]

    @property
    def is_decidable(self) -> bool:
        """Whether the log can distinguish the rules: only a prior can where it names no arm of the file."""
        return self.common > 0 if self.credited else len(self.nearest_rules) < len(self.candidates)

    @property
    def fitting(self) -> list[Candidate]:
        """The rules that fit; none where the log cannot distinguish them from any other."""
        return [candidate for candidate in self.candidates if candidate.fits and self.is_decidable]


class _Rule(NamedTuple):
    label: str
    policy: Policy


class _Question(NamedTuple):
    facts: Facts
    state: StateFile
    through: int
    decay_at_us: int
    own: set[str]
    foreign: set[str]


def compare_with_rules(
    projected: Projected,
    data: bytes,
    *,
    extra_rules: list[tuple[str, Policy]] | None = None,
    as_of: int | str | None = None,
    decay_at_us: int | None = None,
) -> RecordedRule:
    """Compare every candidate with a state file.

    Args:
        projected: The projections of the ledger.
        data: The file's bytes.
        extra_rules: More candidates, each with its name.
        as_of: A position, or a time: the prefix recorded by then. All of the log if None.
        decay_at_us: The time of a decay; the file's last update if None, else the latest event's.

    Raises:
        UsageError: The file is not a bandit state, or `as_of` is beyond the log.
    """
    through = projected.prefix(as_of)
    state, facts = parse_state_file(data), projected.facts
    sha256 = hashlib.sha256(data).hexdigest()
    at_us = decay_at_us if decay_at_us is not None else state.last_us
    if at_us is None:
        at_us = latest_at_us(projected.log, facts, through)
    facts, notes = _without_itself(facts, sha256, through)
    question = _Question(facts, state, through, at_us, set(), set())
    rules = [*(_Rule(*pair) for pair in extra_rules or ()), *_rules(facts, through)]
    tried = [_best_trial(question, rule) for rule in rules]
    tried += [_best_trial(question, rule) for rule in _decayed(question, rules)]
    if not any(candidate.fits for candidate, _ in tried):
        more = list(_rules_with_decays(facts, through))
        tried += [_best_trial(question, rule) for rule in more]
        rules += more
    tried.sort(key=lambda trial: _order(trial[0]))
    best, lacks = tried[0]
    common = len({arm for arm, _ in state.beliefs} & {*question.own, *facts.arms.values})
    changes = [] if best.fits or not common else rule_changes(facts, state, through, at_us, rules)
    if cutoff := _left_out(facts, best.until, through):
        notes.append(cutoff)
    if question.foreign:
        notes.append(_foreign(question.foreign))
    found = RecordedRule(
        fits=(),
        nearest=best.policy,
        sha256=sha256,
        arms=sum(context is None for _, context in state.beliefs),
        contexts=sum(context is not None for _, context in state.beliefs),
        last_updated=state.last_us,
        through=through,
        grades=count_grades(facts, state, through),
        credited=len(question.own),
        common=common,
        candidates=tuple(candidate for candidate, _ in tried),
        changes=tuple(changes),
        lacks=tuple(lacks),
        notes=(*state.notes, *notes),
    )
    return structs.replace(found, fits=tuple(candidate.policy for candidate in found.fitting))


def _foreign(arms: set[str]) -> str:
    if len(arms) == 1:
        return f"1 arm of the log belongs to another tool's file and was skipped: {min(arms)}."
    return f"{len(arms):,} arms of the log belong to another tool's file and were skipped, such as {min(arms)}."


def _order(candidate: Candidate) -> tuple[int, int, float]:
    return candidate.wrong, -candidate.exact, candidate.max_alpha + candidate.max_beta


def _without_itself(facts: Facts, sha256: str, through: int) -> tuple[Facts, list[str]]:
    """Return the facts without the balance that this file opened: it would be held against itself."""
    notes = []
    if any(balance.sha256 == sha256 and balance.position <= through for balance in facts.balances):
        facts = facts_until(facts, None)
        facts.balances = [balance for balance in facts.balances if balance.sha256 != sha256]
        notes.append(
            "The ledger's opening balance of this file is excluded, since the file would be compared with itself."
        )
    written = [position for position, digest in facts.published if digest == sha256 and position <= through]
    if written:
        notes.append(f"Rightful published this file itself (position {written[0]:,}).")
    return facts, notes


def _rules(facts: Facts, through: int) -> Iterator[_Rule]:
    """Yield the presets, with and without the opening balances, and the recorded calls of each updater alone."""
    rules = [_Rule(name, policy) for name, policy in PRESETS.items()]
    names = [facts.names.text(number) for number in range(len(facts.names))]
    updaters = {name.removeprefix(CALLS).partition("#")[0] for name in names if name.startswith(CALLS)}
    graders = {"/".join(grader) for grader in facts.graders.values}
    decaying = {event.producer for event in facts.decayed} | {event.producer for event in facts.pruned}
    others = decaying | {producer for producer, _ in facts.graders.values}
    if decaying:  # each may have a file of its own, which the others do not decay
        updaters |= others
    for updater in sorted(updaters):
        grader = f"{updater}/overall"
        if grader in graders and (len(graders) > 1 or len(others) > 1):
            rules.append(_Rule(f"gptme, paid by {grader}", structs.replace(PRESETS["gptme"], graders=(grader,))))
    yield from _with_and_without_balances(rules, facts, through)


def _rules_with_decays(facts: Facts, through: int) -> Iterator[_Rule]:
    """Yield the presets that do not decay, with the decays that the log records; nothing where it records none."""
    if facts.decayed or facts.pruned or any(aside.decay_rate is not None for aside in facts.asides):
        rules = [
            _Rule(f"{name}, decay events", structs.replace(policy, arithmetic="sequential", decay=EventDecay()))
            for name, policy in PRESETS.items()
            if policy.decay is None
        ]
        yield from _with_and_without_balances(rules, facts, through)


def _with_and_without_balances(rules: list[_Rule], facts: Facts, through: int) -> Iterator[_Rule]:
    opened = any(balance.position <= through for balance in facts.balances)
    for rule in rules:
        yield rule
        if opened:
            yield _Rule(f"{rule.label}, without opening balances", structs.replace(rule.policy, balances=()))


def _decayed(question: _Question, rules: list[_Rule]) -> Iterator[_Rule]:
    """Yield the rules without a decay of their own with the decay by session that the file's evidence speaks of."""
    for label, policy in rules:
        if policy.decay is None and policy.balances != ():
            gamma = estimated_gamma(question.facts, question.state, policy, question.through)
            if gamma is not None:
                yield _Rule(f"{label}, decay session:{gamma:g}", structs.replace(policy, decay=SessionDecay(gamma)))


def _best_trial(question: _Question, rule: _Rule) -> tuple[Candidate, list[Lack]]:
    """Return the best of a rule's comparisons over the times at which the file may have been written."""
    times_us = cutoffs(question.facts, question.state, question.through)
    return min((_comparison(question, rule, time_us) for time_us in times_us), key=lambda trial: _order(trial[0]))


def _comparison(question: _Question, rule: _Rule, cutoff: int | None) -> tuple[Candidate, list[Lack]]:
    facts, state, policy = facts_until(question.facts, cutoff), question.state, rule.policy
    settlement = settle(facts, policy, question.through)
    found = posteriors_of(facts, settlement, policy, question.through, question.decay_at_us)
    log: dict[Key, Posterior] = {(arm, None): belief for arm, belief in found.arms.items()}
    if any(context is not None for _, context in state.beliefs):
        log.update({(belief.arm, belief.context): belief for belief in found.contexts})
    question.foreign.update(arm for arm, _ in log if not state.accepts(arm))
    log = {key: belief for key, belief in log.items() if key[0] not in question.foreign}
    question.own.update(arm for arm, _ in log)
    count = dict.fromkeys(("exact", "close", "differ", "only_file", "only_log"), 0)
    most, lacks = [0.0, 0.0, 0], []
    for key in ordered(log.keys() | state.beliefs.keys()):
        how, lack = _difference(key, state, log.get(key), policy)
        count[how] += 1
        most = [max(most[0], abs(lack.alpha)), max(most[1], abs(lack.beta)), max(most[2], abs(lack.n or 0))]
        if how not in {"exact", "close"}:
            lacks.append(lack)
    candidate = Candidate(
        policy=rule.label,
        policy_hash=policy.hash,
        until=cutoff,
        **count,
        max_alpha=most[0],
        max_beta=most[1],
        max_n=int(most[2]),
        fits=not lacks,
    )
    return candidate, lacks


def _difference(key: Key, state: StateFile, of_log: Posterior | None, policy: Policy) -> tuple[str, Lack]:
    """Return how the two sides agree on one belief, and what one has beyond the other."""
    of_file = state.beliefs.get(key)
    log_numbers = (*policy.prior, 0) if of_log is None else (of_log.alpha, of_log.beta, of_log.n)
    file_numbers = (*policy.prior, None) if of_file is None else (of_file.alpha, of_file.beta, of_file.n)
    alpha, beta = file_numbers[0] - log_numbers[0], file_numbers[1] - log_numbers[1]
    n = None if file_numbers[2] is None else file_numbers[2] - log_numbers[2]
    if of_file is None:
        how = "only_log"
    elif of_log is None:
        is_at_prior = (alpha, beta) == (0.0, 0.0) and not file_numbers[2]  # made, not credited
        how = "exact" if is_at_prior else "only_file"
    elif (alpha, beta, n or 0) == (0.0, 0.0, 0):
        how = "exact"
    else:
        how = "close" if max(abs(alpha), abs(beta)) <= CLOSE and not n else "differ"
    return how, Lack(arm=key[0], context=key[1], alpha=alpha, beta=beta, n=n, what=_what(alpha, beta, n))


def _what(alpha: float, beta: float, n: int | None) -> str:
    if min(alpha, beta) >= -CLOSE and (n or 0) >= 0:
        return "changed" if n == 0 else "missing"
    if max(alpha, beta) <= CLOSE and (n or 0) <= 0:
        return "changed" if n == 0 else "lost"
    return "other"


def _left_out(facts: Facts, cutoff: int | None, through: int) -> str | None:
    """Return a sentence where grades are later than the file."""
    if cutoff is None:
        return None
    later = int(((facts.grades["at"] > cutoff) & (facts.grades["pos"] <= through)).sum())
    noun = "grade is" if later == 1 else "grades are"
    return f"{later:,} {noun} later than the file's last update and excluded." if later else None
