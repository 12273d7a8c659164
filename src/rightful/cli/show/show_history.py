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


def view(answer: HistoryAnswer, limit: int, *, whole: bool) -> None:
    """Print what the model would see next: the last items (all if `limit` is 0), shortened unless `whole`."""
    would = "would have seen" if answer.is_past else "would see"
    _head(answer, f"what the model {would} next")
    print_stdout(_summary(answer))
    if answer.left_out:
        out = f"{plural(len(answer.left_out), 'output')} whose call is gone ({_listed(answer, answer.left_out)})"
        print_stdout(f"left out, since a provider refuses it: {out}")
    _owed(answer)
    shown = answer.last(limit)
    _note_hidden(len(answer.shown) - len(shown), "earlier item")
    for id_ in shown:
        _item(answer, answer.entries[id_], _summary_marks(answer, answer.entries[id_]), whole=whole)


def full(answer: HistoryAnswer, limit: int, *, whole: bool) -> None:
    """Print everything that was ever in it, and what became of each item; see `view`."""
    _head(answer, "everything that was ever in it")
    fates = Counter(entry.fate for entry in answer.whole.entries)
    counted = ", ".join(f"{count:,} {fate}" for fate, count in sorted(fates.items()))
    print_stdout(f"{plural(len(answer.whole.entries), 'item')}: {counted}" if counted else _NOTHING)
    print_stdout(*(f"#{position} has no effect: {why}" for position, why in answer.whole.ignored))
    _owed(answer)
    shown = answer.whole.entries[-limit:] if limit else answer.whole.entries
    _note_hidden(len(answer.whole.entries) - len(shown), "earlier item")
    for entry in shown:
        fate = _FATES.get(entry.fate, entry.fate) + (
            f" by #{entry.by}" if entry.by is not None and entry.fate != "inert" else ""
        )
        _item(answer, entry, [*_summary_marks(answer, entry), fate], whole=whole)


def diff(answer: HistoryAnswer, limit: int, *, whole: bool) -> None:
    """Print each compaction: the covered items (-), and their summary (+); see `view`."""
    _head(answer, "what each compaction covered (-), and its summary (+)")
    found = answer.whole.compactions
    print_stdout(
        f"{plural(len(found), 'compaction')}; what they covered stays in the ledger" if found else "no compaction"
    )
    _owed(answer)
    shown = found[-limit:]
    _note_hidden(len(found) - len(shown), "earlier compaction")
    lines = [_Listing(answer, compaction, whole=whole) for compaction in shown]
    for listing in lines:
        listing.show()
    if any(listing.is_shortened for listing in lines):
        print_stdout("", f"What is long is cut; {_ALL} shows all.")


class _Listing:
    """One compaction, listed.

    Attributes:
        is_cut: Something of it was left out.
    """

    def __init__(self, answer: HistoryAnswer, compaction: Compaction, *, whole: bool) -> None:
        self.is_shortened = False
        self._answer, self._compaction, self._whole = answer, compaction, whole

    def show(self) -> None:
        """Print it."""
        answer, compaction = self._answer, self._compaction
        row = answer.row(compaction.position)
        parts = [f"#{compaction.position}"]
        parts += [] if row is None else [time_text(row.at_us, is_bound=row.is_bound)]
        parts += [f"compaction{_origin(answer, compaction.position)}"]
        print_stdout("", "  ".join(parts) + "".join(self._facts()))
        print_stdout(f"  {self._sizes()}")
        if compaction.inert:
            print_stdout("  shows nothing: everything that it covers was already gone")
        self._list("-", compaction.covered)
        self._list("+", compaction.put)

    def _facts(self) -> Iterator[str]:
        compaction = self._compaction
        row = self._answer.row(compaction.position)
        names = {"mode": compaction.mode, "response": compaction.response_id, "run": compaction.run}
        yield from (f", {name} {value}" for name, value in names.items() if value is not None)
        if compaction.after is not None:
            yield f", read at #{compaction.after}"
        if row is not None and row.usage:
            yield f", used {', '.join(f'{name} {item_text.value(value)}' for name, value in row.usage.items())}"

    def _sizes(self) -> str:
        before, after = (self._amount(ids) for ids in (self._compaction.covered, self._compaction.put))
        return f"{before} replaced by {after}" if self._compaction.covered else f"nothing replaced; {after} added"

    def _amount(self, ids: list[ItemKey]) -> str:
        return (
            f"{plural(len(ids), 'item')}, {plural(self._answer.size(ids), 'character')} of JSON" if ids else "nothing"
        )

    def _list(self, sign: str, ids: list[ItemKey]) -> None:
        shown = ids if self._whole else ids[:_LISTED]
        for id_ in shown:
            self._line(sign, id_)
        if len(shown) < len(ids):
            self.is_shortened = True
            print_stdout(f"  {sign} and {plural(len(ids) - len(shown), 'item')} more")

    def _line(self, sign: str, id_: ItemKey) -> None:
        entry = self._answer.entries.get(id_)
        if entry is None:
            print_stdout(f"  {sign} an item that no longer exists")
            return
        display = _display(self._answer, entry, whole=self._whole)
        marks = f"  [{', '.join(display.marks)}]" if display.marks else ""
        heading = f"  {sign} {_name(entry.id, entry.position)}  {display.who}{marks}"
        if self._whole:
            print_stdout(heading, *indented.text(display.text, None))
            return
        text = " ".join(display.text[: 4 * _LINE_CHARS].split())
        is_shortened = len(text) > _LINE_CHARS or len(display.text) > 4 * _LINE_CHARS
        self.is_shortened = self.is_shortened or is_shortened
        print_stdout(heading + (f": {text[:_LINE_CHARS]}{' …' if is_shortened else ''}" if text else ""))


