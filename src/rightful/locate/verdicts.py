"""Decide which session owns a transcript, from the claims of all sessions.

The strongest claim without contrary evidence makes its session the owner, if it is the session's
only claim of that rank and no other session has an equally strong claim. Every other claim is a
candidate with a reason. The answer does not depend on any order or file time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from rightful.identity import split_session
from rightful.locate.evidence import FileEvidence
from rightful.locate.ownership_claims import Claim, Index, group_of
from rightful.locate.ranks import Rank
from rightful.locate.wanted_sessions import NATIVES, WantedSession

Verdict = Literal["owner", "candidate", "contradicted"]
Same = Callable[[FileEvidence, FileEvidence], bool]

_FORMS = {"transcript": 0, "rollout": 0, "events": 0, "conversation": 0, "stream": 1}
_SHOWN = 3


class ClaimVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A claim and its verdict.

    Attributes:
        claim: The claim.
        verdict: `owner`, `candidate` or `contradicted`.
        why: Why it is not the owner; "" if it is.
    """

    claim: Claim
    verdict: Verdict
    why: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about a session.

    Attributes:
        session: The session.
        found: Whether transcripts were found that may be its own.
        owner: The claim of its own transcript; None if there is no proof.
        judged: Every claim, the strongest first.
        why: Why there is no owner, or the evidence for the owner.
        lost: Pointers and paths whose files no longer exist.
    """

    session: str
    found: bool
    owner: Claim | None
    judged: tuple[ClaimVerdict, ...]
    why: str
    lost: tuple[str, ...] = ()


class OwnershipResolver:
    """Resolves the claims of all sessions.

    Args:
        index: The transcripts.
        sessions: Every session that is known, by name.
        bound: The sessions to which a transcript is bound already, each with the evidence, by path.
        same: Returns whether two files have the same bytes.
    """

    def __init__(
        self,
        index: Index,
        sessions: Mapping[str, WantedSession],
        bound: Mapping[str, Iterable[tuple[str, Rank]]],
        same: Same,
    ) -> None:
        self._index, self._same = index, same
        self._sessions = sessions
        self._claims = {name: index.of(session) for name, session in sessions.items()}
        self._claimed: dict[str, list[tuple[str, Rank]]] = defaultdict(list)
        for name, claims in self._claims.items():
            if not sessions[name].is_native:
                for claim in claims:
                    if not claim.against and claim.rank < Rank.WEAK:
                        self._claimed[claim.group].append((name, claim.rank))
        for path, holders in bound.items():
            if (file := index.scan.files.get(path)) is not None:
                self._claimed[group_of(file)] += [
                    holder for holder in holders if split_session(holder[0])[0] not in NATIVES
                ]

    def answer(self, name: str) -> Answer:
        """Return the verdicts on all claims of a session."""
        session = self._sessions[name]
        claims = self._claims[name]
        owner, reasons = self._owner(session, claims)
        judged = tuple(self._judge(claim, owner, reasons) for claim in claims)
        found = any(verdict.verdict != "contradicted" for verdict in judged)
        why = _summary(owner, judged)
        return Answer(session=name, found=found, owner=owner, judged=judged, why=why, lost=self._index.lost(session))

    def _owner(self, session: WantedSession, claims: tuple[Claim, ...]) -> tuple[Claim | None, dict[str, str]]:
        """Return the owning claim, and for each other group of files the reason why it is not the owner."""
        able = [claim for claim in claims if not claim.against and claim.rank < Rank.WEAK]
        groups: dict[str, list[Claim]] = defaultdict(list)
        for claim in able:
            groups[claim.group].append(claim)
        reasons: dict[str, str] = {}
        if not able:
            return None, reasons
        rank = min(claim.rank for claim in able)
        first = sorted(group for group, members in groups.items() if min(claim.rank for claim in members) == rank)
        for group in groups:
            if group not in first:
                reasons[group] = "another transcript has a stronger claim"
        if len(first) > 1:
            for group in first:
                reasons[group] = f"{len(first)} transcripts fit it equally well"
            return None, reasons
        [group] = first
        head = _representative(groups[group], self._same)
        if head is None:
            reasons[group] = "its tool's file exists in two places, with different content"
        elif head.doubts:
            reasons[group] = "; ".join(head.doubts)
        elif rivals := self._rivals(session, head):
            claims_it = "claims it" if len(rivals) == 1 else "claim it"
            reasons[group] = f"{_names_text(rivals)} {claims_it} as strongly"
        else:
            return head, reasons
        return None, reasons

    def _rivals(self, session: WantedSession, head: Claim) -> list[str]:
        """Return the other sessions that claim a transcript at least as strongly."""
        if session.is_native:
            return []
        mine = {session.name, *session.natives}
        return sorted(
            {
                name
                for name, rank in self._claimed[head.group]
                if name not in mine and rank <= head.rank and session.name not in self._names_of(name)
            }
        )

    def _names_of(self, name: str) -> Iterable[str]:
        other = self._sessions.get(name)
        return () if other is None else other.natives

    def _judge(self, claim: Claim, owner: Claim | None, reasons: Mapping[str, str]) -> ClaimVerdict:
        if claim.against:
            return ClaimVerdict(claim=claim, verdict="contradicted", why="; ".join(claim.against))
        if owner is not None and claim.file.path == owner.file.path:
            return ClaimVerdict(claim=claim, verdict="owner", why="")
        if owner is not None and claim.group == owner.group:
            why = "; ".join(claim.doubts) or "another form or copy of the transcript that is its own"
        else:
            why = "; ".join(dict.fromkeys((*claim.doubts, *([reasons[claim.group]] if claim.group in reasons else []))))
        return ClaimVerdict(claim=claim, verdict="candidate", why=why)


def _representative(claims: list[Claim], same: Same) -> Claim | None:
    """Return the claim of the file that represents a session; None if two copies differ.

    A file that the tool wrote precedes one that it printed; a stub is last.
    """
    ranked = sorted(
        claims, key=lambda claim: (bool(claim.doubts), _FORMS[claim.file.form], claim.rank, claim.file.path)
    )
    first = ranked[0]
    alike = [
        claim
        for claim in ranked[1:]
        if _FORMS[claim.file.form] == _FORMS[first.file.form] and claim.file.is_stub == first.file.is_stub
    ]
    return first if all(same(first.file, claim.file) for claim in alike) else None


def _summary(owner: Claim | None, judged: tuple[ClaimVerdict, ...]) -> str:
    if owner is not None:
        return owner.words
    if not judged:
        return "no transcript was found that can be linked to it"
    candidates = [verdict for verdict in judged if verdict.verdict == "candidate"]
    if not candidates:
        return f"what was found is contradicted: {judged[0].why}"
    return min(candidates, key=lambda verdict: verdict.claim.rank).why


def _names_text(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
