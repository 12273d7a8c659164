"""Transcripts: one canonical fold of the rows of a session into what was said and done.

- **Where.** Turns stand by the position of their first row; within one, facts by the lowest index of their
  rows, and what has no index behind what came before it. What has no turn stands by its own position.
- **What.** The newest accepted revision of each event id. Stale rows say nothing; rows in quarantine are
  marked on the entry that they contradict.
- **Which result.** See `calls`: of its own turn, or of another where that has no answer. A placeholder never
  covers a real one.
- **How often.** Once: the same call or answer recorded again under another turn, id or producer; one end a turn;
  one message at one index.
- **Whose.** Several producers may record one session: a call id of one name is one call. Its place and its result
  are those of the producer whose messages are shown.
- **Histories.** Items of `history.appended` are shown if their producer is the only one with messages, or
  also records them as events, or if a run appended them as it went, after the batches of another producer. Items of
  other producers are shown only if they have an id and share one; the rest is counted in `left_out`.
- **Usage.** See `usage`.

A compaction, an undo or a clearing is an entry where it happened, and hides nothing: the history shows what the
model saw next. The entry names what it covers (see `covered_entries`), and retracted entries are marked. Marks
also show entries that came after their turn was closed, erased or withdrawn entries, and the places of holes.
"""

from __future__ import annotations

from collections.abc import Iterable

from rightful.log.rows import Stored
from rightful.projections.facts.completeness import completeness_of
from rightful.projections.histories.forks import RowsOf, parent_facts
from rightful.projections.transcripts.assemble import EntryBuilder
from rightful.projections.transcripts.covered_entries import CoveredEntries
from rightful.projections.transcripts.entries import Entry, Row, Transcript
from rightful.projections.transcripts.entry_parts import Part, parts_of
from rightful.projections.transcripts.holes import put_holes
from rightful.projections.transcripts.session_annotations import add_annotations
from rightful.projections.transcripts.session_facts import SessionRows
from rightful.projections.transcripts.source_choice import Sources
from rightful.projections.transcripts.tool_calls import calls_of, withdrawn_calls
from rightful.projections.transcripts.usage_totals import stretch_of, total, usage_groups

__all__ = ["Entry", "Row", "Transcript", "fold"]


def fold(session: str, rows: Iterable[Stored], *, revisions: bool = False, others: RowsOf | None = None) -> Transcript:
    """Return what the rows of one session tell.

    Args:
        session: Its name.
        rows: All its rows, of every type and outcome, by ascending position.
        revisions: Attach to each entry all its rows.
        others: Gives the rows of the session whose history it was begun with, for what its compactions cover.

    Raises:
        UpgradeError: A row is of a newer type or version. Upgrade and try again.
    """
    gathered = SessionRows(keeps=revisions)
    found = completeness_of(map(gathered.take, rows))  # the rows are read once
    facts = gathered.facts()
    sources = Sources(parts_of(facts))
    parts: list[Part] = sources.parts
    groups = usage_groups(parts)
    live = [part for part in parts if not part.fact.withdrawn]
    version = EntryBuilder(sources.shows_messages, found.late, rows=revisions)
    entries_with_parts = version.entries(parts, [*calls_of(live), *withdrawn_calls(parts)], groups)
    CoveredEntries(facts, parent_facts(facts, others)).put(entries_with_parts)
    put_holes(entries_with_parts, found.holes)
    transcript = Transcript(
        session=session,
        completeness=found.state,
        why=found.why,
        holes=list(found.holes),
        entries=[entry for entry, _ in entries_with_parts],
        usage=total(groups, sources.shows_messages, sources.together),
        left_out=sources.left_out,
        is_overwritten=gathered.is_overwritten,
    )
    stretched = {group.part.fact.producer for group in groups if stretch_of(group.part) is not None}
    add_annotations(transcript, gathered.annotating_rows(), stretched)
    if gathered.annotations or transcript.entries:
        transcript.names = [session]
    return transcript
