"""The first half of the oracle: what the rows say of names, runs, exposures and grades.

Plain Python over the rows as their reader sees them, written from docs/explanation/attribution.md;
`tests/oracle.py` says which open choices it takes over from the code.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, TypeAlias

from rightful import events
from rightful.log.rows import Recorded
from rightful.policies import Policy
from rightful.times import us_of

Name: TypeAlias = tuple[str, bool]
"""A session's text, and whether it was read from a sanitised form."""

Context: TypeAlias = tuple[str | None, ...]
Key: TypeAlias = tuple[str, Context | None]

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


@dataclasses.dataclass(frozen=True)
class Line:
    """A row as the oracle takes it: what its reader sees, its time, and who wrote it."""

    row: Recorded
    at: int
    producer: str


@dataclasses.dataclass
class Shown:
    """One exposure."""

    name: Name
    at: int
    position: int
    arms: list[str]
    withheld: list[str]
    context: Context | None
    file_time: bool
    usable: bool
    erased: bool
    is_draw: bool = False

    def told_first(self) -> tuple[int, bool, str, int]:
        """By time; of one time those with a context first, by what it says, so that arrival decides nothing."""
        return self.at, self.context is None, repr(self.context), self.position


@dataclasses.dataclass
class Grade:
    """One grade or retraction."""

    name: Name
    at: int
    position: int
    grader: str
    seq: int
    retraction: bool
    quarantined: bool
    event: Any

    @property
    def says(self) -> tuple[Any, ...]:
        """Its content, without its time."""
        if self.retraction:
            return (True,)
        event = self.event
        more = (event.per_arm, event.salience, event.decay_rate)
        return (False, event.reward, event.outcome, event.exposure_session, repr(more))


def sanitised(value: str) -> set[str]:
    """The closed list: the hook's, the cursor's and the slug's form of a value."""

    def replaced(kept: str, by: str) -> str:
        return "".join(letter if letter in LETTERS or letter in kept else by for letter in value)

    return {replaced("_-", "_"), replaced("._-", "_"), replaced("", "-")}


def space_of(name: Name) -> str:
    return name[0].partition(":")[0]


def name_of(row: Recorded) -> Name:
    """A name read by the reader of state files or lesson events is exact where it has no `_`."""
    assert row.session is not None
    alias = bool(getattr(row.event, "alias", False))
    if isinstance(row.event, events.ExposureRecorded) and row.event.producer.startswith("lesson-hook-"):
        alias = alias and "_" in row.session.partition(":")[2]
    return row.session, alias


