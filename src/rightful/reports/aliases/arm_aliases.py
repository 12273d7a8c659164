"""Arm aliases that the ledger's own arms speak of: one lesson under several paths. Proposed, never applied.

Tools write the same lesson as `tools/x.md`, `lessons/tools/x.md` or `/home/dev/ws/lessons/tools/x.md`,
and every checkout has a path of its own; each spelling is an arm of its own, and the lesson's
evidence lies scattered (gptme's "224 phantom lessons"). Two spellings are treated as one lesson if
the path below `lessons/` (or below `skills/`) is the same. They are not where one run was shown
lessons of both folders, since a run that uses two folders at once has two repositories; nor where
their recorded titles differ; nor where folders that are two would become one by several proposals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import NamedTuple

import msgspec
import numpy as np

from rightful.policies import Policy
from rightful.projections.facts.facts import Facts
from rightful.projections.projected import Projected
from rightful.reports.aliases.alias_evidence import Pairs, RunArms, differing

MARKS = ("lessons", "skills")
"""Folders below which a path names a lesson, whatever stands above them; a lesson and a skill of one path are two."""

SUFFIXES = ("md", "mdc", "mdx", "markdown", "txt", "rst", "org", "adoc")
"""Endings of a name without such a folder that may be a lesson's; `gpt-4.1` is none."""


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """One name of a lesson, and the evidence under it.

    Attributes:
        arm: The arm as it was written.
        exposures: How many exposures list it.
        withheld: How many held it back.
        credits: Its credits under the policy, opening balances included.
    """

    arm: str
    exposures: int
    withheld: int
    credits: int


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Names that are, or may be, one lesson.

    Attributes:
        path: The path that they share.
        arm: The name that would stay; None where nothing is proposed.
        why: Why they are believed to be one, or why nothing is proposed.
        spellings: All names, the one with the most evidence first.
    """

    path: str
    arm: str | None
    why: str
    spellings: tuple[Spelling, ...]


class Proposals(msgspec.Struct, frozen=True, kw_only=True):
    """What is proposed.

    Attributes:
        groups: Lessons with the names that would become aliases.
        not_proposed: Names that look alike and are left to a person.
        arm_aliases: The aliases of all groups, as a policy has them.
    """

    groups: tuple[Group, ...]
    not_proposed: tuple[Group, ...]
    arm_aliases: dict[str, str]


class _Place(NamedTuple):
    """The location of an arm's path.

    Attributes:
        root: The folders down to the mark; None where there is no mark.
        mark: Which of `MARKS` it is.
        path: The path below it.
    """

    root: str | None
    mark: str | None
    path: str


class _Candidates(NamedTuple):
    """The arms that have a place, and those that share one.

    Attributes:
        places: The location of each.
        keyed: The arms of each (mark, path); a name without a mark has that of the only names of its path that do.
    """

    places: dict[str, _Place]
    keyed: dict[tuple[str | None, str], list[str]]

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """Each path with the arms that may be one lesson."""
        return sorted((path, arms) for (mark, path), arms in self.keyed.items() if mark is not None and len(arms) > 1)


def proposals(projected: Projected, policy: Policy, *, prefer: str | None = None) -> Proposals:
    """Return the aliases that the arms of a ledger speak of.

    Args:
        projected: The projections of the ledger.
        policy: The rule whose credits are counted; its own aliases are kept.
        prefer: What the name that stays begins with, where one does; else the one with the most
            evidence stays.
    """
    counted = _Counts(projected, policy)
    candidates = _candidates(projected.facts, policy)
    places, candidate_groups = candidates.places, candidates.groups
    reasons = _Reasons(RunArms(projected, policy), candidates, policy).against([arms for _, arms in candidate_groups])
    groups, refused = [], []
    for (path, arms), why_not in zip(candidate_groups, reasons, strict=True):
        spellings = counted.spellings(arms)
        if why_not is None:
            stays, why = _staying(spellings, policy, prefer), _reason(path, arms, places)
            groups.append(Group(path=path, arm=stays, why=why, spellings=spellings))
        else:
            refused.append(Group(path=path, arm=None, why=why_not, spellings=spellings))
    refused += _alike(candidates, counted)
    pairs = ((spelling.arm, group.arm) for group in groups for spelling in group.spellings)
    aliases = {alias: arm for alias, arm in pairs if arm is not None and alias != arm}
    return Proposals(groups=tuple(groups), not_proposed=tuple(refused), arm_aliases=aliases)


def _candidates(facts: Facts, policy: Policy) -> _Candidates:
    arms = sorted({*facts.arms.values, *_unexposed_arms(facts)} - policy.arm_aliases.keys())
    places = {arm: place for arm in arms if (place := _place(arm)) is not None}
    marks: dict[str, set[str]] = defaultdict(set)
    for location in places.values():
        if location.mark is not None:
            marks[location.path].add(location.mark)
    keyed: dict[tuple[str | None, str], list[str]] = defaultdict(list)
    for arm, location in places.items():
        of_path = marks[location.path]
        keyed[location.mark or (next(iter(of_path)) if len(of_path) == 1 else None), location.path].append(arm)
    return _Candidates(places, keyed)


class _Counts:
    """The evidence under each name."""

    def __init__(self, projected: Projected, policy: Policy) -> None:
        self._credited = projected.posteriors(policy).arms
        facts = projected.facts
        self._numbers = {arm: number for number, arm in enumerate(facts.arms.values)}
        size = len(self._numbers)
        self._shown = np.bincount(facts.arms_shown["arm"], minlength=size).tolist()
        self._held = np.bincount(facts.withheld["arm"], minlength=size).tolist()

    def spellings(self, arms: Iterable[str]) -> tuple[Spelling, ...]:
        """Return names with their evidence, that with the most first."""
        return tuple(sorted(map(self._spelling, arms), key=_evidence))

    def _spelling(self, arm: str) -> Spelling:
        number, credited = self._numbers.get(arm), self._credited.get(arm)
        shown, held = (0, 0) if number is None else (self._shown[number], self._held[number])
        return Spelling(arm=arm, exposures=shown, withheld=held, credits=0 if credited is None else credited.n)


def _evidence(spelling: Spelling) -> tuple[int, int, int, int, str]:
    """Return the sort key by which the name with the most evidence is first."""
    counts = -spelling.credits, -spelling.exposures, -spelling.withheld
    return *counts, len(spelling.arm), spelling.arm


def _unexposed_arms(facts: Facts) -> Iterator[str]:
    """Yield the arms that only grades and balances name."""
    for aside in facts.asides:
        yield from chain(aside.per_arm or (), aside.salience or ())
    for balance in facts.balances:
        yield from balance.arms
        yield from (arm for arm, *_ in balance.contexts)


def same_lesson(arm: str, other: str) -> bool:
    """Return whether two names are one lesson by their paths. Only a ledger can show evidence against it."""
    place, other_place = _place(arm), _place(other)
    if place is None or other_place is None or arm == other:
        return False
    return place.path == other_place.path and (place.root is not None or other_place.root is not None)


def _place(arm: str) -> _Place | None:
    """Return the location of an arm's path; None if it is not the path of a file below a folder."""
    absolute = arm.startswith(("/", "\\")) or arm[1:3] == ":\\"
    parts = [part for part in arm.replace("\\", "/").split("/") if part not in {"", "."}]
    if not parts or ".." in parts or "." not in parts[-1] or "://" in arm:
        return None
    marked = [number for number, part in enumerate(parts[:-1]) if part in MARKS]
    if not marked:
        is_text = parts[-1].rpartition(".")[2].lower() in SUFFIXES
        return _Place(None, None, "/".join(parts)) if is_text and not absolute else None
    at = marked[-1]
    return _Place(("/" if absolute else "") + "/".join(parts[: at + 1]), parts[at], "/".join(parts[at + 1 :]))


