"""Text output of `transcript`. Imports rich, so it is imported only when it is used.

Marks are words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from rightful.cli.output import indented, item_text, tables
from rightful.cli.output.indented import print_stdout, time_text
from rightful.cli.output.item_text import arguments, others
from rightful.cli.output.terminal import plural
from rightful.histories.annotations import CONTINUES
from rightful.projections.facts.completeness import Hole, words
from rightful.projections.transcripts.entries import Entry, Row, Transcript
from rightful.projections.transcripts.entry_parts import text_of

PLACEHOLDER = "stands in for a result that never came"
"""The mark of such a result."""

_CALL_CHARS = 12  # of a call id, at least

_UNREADABLE = {
    "encrypted_content": "encrypted",
    "args_hash": "of its arguments only a hash is known",
    "result_hash": "only its hash is known",
}
"""Labels for producer-supplied `extra` fields."""

_HOLES = 20
_RANGES = 20
_CUMULATIVE = "used since it began, by the tool's own count, which may include more than this transcript"
_ASIDE = frozenset({"data", "usage"})

_Turn = tuple[str | UnsetType, str]
"""The session and the name of a turn."""


class View(NamedTuple):
    """What to show of a transcript.

    Attributes:
        before: The number of earlier entries that are not shown.
        all: Show hidden entries and rows in quarantine too.
        full: Shorten nothing.
        named: Show the session of each entry, because several names have entries.
        calls: Short forms of the ids of calls.
        bound: What to print about the bound transcripts of a session of which nothing was imported.
    """

    before: int
    all: bool
    full: bool
    named: bool = False
    calls: Mapping[str, str] = MappingProxyType({})
    bound: tuple[str, ...] = ()

    @property
    def option(self) -> str | None:
        """The option that shows all of a long text; None if all text is shown."""
        return None if self.full else "--full"


def show(transcript: Transcript, view: View) -> None:
    """Print a transcript."""
    calls = {} if view.full else short_calls(transcript.entries)
    view = view._replace(named=len(transcript.names) > 1, calls=calls)
    _head(transcript, view)
    if view.before:
        print_stdout("", f"{plural(view.before, 'earlier entry', 'earlier entries')} not shown; --limit 0 shows all.")
    hidden: Counter[str] = Counter()
    turn: _Turn | None = None
    for entry in transcript.entries:
        _print_holes(entry.holes_before)
        if not view.all and (why := _hidden(entry)):
            hidden[why] += 1
        else:
            turn = _print_turn(entry, turn)
            print_stdout("", *_lines(entry, view))
        _print_holes(entry.holes_behind)
    _tail(transcript, hidden, view.bound)


def is_visible(entry: Entry) -> bool:
    """Return whether an entry is shown without `--all`."""
    return _hidden(entry) is None


def _hidden(entry: Entry) -> str | None:
    """Return the reason why an entry is hidden; None if it is shown."""
    if entry.kind in _ASIDE:
        return entry.kind
    if entry.kind == "message" and entry.content is UNSET and isinstance(entry.text, str) and not entry.text.strip():
        return "blank"
    return next((mark for mark in ("withdrawn", "hidden", "meta") if getattr(entry, mark) is True), None)


def _print_turn(entry: Entry, before: _Turn | None) -> _Turn | None:
    """Print the turn of an entry if it differs from the one before; return it."""
    turn = None if entry.turn is UNSET else (entry.session, entry.turn)
    if turn != before:
        print_stdout("", "outside of a turn" if turn is None else f"turn {turn[1]}")
    return turn


def _print_holes(holes: list[Hole] | UnsetType) -> None:
    for hole in holes or ():
        print_stdout("", f"hole here: {words(hole)}")


def _head(transcript: Transcript, view: View) -> None:
    print_stdout(f"transcript of {transcript.session}")
    if transcript.names not in ([], [transcript.session]):
        shown = ", ".join(transcript.names)
        print_stdout(f"Nothing is recorded under this name itself; shown is {shown}, by its links.")
    if transcript.ambiguous:
        print_stdout(f"Nothing is recorded under this name itself, and no other name is shown: {transcript.ambiguous}.")
    print_stdout(transcript.completeness + (f": {transcript.why}" if transcript.why else ""))
    holes = transcript.holes if view.full else transcript.holes[:_HOLES]
    print_stdout(*(f"hole: {words(hole)}" for hole in holes))
    if len(holes) < len(transcript.holes):
        print_stdout(f"and {plural(len(transcript.holes) - len(holes), 'hole')} more; --full shows all.")
    for producer, count in transcript.left_out.items():
        print_stdout(
            f"omitted: {plural(count, 'item')} of the history that {producer} wrote, because another producer records "
            f"this session and nothing shows which items are the same."
        )
    if (started := transcript.started) is not None:
        facts = {name: getattr(started, name) for name in ("harness", "model", "cwd", "work_item")}
        details = [f"{name} {value}" for name, value in facts.items() if value is not UNSET]
        print_stdout(", ".join([f"started {time_text(started.at_us, is_bound=started.at_basis == 'file')}", *details]))
        extra = {} if started.extra is UNSET else started.extra
        for name in CONTINUES:
            if isinstance(extra.get(name), str):
                print_stdout(continues(name, extra[name]))


def _tail(transcript: Transcript, hidden: Counter[str], bound: tuple[str, ...]) -> None:
    if bound or not transcript.entries:
        print_stdout("", *(bound or ("No entry is recorded for this session.",)))
    lines = []
    if hidden:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(hidden.items()))
        lines.append(f"{plural(hidden.total(), 'entry', 'entries')} not shown ({kinds}); --all shows them.")
    usage = transcript.usage
    for label, counts in (("used", usage.total), (_CUMULATIVE, usage.cumulative)):
        if counts:
            lines.append(f"{label}: {', '.join(f'{name} {item_text.value(value)}' for name, value in counts.items())}")
    if transcript.ended is not None:
        code = transcript.ended.exit_code
        at = time_text(transcript.ended.at_us, is_bound=transcript.ended.at_basis == "file")
        lines.append(f"ended {at}" + ("" if code is UNSET else f" with exit code {code}"))
    if transcript.subagents:
        lines.append(f"subagents, each with a transcript of its own: {', '.join(transcript.subagents)}")
    if lines:
        print_stdout("", *lines)


def _lines(entry: Entry, view: View) -> Iterator[str]:
    yield _heading(entry, view)
    if entry.covered is not UNSET:
        yield _covered(entry, view)
    yield from indented.text(_text(entry, view), view.option)
    if entry.kind == "tool_call":
        yield from _result(entry, view)
    if entry.conflicts is not UNSET:
        places = ", ".join(f"#{row.position}" for row in entry.conflicts)
        is_are = "row is" if len(entry.conflicts) == 1 else "rows are"
        hint = "" if view.all else "; --all shows what it says" if len(entry.conflicts) == 1 else "; --all shows them"
        yield f"  in quarantine: {len(entry.conflicts)} {is_are} in conflict with this ({places}){hint}"
        if view.all:
            yield from _rows(entry.conflicts, view)
    if entry.rows is not UNSET and (entry.revisions > 1 or (entry.result_revisions or 1) > 1):
        yield f"  from {plural(len(entry.rows), 'row')}:"
        yield from _rows(entry.rows, view)


def _covered(entry: Entry, view: View) -> str:
    """Return which entries were undone or compacted."""
    places = entry.covered_places or [[None, None] for _ in entry.covered or ()]
    named = [map(_name, *both) for both in zip(entry.covered or (), places, strict=True)]
    ranges = [first if first == last else f"{first} to {last}" for first, last in named]
    parts = ranges if view.full else ranges[:_RANGES]
    if len(parts) < len(ranges):
        parts.append(f"and {plural(len(ranges) - len(parts), 'range')} more; --full shows all")
    if entry.elsewhere is not UNSET:
        theirs = plural(entry.elsewhere, "item")
        parts.append(f"{'and ' if parts else ''}{theirs} of the history that it was forked from")
    if entry.unresolved is not UNSET:
        lost = plural(entry.unresolved, "item or range", "items or ranges")
        parts.append(f"{'and ' if parts else ''}{lost} not in the history that is recorded here")
    what = "undoes" if entry.kind == "history_popped" else "covers"
    return f"  {what}: {', '.join(parts) or 'nothing'}"


def _name(position: int | str, place: int | None) -> str:
    """Return the name of an entry: its position, and for an item of a history its place in that event."""
    return f"#{position}" if place is None else f"#{position}.{place}"


def _place(item: list[Any] | UnsetType) -> int | None:
    return None if item is UNSET else item[1]


_MARKS = {"late": "late: its turn was closed before", "taken_back": "undone"}
"""The marks of a heading that differ from the name of the field."""


def _heading(entry: Entry, view: View) -> str:
    parts = [_name(entry.position, _place(entry.item)), time_text(entry.at_us, is_bound=entry.at_basis == "file")]
    parts += [str(entry.session)] if view.named and entry.session is not UNSET else []
    marks = [
        _MARKS.get(name, name)
        for name in ("late", "hidden", "meta", "summary", "withdrawn", "taken_back", "erased")
        if getattr(entry, name) is True
    ]
    if entry.revisions > 1:
        marks.append(f"{entry.revisions} revisions")
    marks += unreadable(entry.extra)
    parts.append(_who(entry, view) + (f"  [{', '.join(marks)}]" if marks else ""))
    return "  ".join(parts)


def _who(entry: Entry, view: View) -> str:
    """Return the speaker of an entry, or its kind, in words."""
    match entry.kind:
        case "message":
            return (str(entry.role) if entry.role is not UNSET else "message") + _agent(entry)
        case "tool_call":
            ids = entry.calls if entry.calls is not UNSET else [_plain(entry.call)]
            called = " and ".join(view.calls.get(call, call) for call in ids)
            of = f" (call {called})" if entry.call is not UNSET else ""
            if entry.unpaired is True:
                return f"result without a call{of}"
            return f"tool {entry.name if entry.name is not UNSET else 'of unknown name'}{of}{_agent(entry)}"
        case "thought":
            return f"thought{_agent(entry)}"
        case "interaction_requested" | "interaction_answered":
            word = "asked" if entry.kind.endswith("requested") else "answered"
            return f"{word} {_plain(entry.interaction)}" + (f" ({entry.asked})" if entry.asked is not UNSET else "")
        case _:
            return _event(entry)


def _agent(entry: Entry) -> str:
    return f", agent {entry.agent}" if entry.agent is not UNSET else ""


def _event(entry: Entry) -> str:
    if entry.kind == "history_forked":
        shown = f"what {_plain(entry.of)} showed at #{_plain(entry.through)}"
        return f"history forked from {shown}: which is recorded there"
    if entry.kind == "compaction_deferred":
        at = f" at response {entry.response_id}" if entry.response_id is not UNSET else ""
        return f"compaction owed{at}" + (f": {entry.reason}" if entry.reason is not UNSET else "")
    what, meaning = _EVENTS.get(entry.kind, (entry.kind, ""))
    more = next(
        (detail for detail in (entry.stop_reason, entry.mode, entry.name, entry.of) if detail is not UNSET), None
    )
    return (what if more is None else f"{what} ({more})") + meaning


_EVENTS = {
    "turn_ended": ("turn ended", ""),
    "history_compacted": ("history compacted", ": the entries above are kept here, though the model saw less"),
    "history_popped": ("history undone", ": the undone entries are kept here"),
    "history_cleared": ("history cleared", ": the entries above are kept here"),
    "history_appended": ("items of a history", ""),
}
"""The name of each kind of entry, and what it means for the entries above it."""


def _plain(value: Any) -> str:  # noqa: ANN401 - a field that may not apply
    return "" if value is UNSET else str(value)


def _text(entry: Entry, view: View) -> str:
    match entry.kind:
        case "tool_call":
            return arguments(entry.arguments)
        case "interaction_requested" | "interaction_answered":
            return arguments(entry.payload)
        case "usage":
            return arguments(entry.counts)
        case "data":
            return arguments(entry.data)
        case "history_compacted":
            return _summary_text(entry, view)
        case _:
            return "\n".join([*([entry.text] if entry.text else []), *others(entry.content)])


def _summary_text(entry: Entry, view: View) -> str:
    """Return the summary of a compaction: the tool's own text, and each item with its speaker."""
    items = [item_text.display_of(item, full=view.full) for item in entry.items or ()]
    lines = [entry.text] if entry.text and not any(entry.text in item.text for item in items) else []
    for item in items:
        marks = "".join(f" [{mark}]" for mark in item.marks)
        lines.append(f"{item.who}{marks}" + (f":{item_text.after_name(item.text)}" if item.text else ""))
    return "\n".join(lines)