class Told:
    """What the rows say, before any policy but for its graders and arm aliases."""

    def __init__(self, lines: Iterable[Line], policy: Policy) -> None:
        self.lines = list(lines)
        self.policy = policy
        self.unusable: set[int] = set()
        self.void: set[int] = set()
        self._settle_conflicts()
        stating = [line for line in self.lines if line.row.outcome in {"appended", "conflict"}]
        self.stating = [line for line in stating if line.row.position not in self.void]
        self.sound = [line for line in self.stating if line.row.position not in self.unusable]
        self.known = self._names(self.stating)
        self.began = {name_of(line.row) for line in self.stating if line.row.type == "session.started"}
        self.began = {name for name in self.began if not name[1]}
        self.run_of: dict[Name, Name] = {}
        self.ambiguous: set[Name] = set()
        self._join_runs(self._links())
        self._doubt_reused_names()
        self.gone = self._gone()
        stating = [line for line in self.stating if line.row.session is None or name_of(line.row) not in self.gone]
        self.shown = [self._exposure(line) for line in stating if line.row.type == "exposure.recorded"]
        self.erased = [line for line in stating if line.row.type == "grade.recorded" and line.row.event is None]
        self.grades = [grade for line in stating if (grade := self._grade(line)) is not None]

    def arm(self, arm: str) -> str:
        return self.policy.arm_aliases.get(arm, arm)

    def run(self, name: Name) -> Name:
        return self.run_of.get(name, name)

    def rank(self, grader: str) -> int | None:
        if any(fnmatchcase(grader, pattern) for pattern in self.policy.without_graders):
            return None
        for place, pattern in enumerate(self.policy.graders):
            if fnmatchcase(grader, pattern):
                return place
        return None

    def pays_from(self, event: Any) -> bool:
        """Whether the policy pays from graders of the producer of an event."""
        own = f"{event.producer}/overall"
        if any(fnmatchcase(own, pattern) for pattern in self.policy.without_graders):
            return False
        heads = [pattern[: pattern.rindex("/")] for pattern in self.policy.graders]
        return self.rank(own) is not None or any(fnmatchcase(event.producer, head) for head in heads)

    def fitting(self, name: Name) -> list[Name]:
        """Every other name of which this one can be an alias, or which can be one of it."""
        value = name[0].partition(":")[2]
        fits = []
        for other in self.known:
            other_value = other[0].partition(":")[2]
            alike = value in sanitised(other_value) or other_value in sanitised(value)
            two_sessions = {name, other} <= self.began
            if other != name and space_of(other) == space_of(name) and alike and not two_sessions:
                fits.append(other)
        return fits

    # Repeats: an id in conflict pays nobody until withdrawals leave one of its rows.

    def _settle_conflicts(self) -> None:
        positions: dict[str, dict[int, int]] = {}
        for line in self.lines:
            if line.row.outcome == "conflict":
                positions.setdefault(line.row.id, {1: line.row.first})[line.row.revision] = line.row.position
        for event_id, of_id in positions.items():
            gone = {revision for _, revision in self._withdrawals(event_id, None)}
            left = [position for revision, position in of_id.items() if revision not in gone]
            self.void.update(position for revision, position in of_id.items() if revision in gone)
            if len(left) > 1:
                self.unusable.update(left)
        self._withdraw({line.row.id for line in self.lines} - positions.keys())

    def _withdrawals(self, event_id: str, by: str | None) -> list[tuple[str, int]]:
        """The id and the revision of each withdrawal of an event in force, by one producer or by all."""
        said = []
        for line in self.lines:
            event = line.row.event
            states = line.row.outcome in {"appended", "conflict"} and by in {None, line.producer}
            if states and isinstance(event, events.EventWithdrawn):
                said.append((line.row.id, event.id, event.revision))
        taken_back = {of for _, of, _ in said}
        return [(own, revision) for own, of, revision in said if of == event_id and own not in taken_back]

    def _withdraw(self, ids: set[str]) -> None:
        """Leave out what its own producer withdrew: all that is accepted of it."""
        named = {line.row.event.id for line in self.lines if isinstance(line.row.event, events.EventWithdrawn)}
        for event_id in ids & named:
            mine = [line for line in self.lines if line.row.id == event_id]
            if mine[0].row.type == "event.withdrawn":
                continue
            accepted = [line for line in mine if line.row.outcome in {"appended", "reemitted"}]
            if all(
                line.row.revision in {revision for _, revision in self._withdrawals(event_id, line.producer)}
                for line in accepted
            ):
                self.void.update(line.row.position for line in accepted)

    # Names, links, runs.

    def _names(self, stating: list[Line]) -> set[Name]:
        naming = [line for line in self.lines if line.row.position not in self.void]
        naming = [line for line in naming if line.row.type != "event.withdrawn"]
        names = {name_of(line.row) for line in naming if line.row.session is not None}
        for line in stating:
            if isinstance(line.row.event, events.SessionLinked | events.SessionUnlinked):
                names.add((line.row.event.other, False))
        return names

    def _links(self) -> list[tuple[Name, Name, str, str]]:
        links: list[tuple[Name, Name, str, str]] = []
        for line in self.sound:
            event = line.row.event
            if line.row.session is None or name_of(line.row)[1]:
                continue
            if isinstance(event, events.SessionLinked):
                links.append((name_of(line.row), (event.other, False), event.as_, event.evidence))
            elif isinstance(event, events.SessionUnlinked):
                pair = (name_of(line.row), (event.other, False))
                links = [link for link in links if link[:2] != pair]
        strong = [link for link in links if link[3] != "cwd-window"]
        kept = []
        for session, other, relation, evidence in links:
            rivals = [link for link in strong if link[1] == other]
            if relation == "native":
                rivals += [link for link in strong if link[0] == session and link[2] == "native"]
            if evidence != "cwd-window" or not rivals:
                kept.append((session, other, relation, evidence))
        return kept

    def _join_runs(self, links: list[tuple[Name, Name, str, str]]) -> None:
        others = {link[1] for link in links}
        marked = {link[1] for link in links if link[2] != "native"}
        waiting = {name for link in links for name in link[:2]}
        while waiting:
            component = {waiting.pop()}
            while grown := {name for link in links if component & {*link[:2]} for name in link[:2]} - component:
                component |= grown
            waiting -= component
            owners = component - others
            if len(owners) == 1 and len((component & others) - marked) <= 1:
                self.run_of.update(dict.fromkeys(component, next(iter(owners))))
            else:
                self.ambiguous |= component

    def _doubt_reused_names(self) -> None:
        nonces: dict[Name, set[str]] = {}
        for line in self.sound:
            event = line.row.event
            if isinstance(event, events.SessionStarted) and event.run_nonce is not None:
                nonces.setdefault(name_of(line.row), set()).add(event.run_nonce)
        self.reused = {name for name, seen in nonces.items() if len(seen) > 1} | self._contradicted()
        doubtful = {self.run(name) for name in self.reused}
        self.ambiguous |= {name for name in self.known if self.run(name) in doubtful}
        for name in self.ambiguous:
            self.run_of.pop(name, None)

    def _contradicted(self) -> set[Name]:
        """The sessions of Claude Code of which a row that is not withdrawn has the transcript of another session."""
        said = [
            (line.row.id, line.row.event)
            for line in self.lines
            if isinstance(line.row.event, events.EventWithdrawn) and line.row.outcome in {"appended", "conflict"}
        ]
        gone = {(event.id, event.revision) for own, event in said if not any(own == one.id for _, one in said)}
        found = set()
        for line in self.lines:
            path = (getattr(line.row.event, "extra", None) or {}).get("transcript_path")
            if line.row.session is None or not isinstance(path, str) or (line.row.id, line.row.revision) in gone:
                continue
            name, (space, _, value) = name_of(line.row), line.row.session.partition(":")
            file = re.fullmatch(
                r"(?:.*/)?([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.jsonl", path, re.DOTALL
            )
            if space == "claude-code" and not name[1] and file and file[1] != value.partition("/")[0]:
                found.add(name)
        return found

    # What the policy leaves out.

    def _gone(self) -> set[Name]:
        """The sessions left out, each with its run; and each sanitised form that can only be of one of them."""
        gone: set[Name] = set()
        for session in self.policy.without_sessions:
            exact, alias = (session, False), (session, True)
            meant = [exact] if exact in self.known else [exact, alias]
            runs = {self.run(name) for name in meant}
            gone |= {name for name in {*self.known, *meant} if self.run(name) in runs}
        if not gone:
            return gone
        aliases = [name for name in self.known if name[1]]
        return gone | {name for name in aliases if len(fits := self.fitting(name)) == 1 and fits[0] in gone}

    def _counts(self, source: str) -> bool:
        """Whether an opening balance of this source counts."""
        patterns = self.policy.balances
        return patterns is None or any(fnmatchcase(source, pattern) for pattern in patterns)

    # Exposures, grades, balances.

    def _exposure(self, line: Line) -> Shown:
        row, event = line.row, line.row.event
        if not isinstance(event, events.ExposureRecorded):
            return Shown(name_of(row), line.at, row.position, [], [], None, False, False, True)
        return Shown(
            name_of(row),
            line.at,
            row.position,
            [self.arm(one.arm) for one in event.arms],
            [self.arm(one.arm) for one in event.withheld],
            event.context,
            event.at_basis == "file",
            row.position not in self.unusable,
            False,
            not event.arms and (bool(event.withheld) or "withheld" in (event.extra or {})),
        )

    def _grade(self, line: Line) -> Grade | None:
        row, event = line.row, line.row.event
        if not isinstance(event, events.GradeRecorded | events.GradeRetracted):
            return None
        if isinstance(event, events.GradeRecorded) and event.reward is None and event.outcome == "unknown":
            return None
        grader = f"{event.producer}/{event.rubric}"
        if self.rank(grader) is None or (getattr(event, "exposure_session", None), False) in self.gone:
            return None
        retraction = isinstance(event, events.GradeRetracted)
        quarantined = row.position in self.unusable
        return Grade(name_of(row), line.at, row.position, grader, event.seq, retraction, quarantined, event)

    def balances(self) -> list[events.BalanceOpened]:
        """Of each source the newest, without bytes that we published, and without what a rebuild retired."""
        ours = set()
        for line in self.lines:
            said = line.row.event
            if isinstance(said, events.PosteriorPublished) and not any(
                name in (said.extra or {}) for name in ("rollback", "opened")
            ):
                ours.add(said.new_sha256)
        newest: dict[str, tuple[int, int, events.BalanceOpened]] = {}
        retired = self.retired()
        for line in self.sound:
            event = line.row.event
            if line.row.id in retired:
                continue
            if isinstance(event, events.BalanceOpened) and event.sha256 not in ours and self._counts(event.source):
                stands = (line.at, line.row.position)
                if event.source not in newest or stands > newest[event.source][:2]:
                    newest[event.source] = (*stands, event)
        return [one for _, _, one in newest.values()]

    def retired(self) -> set[str]:
        """The balances that a publication names as rebuilt, but for publications that were taken back."""
        said = [
            (line.row.id, line.row.event.extra or {})
            for line in self.sound
            if isinstance(line.row.event, events.PosteriorPublished)
        ]
        back = {extra.get("rolled_back") for _, extra in said}
        return {one for own, extra in said if own not in back for one in extra.get("retires", [])}

    def balanced_until(self, arm: str | None = None) -> int:
        """The latest time of a grade that a balance contains; of those balances that hold an arm, if one is given."""
        holding = [one for one in self.balances() if arm is None or arm in self._held(one)]
        return max((us_of(one.through) for one in holding if isinstance(one.through, datetime)), default=-1)

    def _held(self, balance: events.BalanceOpened) -> set[str]:
        return {self.arm(arm) for arm in [*balance.arms, *(state.arm for state in balance.contexts)]}

    def spared(self, at: int, *, or_taken: bool = False) -> set[str]:
        """The arms of the balances that contain what happened then: up to `through`, or until they were taken."""
        arms: set[str] = set()
        for one in self.balances():
            until = us_of(one.through) if isinstance(one.through, datetime) else -1
            if at <= (max(until, us_of(one.at)) if or_taken else until):
                arms |= self._held(one)
        return arms


@dataclasses.dataclass(eq=False)
class Unit:
    """One grade that pays, or the reason why it does not."""

    grade: Grade
    run: Name
    slot: int
    bin: str | None
    target: Name
    since: int
    effective: bool = dataclasses.field(init=False)
    unclear: bool = False
    tied: bool = False
    source: Name | None = None
    first: tuple[bool, int] = (False, 0)
    place: Any = None
    shared: bool = False
    reached: list[Shown] = dataclasses.field(default_factory=list)
    live: list[Shown] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.effective = self.bin is None  # and so it reaches exposures
        self.place = self.run


@dataclasses.dataclass
class Credit:
    """What one unit gives one arm."""

    unit: Unit
    arm: str
    context: Context | None
    weight: Fraction
    reward: float


@dataclasses.dataclass
class Belief:
    """The answer about one arm, or one arm in a context."""

    alpha: Any
    beta: Any
    n: int
    mass: Any


@dataclasses.dataclass
class Answer:
    """All beliefs, the counters that are not zero, and how many units there are."""

    beliefs: dict[Key, Belief]
    counters: dict[str, int]
    units: int
