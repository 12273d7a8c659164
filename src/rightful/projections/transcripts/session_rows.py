"""The rows of a transcript: a session's own, else those of the names that links join to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from rightful.errors import UsageError
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.projections.credit.runs import IN_FORCE, link_states, quarantine_of, runs_of
from rightful.projections.facts.completeness import WORST, Completeness
from rightful.projections.facts.completeness import require_complete as refuse_holes
from rightful.projections.facts.facts import RELATIONS, Facts
from rightful.projections.projected import Projected
from rightful.projections.transcripts import fold
from rightful.projections.transcripts.entries import Transcript, Usage
from rightful.projections.transcripts.session_annotations import merged_start
from rightful.projections.transcripts.usage_totals import summed

_SUBAGENT = RELATIONS.index("subagent")


def transcript_of(
    projected: Projected, session: str, *, require_complete: bool = False, revisions: bool = False
) -> Transcript:
    """Return the transcript of a session; see `Ledger.transcript`.

    Raises:
        UsageError: No row names the session.
        IncompleteTranscriptError: It is not known to be whole.
    """
    log = projected.log
    transcript = _folded(log, session, revisions=revisions)
    if all(entry.kind == "data" for entry in transcript.entries):
        transcript = _with_linked_names(projected, transcript, revisions=revisions)
    if require_complete:
        holes = tuple(transcript.holes)
        refuse_holes(session, Completeness(transcript.completeness, holes, transcript.why))
    return transcript


def _folded(log: Log, session: str, *, revisions: bool) -> Transcript:
    return fold(session, _rows(log, session), revisions=revisions, others=partial(_rows, log))


def _rows(log: Log, session: str, until: int | None = None) -> Iterable[Stored]:
    return (row for page in log.of_session(session, until=until) for row in page)


def _with_linked_names(projected: Projected, own: Transcript, *, revisions: bool) -> Transcript:
    """Return the entries of the other names of a session's run, followed by the data under its own name."""
    facts = projected.catch_up()
    known = facts.names.numbers_of(own.session, facts.watermark)
    if not known:
        raise UsageError(f"no session is named {own.session!r} in this ledger; nothing was shown. Name it in full.")
    others, own.ambiguous = _others(facts, known[0])
    transcripts = [_folded(projected.log, name, revisions=revisions) for name in others]
    transcripts = sorted(
        (transcript for transcript in transcripts if transcript.entries),
        key=lambda transcript: (min(entry.at_us for entry in transcript.entries), transcript.session),
    )
    if not transcripts:
        return own
    for transcript in transcripts:
        for entry in transcript.entries:
            entry.session = transcript.session
    for entry in own.entries:
        entry.session = own.session
    worst = min(transcripts, key=lambda transcript: WORST.index(transcript.completeness))
    return Transcript(
        session=own.session,
        names=[transcript.session for transcript in transcripts],
        completeness=worst.completeness,
        why=worst.why,
        holes=[hole for transcript in transcripts for hole in transcript.holes],
        entries=[entry for transcript in [*transcripts, own] for entry in transcript.entries],
        usage=_used(transcripts),
        started=merged_start(own.started, transcripts[0].started),
        ended=own.ended or transcripts[-1].ended,
        subagents=sorted({name for transcript in [own, *transcripts] for name in transcript.subagents}),
        left_out=dict(sum((Counter(transcript.left_out) for transcript in transcripts), Counter[str]())),
    )


def names_of(projected: Projected, session: str) -> list[str]:
    """Return a session's name and those that links join to it, where they say which run it is."""
    facts = projected.catch_up()
    known = facts.names.numbers_of(session, facts.watermark)
    return [session, *(_others(facts, known[0])[0] if known else ())]


def _others(facts: Facts, number: int) -> tuple[list[str], str | None]:
    """Return the names of a session's run that are not its subagents', or why they are unknown."""
    names, through = facts.names, facts.watermark
    among = np.zeros(len(names), np.bool_)
    among[names.closure([number])] = True
    quarantine = quarantine_of(facts, through)
    if runs_of(facts, through, quarantine, among).ambiguous[number]:
        return [], "its links, or its starts, do not say which run it is; `rightful explain` shows them"
    states = link_states(facts, through, quarantine, among)
    rows = np.flatnonzero((states == IN_FORCE) & (facts.links["relation"][: len(states)] != _SUBAGENT))
    near: dict[int, list[int]] = {}
    for row in rows.tolist():
        session, other = int(facts.links["session"][row]), int(facts.links["other"][row])
        near.setdefault(session, []).append(other)
        near.setdefault(other, []).append(session)
    found, waiting = {number}, [number]
    while waiting:
        for other in near.get(waiting.pop(), ()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return sorted({names.text(name) for name in found - {number}}), None


def _used(transcripts: list[Transcript]) -> Usage:
    amounts: dict[str, list[Any]] = {}
    cumulative: dict[str, Any] = {}
    for transcript in transcripts:
        for name, value in transcript.usage.total.items():
            amounts.setdefault(name, []).append(value)
        cumulative |= transcript.usage.cumulative
    return Usage(
        total={name: summed(values) for name, values in amounts.items()},
        cumulative=cumulative if len(transcripts) == 1 else {},
    )