def _result(entry: Entry, view: View) -> Iterator[str]:
    if entry.output is UNSET and entry.result_erased is UNSET:
        yield "  no result"
        return
    marks = ["failed"] if entry.is_error is True else []
    marks += [PLACEHOLDER] if entry.placeholder is True else []
    marks += [_MARKS["late"]] if entry.result_late is True else []
    marks += ["erased"] if entry.result_erased is True else []
    marks += [f"{entry.result_revisions} revisions"] if (entry.result_revisions or 1) > 1 else []
    marks += unreadable(entry.result_extra)
    result = _name(_plain(entry.result_position), _place(entry.result_item))
    yield f"  result {result}" + (f"  [{', '.join(marks)}]" if marks else "")
    if entry.output is not UNSET:
        text = text_of(entry.output)
        yield from indented.text(text if text is not None else arguments(entry.output), view.option)


def _rows(rows: Iterable[Row], view: View) -> Iterator[str]:
    for row in rows:
        yield f"  #{row.position}  {time_text(row.at_us)}  {row.producer}: {row.outcome}"
        members = {name: value for name, value in (row.said or {}).items() if value is not None}
        yield from indented.text("erased" if row.said is None else arguments(members), view.option)


def short_calls(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the suffixes by which long call ids are shown: at least 12 characters, and all different."""
    ids = {
        call
        for entry in entries
        for call in (entry.call, *(entry.calls or ()))
        if isinstance(call, str) and len(call) > _CALL_CHARS
    }
    longest, kept = max(map(len, ids), default=0), _CALL_CHARS
    while kept < longest and len({call[-kept:] for call in ids}) < len(ids):
        kept *= 2
    mark = "…" if tables.draws() else "..."
    return {call: f"{mark}{call[-kept:]}" for call in ids if len(call) > kept + len(mark)}


def unreadable(extra: Any) -> list[str]:  # noqa: ANN401 - content is any JSON value
    """Return the labels of the fields that are encrypted or known only by their hash."""
    return [words for name, words in _UNREADABLE.items() if isinstance(extra, dict) and extra.get(name) is not None]


def continues(how: str, of: str) -> str:
    """Return the line for a session that this one continues."""
    return f"{how.replace('_', ' ')} {of}: what was said before is recorded there"