class _Reasons:
    """Why names that may be one lesson are not proposed."""

    def __init__(self, seen: RunArms, candidates: _Candidates, policy: Policy) -> None:
        self._seen, self._policy, self._places = seen, policy, candidates.places
        held = {arm for (mark, _), arms in candidates.keyed.items() if mark is not None for arm in arms}
        roots = {arm: place.root for arm, place in candidates.places.items() if arm in held}
        for alias, arm in policy.arm_aliases.items():  # what an alias was shown with says something of it too
            if arm in held and (place := _place(alias)) is not None:
                roots[alias] = place.root
        self._roots = list(dict.fromkeys(roots.values()))
        numbers = {root: number for number, root in enumerate(self._roots)}
        self._root_of = {arm: numbers[root] for arm, root in roots.items()}
        self._separate_roots = seen.values_together(self._root_of)

    def against(self, groups: list[list[str]]) -> list[str | None]:
        """Return why each group is not proposed; None where nothing speaks against it."""
        both = self._seen.arms_together(groups)
        whys = [self._reason_against(arms, both) for arms in groups]
        folders = _Folders(self._separate_roots)
        for arms, why in zip(groups, whys, strict=True):
            if why is None:
                folders.join(self._roots_of(arms))
        for at, arms in enumerate(groups):
            if whys[at] is None and (pair := folders.torn(self._roots_of(arms)[0])) is not None:
                whys[at] = f"other proposals would merge two folders. {self._two_folders(pair)}"
        return whys

    def _roots_of(self, arms: Iterable[str]) -> list[int]:
        of_aliases = (alias for alias, arm in self._policy.arm_aliases.items() if arm in arms)
        return [self._root_of[arm] for arm in chain(arms, of_aliases) if arm in self._root_of]

    def _reason_against(self, arms: list[str], both: dict[frozenset[str], int]) -> str | None:
        targets = sorted({*self._policy.arm_aliases.values()} & {*arms})
        if len(targets) > 1:
            return f"the policy already has aliases of {' and of '.join(targets)}"
        for root, other in combinations(self._roots_of(arms), 2):
            if (pair := frozenset({root, other})) in self._separate_roots:
                return f"{self._two_folders(pair)} with the same path"
        for name, second in combinations(arms, 2):
            if (run := both.get(frozenset({name, second}))) is not None:
                return f"session {self._seen.session(run)} was shown both {name} and {second}"
        titles = self._seen.titles(arms)
        if (unlike := differing(titles)) is not None:
            titles_text = " and ".join(f"{arm} is {min(titles[arm])!r}" for arm in unlike)
            return f"their recorded titles differ: {titles_text}"
        return None

    def _two_folders(self, pair: frozenset[int]) -> str:
        folders = " and of ".join(sorted(self._roots[number] or "no folder" for number in pair))
        session = self._seen.session(self._separate_roots[pair])
        return f"session {session} was shown lessons of {folders}: two repositories"


