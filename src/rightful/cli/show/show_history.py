"""Text output of `history`: the view, all items, and the compactions. Imports rich, so it is imported late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rightful.cli.output import indented, item_text
from rightful.cli.output.indented import print_stdout, time_text
from rightful.cli.output.terminal import plural
from rightful.cli.show.history_answer import HistoryAnswer
from rightful.cli.show.show_transcript import PLACEHOLDER, continues, unreadable
from rightful.histories.annotations import RowAnnotations
from rightful.histories.history_model import HistoryEntry
from rightful.log.refine import is_placeholder
from rightful.projections.histories.chronicle import Compaction
from rightful.projections.histories.history_items import ItemKey
from rightful.projections.transcripts.assemble import NO_AGENTS

_LISTED = 40
_LINE_CHARS = 160
_ALL = "--all"
_NOTHING = "nothing was in it"
_FATES = {
    "shown": "shown",
    "left out": "left out: its call is gone",
    "inert": "never shown: the items that it replaces were gone",
}


def view(seen: HistoryAnswer, limit: int, *, whole: bool) -> None:
    """Print what the model would see next.

    Args:
        seen: The history.
        limit: Only its last items, so many; all if 0.
        whole: Shorten nothing.
    """
    would = "would have seen" if seen.is_past else "would see"
    _head(seen, f"what the model {would} next")
    print_stdout(_sum(seen))
    if seen.left_out:
        out = f"{plural(len(seen.left_out), 'output')} whose call is gone ({_listed(seen, seen.left_out)})"
        print_stdout(f"left out, since a provider refuses it: {out}")
    _owed(seen)
    shown = seen.last(limit)
    _cut(len(seen.shown) - len(shown), "earlier item")
    for id_ in shown:
        _item(seen, seen.entries[id_], _stands_for(seen, seen.entries[id_]), whole=whole)


def full(seen: HistoryAnswer, limit: int, *, whole: bool) -> None:
    """Print everything that was ever in it, and what became of each item; see `view`."""
    _head(seen, "everything that was ever in it")
    fates = Counter(entry.fate for entry in seen.whole.entries)
    counted = ", ".join(f"{count:,} {fate}" for fate, count in sorted(fates.items()))
    print_stdout(f"{plural(len(seen.whole.entries), 'item')}: {counted}" if counted else _NOTHING)
    print_stdout(*(f"#{position} has no effect: {why}" for position, why in seen.whole.ignored))
    _owed(seen)
    shown = seen.whole.entries[-limit:] if limit else seen.whole.entries
    _cut(len(seen.whole.entries) - len(shown), "earlier item")
    for entry in shown:
        fate = _FATES.get(entry.fate, entry.fate) + (
            f" by #{entry.by}" if entry.by is not None and entry.fate != "inert" else ""
        )
        _item(seen, entry, [*_stands_for(seen, entry), fate], whole=whole)


def diff(seen: HistoryAnswer, limit: int, *, whole: bool) -> None:
    """Print each compaction: the covered items (-), and their summary (+); see `view`."""
    _head(seen, "what each compaction covered (-), and its summary (+)")
    found = seen.whole.compactions
    print_stdout(
        f"{plural(len(found), 'compaction')}; what they covered stays in the ledger" if found else "no compaction"
    )
    _owed(seen)
    shown = found[-limit:]
    _cut(len(found) - len(shown), "earlier compaction")
    lines = [_Listing(seen, compaction, whole=whole) for compaction in shown]
    for listing in lines:
        listing.show()
    if any(listing.is_cut for listing in lines):
        print_stdout("", f"What is long is cut; {_ALL} shows all.")


class _Listing:
    """One compaction, listed.

    Attributes:
        is_cut: Something of it was left out.
    """

    def __init__(self, seen: HistoryAnswer, compaction: Compaction, *, whole: bool) -> None:
        self.is_cut = False
        self._seen, self._compaction, self._whole = seen, compaction, whole

    def show(self) -> None:
        """Print it."""
        seen, compaction = self._seen, self._compaction
        beside = seen.metadata(compaction.position)
        parts = [f"#{compaction.position}"]
        parts += [] if beside is None else [time_text(beside.at_us, is_bound=beside.is_bound)]
        parts += [f"compaction{_of(seen, compaction.position)}"]
        print_stdout("", "  ".join(parts) + "".join(self._facts()))
        print_stdout(f"  {self._sizes()}")
        if compaction.inert:
            print_stdout("  shows nothing: everything that it covers was already gone")
        self._list("-", compaction.covered)
        self._list("+", compaction.put)

    def _facts(self) -> Iterator[str]:
        compaction = self._compaction
        beside = self._seen.metadata(compaction.position)
        names = {"mode": compaction.mode, "response": compaction.response_id, "run": compaction.run}
        yield from (f", {name} {value}" for name, value in names.items() if value is not None)
        if compaction.after is not None:
            yield f", read at #{compaction.after}"
        if beside is not None and beside.usage:
            yield f", used {', '.join(f'{name} {item_text.value(value)}' for name, value in beside.usage.items())}"

    def _sizes(self) -> str:
        before, after = (self._said(ids) for ids in (self._compaction.covered, self._compaction.put))
        return f"{before} replaced by {after}" if self._compaction.covered else f"nothing replaced; {after} added"

    def _said(self, ids: list[ItemKey]) -> str:
        return f"{plural(len(ids), 'item')}, {plural(self._seen.size(ids), 'character')} of JSON" if ids else "nothing"

    def _list(self, sign: str, ids: list[ItemKey]) -> None:
        shown = ids if self._whole else ids[:_LISTED]
        for id_ in shown:
            self._line(sign, id_)
        if len(shown) < len(ids):
            self.is_cut = True
            print_stdout(f"  {sign} and {plural(len(ids) - len(shown), 'item')} more")

    def _line(self, sign: str, id_: ItemKey) -> None:
        entry = self._seen.entries.get(id_)
        if entry is None:
            print_stdout(f"  {sign} an item that no longer exists")
            return
        said = _read(self._seen, entry, whole=self._whole)
        marks = f"  [{', '.join(said.marks)}]" if said.marks else ""
        heading = f"  {sign} {_name(entry.id, entry.position)}  {said.who}{marks}"
        if self._whole:
            print_stdout(heading, *indented.text(said.text, None))
            return
        text = " ".join(said.text[: 4 * _LINE_CHARS].split())
        is_cut = len(text) > _LINE_CHARS or len(said.text) > 4 * _LINE_CHARS
        self.is_cut = self.is_cut or is_cut
        print_stdout(heading + (f": {text[:_LINE_CHARS]}{' …' if is_cut else ''}" if text else ""))


def _head(seen: HistoryAnswer, what: str) -> None:
    print_stdout(f"history of {seen.session} through position {seen.position:,}: {what}")
    if seen.requested is not None:
        print_stdout(f"Nothing is in the history of {seen.requested} itself; this is of {seen.session}, by its links.")
    if seen.joined:
        print_stdout(
            f"Nothing is in its own history. Its links join it to several that have one: {', '.join(seen.joined)}."
        )
    for fork in seen.rows.forks:
        print_stdout(f"forked at #{fork.position} from what {fork.of} showed at #{fork.through}")
    for session, how, of in seen.rows.continued:
        print_stdout(("" if session == seen.session else f"{session}: ") + continues(how, of))


def _sum(seen: HistoryAnswer) -> str:
    """Say how much is shown, and what else was in it."""
    shown = f"{plural(len(seen.shown), 'item')}, {plural(seen.size(seen.shown), 'character')} of JSON"
    others = Counter(entry.fate for entry in seen.whole.entries if entry.fate not in {"shown", "left out"})
    if not others:
        return shown if seen.whole.entries else _NOTHING
    counted = ", ".join(f"{count:,} {fate}" for fate, count in sorted(others.items()))
    return f"{shown}; of {plural(len(seen.whole.entries), 'item')} in all, {counted}: --full shows all"


def _owed(seen: HistoryAnswer) -> None:
    if (owed := seen.owed) is not None:
        at = f" at response {owed.response_id}" if owed.response_id is not None else ""
        run = f", by run {owed.run}" if owed.run is not None else ""
        why = f": {owed.reason}" if owed.reason is not None else ""
        print_stdout(f"a compaction is owed since #{owed.position}{at}{run}{why}")


def _cut(count: int, what: str) -> None:
    if count:
        print_stdout("", f"{plural(count, what)} not shown; --limit 0 shows all.")


def _item(seen: HistoryAnswer, entry: HistoryEntry, marks: list[str], *, whole: bool) -> None:
    """Print an item: its heading, and what it says."""
    said = _read(seen, entry, whole=whole)
    beside = seen.metadata(entry.position)
    parts = [_name(entry.id, entry.position)]
    parts += [] if beside is None else [time_text(beside.at_us, is_bound=beside.is_bound)]
    agent = None if beside is None or said.who in NO_AGENTS or said.is_result else beside.agent
    who = said.who + (f", agent {agent}" if agent is not None else "") + _of(seen, entry.position)
    every = [*said.marks, *marks]
    print_stdout("", "  ".join([*parts, who]) + (f"  [{', '.join(every)}]" if every else ""))
    print_stdout(*indented.text(said.shown, None if whole else _ALL))


def _read(seen: HistoryAnswer, entry: HistoryEntry, *, whole: bool) -> item_text.Said:
    beside = seen.metadata(entry.position)
    if beside is not None and beside.erased:
        return item_text.Said("item", "", ("erased",))
    said = item_text.said(entry.item, full=whole)
    return said if beside is None else said._replace(marks=(*said.marks, *_annotation_marks(entry, beside)))


def _annotation_marks(entry: HistoryEntry, beside: RowAnnotations) -> Iterator[str]:
    """Yield the marks of what a transcript tells for which an item has no place."""
    if beside.is_error:
        yield "failed"
        if is_placeholder(entry.item.get("output"), is_error=True):
            yield PLACEHOLDER
    yield from unreadable(beside.extra)


def _stands_for(seen: HistoryAnswer, entry: HistoryEntry) -> list[str]:
    """Say of what a compaction put there for how many items it stands."""
    if not entry.summary:
        return []
    found = seen.stands_for.get(entry.id)
    return ["added by a compaction" if found is None else f"replaces {plural(len(found.covered), 'item')}"]


def _of(seen: HistoryAnswer, position: int) -> str:
    """Return the session of an item that was copied from the forked history."""
    beside = seen.metadata(position)
    return f" of {beside.session}" if beside is not None and beside.session != seen.session else ""


def _name(id_: ItemKey, position: int) -> str:
    """Return how an item is called: its event's position and its place in that event."""
    return f"#{position}.{id_[1]}"


def _listed(seen: HistoryAnswer, ids: list[ItemKey]) -> str:
    names = [_name(id_, seen.entries[id_].position) for id_ in ids]
    return ", ".join(names[:_LISTED]) + (f", and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "")
