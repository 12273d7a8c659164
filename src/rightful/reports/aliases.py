"""Arm aliases that the ledger's own arms speak of: one lesson under several paths. Proposed, never applied.

Tools write the same lesson as `tools/x.md`, `lessons/tools/x.md` or `/home/dev/ws/lessons/tools/x.md`,
and every checkout has a path of its own; each spelling is an arm of its own, and the lesson's
evidence lies scattered (gptme's "224 phantom lessons"). Two spellings are taken for one lesson if
the path below `lessons/` (or `skills/`) is the same. They are not where one session was shown
lessons of both folders: a session that uses two folders at once has two repositories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rightful.policies import Policy
from rightful.projections.facts import Facts
from rightful.projections.projected import Projected

MARKS = ("lessons", "skills")
"""Folders below which a path names a lesson, whatever stands above them."""


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
    """

    groups: tuple[Group, ...]
    not_proposed: tuple[Group, ...]

    @property
    def arm_aliases(self) -> dict[str, str]:
        """The aliases as a policy has them."""
        pairs = ((one.arm, group.arm) for group in self.groups for one in group.spellings)
        return {alias: arm for alias, arm in pairs if arm is not None and alias != arm}


class _Place(NamedTuple):
    """Where an arm's path stands: the folder above the mark, None where there is no mark, and the path below it."""

    root: str | None
    path: str


def proposals(projected: Projected, policy: Policy, *, prefer: str | None = None) -> Proposals:
    """Return the aliases that the arms of a ledger speak of.

    Args:
        projected: The projections of the ledger.
        policy: The rule whose credits are counted; its own aliases are kept.
        prefer: What the name that stays begins with, where one does; else the one with the most
            evidence stays.
    """
    counted = _Counts(projected, policy)
    facts = projected.facts
    of_path: dict[str, list[str]] = defaultdict(list)
    places: dict[str, _Place] = {}
    for arm in sorted({*facts.arms.values, *_others(facts)} - policy.arm_aliases.keys()):
        if (place := _place(arm)) is not None:
            places[arm] = place
            of_path[place.path].append(arm)
    marked = {one.path for one in places.values() if one.root is not None}
    together = _together(facts, {arm: one for arm, one in places.items() if one.path in marked})
    groups, refused = [], []
    for path, arms in sorted(of_path.items()):
        if len(arms) == 1 or all(places[arm].root is None for arm in arms):
            continue
        spellings = counted.spellings(arms)
        why = _refusal(arms, places, together, policy)
        if why is None:
            stays, why = _staying(spellings, policy, prefer), _reason(path, arms, places)
            groups.append(Group(path=path, arm=stays, why=why, spellings=spellings))
        else:
            refused.append(Group(path=path, arm=None, why=why, spellings=spellings))
    refused += _alike(of_path, places, counted)
    return Proposals(groups=tuple(groups), not_proposed=tuple(refused))


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
        found = [self._one(arm) for arm in arms]
        found.sort(key=lambda one: (-one.credits, -one.exposures, -one.withheld, len(one.arm), one.arm))
        return tuple(found)

    def _one(self, arm: str) -> Spelling:
        number, credited = self._numbers.get(arm), self._credited.get(arm)
        shown, held = (0, 0) if number is None else (self._shown[number], self._held[number])
        return Spelling(arm=arm, exposures=shown, withheld=held, credits=0 if credited is None else credited.n)


def _others(facts: Facts) -> Iterator[str]:
    """Yield the arms that only grades and balances name."""
    for aside in facts.asides:
        yield from chain(aside.per_arm or (), aside.salience or ())
    for balance in facts.balances:
        yield from balance.arms
        yield from (arm for arm, *_ in balance.contexts)


def same_lesson(one: str, other: str) -> bool:
    """Say whether two names are one lesson by their paths; what speaks against it, only a ledger knows."""
    here, there = _place(one), _place(other)
    if here is None or there is None or one == other:
        return False
    return here.path == there.path and (here.root is not None or there.root is not None)