class _Folders:
    """Folders merged by the proposals, as a union-find; detects a merge of two folders that one run used."""

    def __init__(self, separate_roots: Pairs) -> None:
        self._separate_roots = separate_roots
        self._parent: dict[int, int] = {}

    def join(self, roots: list[int]) -> None:
        """Merge folders into one repository."""
        for other in roots[1:]:
            self._parent[self._root(other)] = self._root(roots[0])

    def torn(self, root: int) -> frozenset[int] | None:
        """Return two folders that the proposals merge with this one although one run used both."""
        mine = self._root(root)
        return next((pair for pair in self._separate_roots if all(self._root(folder) == mine for folder in pair)), None)

    def _root(self, folder: int) -> int:
        while (above := self._parent.get(folder, folder)) != folder:
            folder = above
        return folder


def _reason(path: str, arms: list[str], places: dict[str, _Place]) -> str:
    roots = sorted(root for arm in arms if (root := places[arm].root) is not None)
    bare = "" if all(places[arm].root is not None for arm in arms) else ", and without a folder"
    return f"the same path {path} below {', '.join(roots)}{bare}; no session was shown lessons of two of them"


def _staying(spellings: Iterable[Spelling], policy: Policy, prefer: str | None) -> str:
    """Return the name that stays: one that has aliases already, else a preferred one, else that of most evidence."""
    arms = [spelling.arm for spelling in spellings]
    has_aliases = [arm for arm in arms if arm in policy.arm_aliases.values()]
    preferred = [arm for arm in arms if prefer is not None and arm.startswith(prefer)]
    return [*has_aliases, *preferred, *arms][0]


def _alike(candidates: _Candidates, counted: _Counts) -> Iterator[Group]:
    """Yield the files of one name in different folders, such as SKILL.md, of which every skill has one."""
    of_file: dict[str, list[tuple[str | None, str]]] = defaultdict(list)
    for key in sorted(candidates.keyed, key=lambda key: (key[1], key[0] or "")):
        of_file[key[1].rpartition("/")[2]].append(key)
    for file, keys in of_file.items():
        arms = [arm for key in keys for arm in candidates.keyed[key]]
        if len(keys) > 1 and any(candidates.places[arm].root is not None for arm in arms):
            why = "the same file name in different folders: nothing shows that they are one lesson"
            yield Group(path=file, arm=None, why=why, spellings=counted.spellings(arms))