def _head(answer: HistoryAnswer, what: str) -> None:
    print_stdout(f"history of {answer.session} through position {answer.position:,}: {what}")
    if answer.requested is not None:
        print_stdout(
            f"Nothing is in the history of {answer.requested} itself; this is of {answer.session}, by its links."
        )
    if answer.joined:
        print_stdout(
            f"Nothing is in its own history. Its links join it to several that have one: {', '.join(answer.joined)}."
        )
    for fork in answer.rows.forks:
        print_stdout(f"forked at #{fork.position} from what {fork.of} showed at #{fork.through}")
    for session, how, of in answer.rows.continued:
        print_stdout(("" if session == answer.session else f"{session}: ") + continues(how, of))


def _summary(answer: HistoryAnswer) -> str:
    """Say how much is shown, and what else was in it."""
    shown = f"{plural(len(answer.shown), 'item')}, {plural(answer.size(answer.shown), 'character')} of JSON"
    others = Counter(entry.fate for entry in answer.whole.entries if entry.fate not in {"shown", "left out"})
    if not others:
        return shown if answer.whole.entries else _NOTHING
    counted = ", ".join(f"{count:,} {fate}" for fate, count in sorted(others.items()))
    return f"{shown}; of {plural(len(answer.whole.entries), 'item')} in all, {counted}: --full shows all"


def _owed(answer: HistoryAnswer) -> None:
    if (owed := answer.owed) is not None:
        at = f" at response {owed.response_id}" if owed.response_id is not None else ""
        run = f", by run {owed.run}" if owed.run is not None else ""
        why = f": {owed.reason}" if owed.reason is not None else ""
        print_stdout(f"a compaction is owed since #{owed.position}{at}{run}{why}")


def _note_hidden(count: int, what: str) -> None:
    if count:
        print_stdout("", f"{plural(count, what)} not shown; --limit 0 shows all.")


def _item(answer: HistoryAnswer, entry: HistoryEntry, marks: list[str], *, whole: bool) -> None:
    """Print an item: its heading, and what it says."""
    display = _display(answer, entry, whole=whole)
    row = answer.row(entry.position)
    parts = [_name(entry.id, entry.position)]
    parts += [] if row is None else [time_text(row.at_us, is_bound=row.is_bound)]
    agent = None if row is None or display.who in NO_AGENTS or display.is_result else row.agent
    who = display.who + (f", agent {agent}" if agent is not None else "") + _origin(answer, entry.position)
    every = [*display.marks, *marks]
    print_stdout("", "  ".join([*parts, who]) + (f"  [{', '.join(every)}]" if every else ""))
    print_stdout(*indented.text(display.shown, None if whole else _ALL))


def _display(answer: HistoryAnswer, entry: HistoryEntry, *, whole: bool) -> item_text.Display:
    row = answer.row(entry.position)
    if row is not None and row.erased:
        return item_text.Display("item", "", ("erased",))
    display = item_text.display_of(entry.item, full=whole)
    return display if row is None else display._replace(marks=(*display.marks, *_annotation_marks(entry, row)))


def _annotation_marks(entry: HistoryEntry, row: RowAnnotations) -> Iterator[str]:
    """Yield the marks of what a transcript tells for which an item has no place."""
    if row.is_error:
        yield "failed"
        if is_placeholder(entry.item.get("output"), is_error=True):
            yield PLACEHOLDER
    yield from unreadable(row.extra)


def _summary_marks(answer: HistoryAnswer, entry: HistoryEntry) -> list[str]:
    """Say of what a compaction put there for how many items it stands."""
    if not entry.summary:
        return []
    found = answer.compactions.get(entry.id)
    return ["added by a compaction" if found is None else f"replaces {plural(len(found.covered), 'item')}"]


def _origin(answer: HistoryAnswer, position: int) -> str:
    """Return the session of an item that was copied from the forked history."""
    row = answer.row(position)
    return f" of {row.session}" if row is not None and row.session != answer.session else ""


def _name(id_: ItemKey, position: int) -> str:
    """Return how an item is called: its event's position and its place in that event."""
    return f"#{position}.{id_[1]}"


def _listed(answer: HistoryAnswer, ids: list[ItemKey]) -> str:
    names = [_name(id_, answer.entries[id_].position) for id_ in ids]
    return ", ".join(names[:_LISTED]) + (f", and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "")