def _place(arm: str) -> _Place | None:
    """Return where an arm's path stands; None where it is no path of a file below a folder."""
    absolute = arm.startswith(("/", "\\")) or arm[1:3] == ":\\"
    parts = [part for part in arm.replace("\\", "/").split("/") if part not in {"", "."}]
    if not parts or ".." in parts or "." not in parts[-1] or "://" in arm:
        return None
    marked = [number for number, part in enumerate(parts[:-1]) if part in MARKS]
    if not marked:
        return None if absolute else _Place(None, "/".join(parts))
    mark = marked[-1]
    return _Place(("/" if absolute else "") + "/".join(parts[: mark + 1]), "/".join(parts[mark + 1 :]))


def _together(facts: Facts, places: dict[str, _Place]) -> dict[frozenset[str | None], str]:
    """Return the pairs of folders whose lessons one session was shown or denied, with the session."""
    roots: dict[str | None, int] = {}
    of_arm = np.full(len(facts.arms.values), -1, np.int64)
    for number, arm in enumerate(facts.arms.values):
        if arm in places:
            of_arm[number] = roots.setdefault(places[arm].root, len(roots))
    count = facts.shown["count"].astype(np.int64)
    start = facts.shown["start"].astype(np.int64)
    row = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + start[row]
    row = np.concatenate([row, facts.withheld["row"]])
    root = of_arm[np.concatenate([facts.arms_shown["arm"][place], facts.withheld["arm"]])]
    pairs = np.unique(facts.shown["name"][row[root >= 0]].astype(np.int64) << 32 | root[root >= 0])
    names, known = pairs >> 32, list(roots)
    found: dict[frozenset[str | None], str] = {}
    for name in np.unique(names[1:][names[1:] == names[:-1]]).tolist():
        low, high = np.searchsorted(names, name, "left"), np.searchsorted(names, name, "right")
        for one, other in combinations((pairs[low:high] & 0xFFFFFFFF).tolist(), 2):
            found.setdefault(frozenset({known[one], known[other]}), facts.names.text(name))
    return found


def _refusal(
    arms: list[str], places: dict[str, _Place], together: dict[frozenset[str | None], str], policy: Policy
) -> str | None:
    """Return why nothing is proposed; None where nothing speaks against it."""
    targets = sorted({*policy.arm_aliases.values()} & {*arms})
    if len(targets) > 1:
        return f"the policy has aliases of {' and of '.join(targets)} already"
    for one, other in combinations(arms, 2):
        roots = frozenset({places[one].root, places[other].root})
        if len(roots) > 1 and (session := together.get(roots)) is not None:
            folders = " and of ".join(sorted(root or "no folder" for root in roots))
            return f"session {session} was shown lessons of {folders}: two repositories with the same path"
    return None


def _reason(path: str, arms: list[str], places: dict[str, _Place]) -> str:
    roots = sorted(root for arm in arms if (root := places[arm].root) is not None)
    bare = "" if all(places[arm].root is not None for arm in arms) else ", and without a folder"
    return f"the same path {path} below {', '.join(roots)}{bare}; no session was shown lessons of two of them"


def _staying(spellings: Iterable[Spelling], policy: Policy, prefer: str | None) -> str:
    """Return the name that stays: one that has aliases already, else a preferred one, else that of most evidence."""
    arms = [one.arm for one in spellings]
    has_aliases = [arm for arm in arms if arm in policy.arm_aliases.values()]
    preferred = [arm for arm in arms if prefer is not None and arm.startswith(prefer)]
    return [*has_aliases, *preferred, *arms][0]


def _alike(of_path: dict[str, list[str]], places: dict[str, _Place], counted: _Counts) -> Iterator[Group]:
    """Yield the files of one name in different folders, such as SKILL.md, of which every skill has one."""
    of_file: dict[str, list[str]] = defaultdict(list)
    for path in sorted(of_path):
        of_file[path.rpartition("/")[2]].append(path)
    for file, paths in of_file.items():
        arms = [arm for path in paths for arm in of_path[path]]
        if len(paths) > 1 and any(places[arm].root is not None for arm in arms):
            why = "the same file name in different folders: nothing says that it is one lesson"
            yield Group(path=file, arm=None, why=why, spellings=counted.spellings(arms))


def as_dict(found: Proposals) -> dict[str, Any]:
    """Return proposals as JSON values."""
    return {**msgspec.to_builtins(found), "arm_aliases": found.arm_aliases}
