"""Text output of `history`: the view, all items, and the compactions. Imports rich, so it is imported late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

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
    counted = _fates(entry.fate for entry in answer.whole.entries)
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
    is_cut = [_compaction(answer, compaction, whole=whole) for compaction in shown]
    if any(is_cut):
        print_stdout("", f"What is long is cut; {_ALL} shows all.")


def _compaction(answer: HistoryAnswer, compaction: Compaction, *, whole: bool) -> bool:
    """Print a compaction; return whether some of it was omitted."""
    row = answer.row(compaction.position)
    parts = [f"#{compaction.position}"]
    parts += [] if row is None else [time_text(row.at_us, is_bound=row.is_bound)]
    parts += [f"compaction{_origin(answer, compaction.position)}"]
    print_stdout("", "  ".join(parts) + "".join(_compaction_facts(compaction, row)))
    before, after = (_amount(answer, ids) if ids else "nothing" for ids in (compaction.covered, compaction.put))
    print_stdout(f"  {before} replaced by {after}" if compaction.covered else f"  nothing replaced; {after} added")
    if compaction.inert:
        print_stdout("  shows nothing: everything that it covers was already gone")
    is_covered_cut = _list(answer, "-", compaction.covered, whole=whole)
    return _list(answer, "+", compaction.put, whole=whole) or is_covered_cut


def _compaction_facts(compaction: Compaction, row: RowAnnotations | None) -> Iterator[str]:
    names = {"mode": compaction.mode, "response": compaction.response_id, "run": compaction.run}
    yield from (f", {name} {value}" for name, value in names.items() if value is not None)
    if compaction.after is not None:
        yield f", read at #{compaction.after}"
    if row is not None and row.usage:
        yield f", used {', '.join(f'{name} {item_text.value(value)}' for name, value in row.usage.items())}"


def _amount(answer: HistoryAnswer, ids: list[ItemKey]) -> str:
    return f"{plural(len(ids), 'item')}, {plural(answer.size(ids), 'character')} of JSON"


def _list(answer: HistoryAnswer, sign: str, ids: list[ItemKey], *, whole: bool) -> bool:
    shown = ids if whole else ids[:_LISTED]
    is_cut = [_line(answer, sign, answer.entries.get(id_), whole=whole) for id_ in shown]
    if len(shown) < len(ids):
        print_stdout(f"  {sign} and {plural(len(ids) - len(shown), 'item')} more")
    return any(is_cut) or len(shown) < len(ids)


def _line(answer: HistoryAnswer, sign: str, entry: HistoryEntry | None, *, whole: bool) -> bool:
    if entry is None:
        print_stdout(f"  {sign} an item that no longer exists")
        return False
    display = _display(answer, entry, whole=whole)
    marks = f"  [{', '.join(display.marks)}]" if display.marks else ""
    heading = f"  {sign} {_name(entry.id, entry.position)}  {display.who}{marks}"
    if whole:
        print_stdout(heading, *indented.text(display.text, None))
        return False
    text = " ".join(display.text[: 4 * _LINE_CHARS].split())
    is_cut = len(text) > _LINE_CHARS or len(display.text) > 4 * _LINE_CHARS
    print_stdout(heading + (f": {text[:_LINE_CHARS]}{' …' if is_cut else ''}" if text else ""))
    return is_cut


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
    shown = _amount(answer, answer.shown)
    others = _fates(entry.fate for entry in answer.whole.entries if entry.fate not in {"shown", "left out"})
    if not others:
        return shown if answer.whole.entries else _NOTHING
    return f"{shown}; of {plural(len(answer.whole.entries), 'item')} in all, {others}: --full shows all"


def _fates(fates: Iterable[str]) -> str:
    return ", ".join(f"{count:,} {fate}" for fate, count in sorted(Counter(fates).items()))


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
    """Yield the marks of an item that only the metadata of its row contain."""
    if row.is_error:
        yield "failed"
        if is_placeholder(entry.item.get("output"), is_error=True):
            yield PLACEHOLDER
    yield from unreadable(row.extra)


def _summary_marks(answer: HistoryAnswer, entry: HistoryEntry) -> list[str]:
    if not entry.summary:
        return []
    found = answer.compactions.get(entry.id)
    return ["added by a compaction" if found is None else f"replaces {plural(len(found.covered), 'item')}"]


def _origin(answer: HistoryAnswer, position: int) -> str:
    """Return the session of an item that was copied from the forked history."""
    row = answer.row(position)
    return f" of {row.session}" if row is not None and row.session != answer.session else ""


def _name(id_: ItemKey, position: int) -> str:
    """Return the name of an item: its event's position and its place in that event."""
    return f"#{position}.{id_[1]}"


def _listed(answer: HistoryAnswer, ids: list[ItemKey]) -> str:
    names = [_name(id_, answer.entries[id_].position) for id_ in ids]
    return ", ".join(names[:_LISTED]) + (f", and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "")
