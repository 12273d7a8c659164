"""A transcript laid out for people. Loads rich, so it is imported when it is drawn.

Every heading begins at the margin and every text is indented, also where it is folded, so that no text can
pass for a heading. Marks are words.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType
from rich.cells import cell_len, chop_cells

from rightful import content, times
from rightful.cli import common
from rightful.cli.common import many, safe
from rightful.projections.completeness import Hole, words
from rightful.projections.transcripts.entries import Entry, Row, Transcript
from rightful.projections.transcripts.parts import text_of

_INDENT = "    "
_LINES = 20
_HOLES = 20
_RANGES = 20
_CHARS = 2_000
_TAB = 4
_NARROWEST = 4
_ASIDE = frozenset({"data", "usage"})
_CONTINUES = (("resumes", "resumes"), ("forked_from", "forked from"))


class Shown(NamedTuple):
    """What of a transcript is shown.

    Attributes:
        before: How many entries stand before those that are there.
        all: Show what is hidden, and what stands in quarantine.
        full: Shorten nothing.
        named: Say of each entry whose it is, since several names tell them.
    """

    before: int
    all: bool
    full: bool
    named: bool = False


def show(transcript: Transcript, shown: Shown) -> None:
    """Print a transcript."""
    shown = shown._replace(named=len(transcript.names) > 1)
    _head(transcript, shown)
    if shown.before:
        _put("", f"{many(shown.before, 'earlier entry', 'earlier entries')} not shown; --limit 0 shows all.")
    hidden: Counter[str] = Counter()
    for entry in transcript.entries:
        _put_holes(entry.holes_before)
        if not shown.all and (why := _hidden(entry)):
            hidden[why] += 1
        else:
            _put("", *_lines(entry, shown))
        _put_holes(entry.holes_behind)
    _tail(transcript, hidden)


def _hidden(entry: Entry) -> str | None:
    """Return as what an entry is hidden; None where it is shown."""
    if entry.kind in _ASIDE:
        return entry.kind
    return next((mark for mark in ("withdrawn", "hidden", "meta") if getattr(entry, mark) is True), None)


def _put_holes(holes: list[Hole] | UnsetType) -> None:
    """Print what is missing at this place."""
    for hole in holes or ():
        _put("", f"hole here: {words(hole)}")


def _put(*lines: str) -> None:
    """Print lines of ours: made safe, and folded so that what does not fit is indented like what a session said."""
    room = _room()
    common.put("".join(f"{part}\n" for line in lines for part in _hung(safe(line), room)))


def _room() -> int | None:
    """Return how wide a text may be; None where nothing limits it."""
    width = common.columns(sys.stdout)
    return None if width is None else max(width - len(_INDENT), _NARROWEST)


def _hung(line: str, room: int | None) -> list[str]:
    if room is None or cell_len(line) <= room + len(_INDENT):
        return [line]
    first, *rest = _folded(line, room)
    return [first, *(f"{_INDENT}{part}" for part in rest)]


def _head(transcript: Transcript, shown: Shown) -> None:
    _put(f"transcript of {transcript.session}")
    if transcript.names not in ([], [transcript.session]):
        _put(f"Nothing was said under this name itself; what was is of {', '.join(transcript.names)}, by its links.")
    if transcript.ambiguous:
        _put(f"Nothing was said under this name itself, and no other name's is shown: {transcript.ambiguous}.")
    _put(transcript.completeness + (f": {transcript.why}" if transcript.why else ""))
    holes = transcript.holes if shown.full else transcript.holes[:_HOLES]
    _put(*(f"hole: {words(hole)}" for hole in holes))
    if len(holes) < len(transcript.holes):
        _put(f"and {many(len(transcript.holes) - len(holes), 'hole')} more; --full shows all.")
    for producer, count in transcript.left_out.items():
        _put(
            f"left out: {many(count, 'item')} of the history that {producer} wrote, since another producer tells "
            f"this session and nothing shows which of them are the same."
        )
    if (started := transcript.started) is not None:
        facts = {name: getattr(started, name) for name in ("harness", "model", "cwd", "work_item")}
        told = [f"{name} {value}" for name, value in facts.items() if value is not UNSET]
        _put(", ".join([f"started {_time(started.at_us, is_bound=started.at_basis == 'file')}", *told]))
        extra = {} if started.extra is UNSET else started.extra
        for name, how in _CONTINUES:
            if isinstance(extra.get(name), str):
                _put(f"{how} {extra[name]}: what was said before stands there")


def _tail(transcript: Transcript, hidden: Counter[str]) -> None:
    if not transcript.entries:
        _put("", "Nothing that was said or done is recorded of it.")
    lines = []
    if hidden:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(hidden.items()))
        lines.append(f"{many(hidden.total(), 'entry', 'entries')} not shown ({kinds}); --all shows them.")
    usage = transcript.usage
    for label, counts in (("used", usage.total), ("used since it began", usage.cumulative)):
        if counts:
            lines.append(f"{label}: {', '.join(f'{name} {_value(value)}' for name, value in counts.items())}")
    if transcript.ended is not None:
        code = transcript.ended.exit_code
        at = _time(transcript.ended.at_us, is_bound=transcript.ended.at_basis == "file")
        lines.append(f"ended {at}" + ("" if code is UNSET else f" with exit code {code}"))
    if transcript.subagents:
        lines.append(f"subagents, each with a transcript of its own: {', '.join(transcript.subagents)}")
    if lines:
        _put("", *lines)


def _lines(entry: Entry, shown: Shown) -> Iterator[str]:
    """Yield the lines of an entry: its heading, its text, its marks."""
    yield _heading(entry, shown)
    if entry.covered is not UNSET:
        yield _covered(entry, shown)
    yield from _text(_said(entry), shown)
    if entry.kind == "tool_call":
        yield from _result(entry, shown)
    if entry.conflicts is not UNSET:
        places = ", ".join(f"#{row.position}" for row in entry.conflicts)
        is_are = "row contradicts" if len(entry.conflicts) == 1 else "rows contradict"
        hint = "" if shown.all else "; --all shows what it says" if len(entry.conflicts) == 1 else "; --all shows them"
        yield f"  in quarantine: {len(entry.conflicts)} {is_are} this ({places}){hint}"
        if shown.all:
            yield from _rows(entry.conflicts, shown)
    if entry.rows is not UNSET and (entry.revisions > 1 or (entry.result_revisions or 1) > 1):
        yield f"  told by {many(len(entry.rows), 'row')}:"
        yield from _rows(entry.rows, shown)


def _covered(entry: Entry, shown: Shown) -> str:
    """Return in words which entries were taken back, or compacted."""
    ranges = [f"#{first}" if first == last else f"#{first} to #{last}" for first, last in entry.covered or ()]
    parts = ranges if shown.full else ranges[:_RANGES]
    if len(parts) < len(ranges):
        parts.append(f"and {many(len(ranges) - len(parts), 'range')} more; --full shows all")
    if entry.unresolved is not UNSET:
        lost = f"{many(entry.unresolved, 'item or range', 'items or ranges')} not in the history that is recorded here"
        parts.append(f"and {lost}" if parts else lost)
    what = "taken back" if entry.kind == "history_popped" else "covers"
    return f"  {what}: {', '.join(parts) or 'nothing'}"


def _heading(entry: Entry, shown: Shown) -> str:
    parts = [f"#{entry.position}", _time(entry.at_us, is_bound=entry.at_basis == "file")]
    names = (entry.session if shown.named else UNSET, entry.turn)
    parts += [str(value) for value in names if value is not UNSET]
    marks = [
        word.replace("_", " ")
        for word in ("late", "hidden", "meta", "summary", "withdrawn", "taken_back", "erased")
        if getattr(entry, word) is True
    ]
    if entry.late is True:
        marks[0] = "late: its turn was closed before"
    if entry.revisions > 1:
        marks.append(f"{entry.revisions} revisions")
    parts.append(_who(entry) + (f"  [{', '.join(marks)}]" if marks else ""))
    return "  ".join(parts)


def _who(entry: Entry) -> str:
    """Return who speaks, or what an entry is, in words."""
    match entry.kind:
        case "message":
            return str(entry.role) if entry.role is not UNSET else "message"
        case "tool_call":
            called = " and ".join(entry.calls) if entry.calls is not UNSET else entry.call
            of = f" (call {called})" if entry.call is not UNSET else ""
            if entry.unpaired is True:
                return f"result without a call{of}"
            return f"tool {entry.name if entry.name is not UNSET else 'of unknown name'}{of}"
        case "interaction_requested" | "interaction_answered":
            word = "asked" if entry.kind.endswith("requested") else "answered"
            return f"{word} {_or(entry.interaction)}" + (f" ({entry.asked})" if entry.asked is not UNSET else "")
        case _:
            return _event(entry)


def _event(entry: Entry) -> str:
    """Return in words what happened, of an entry that nobody says."""
    what, meaning = _EVENTS.get(entry.kind, (entry.kind, ""))
    more = next((one for one in (entry.stop_reason, entry.mode, entry.name, entry.of) if one is not UNSET), None)
    return (what if more is None else f"{what} ({more})") + meaning


_EVENTS = {
    "turn_ended": ("turn ended", ""),
    "history_compacted": ("history compacted", ": what stands above stays here, though the model saw less"),
    "history_popped": ("history taken back", ": what was undone stays here"),
    "history_cleared": ("history cleared", ": what stands above stays here"),
    "history_appended": ("items of a history", ""),
}
"""What each kind of entry is called, and what it means for what stands above."""


def _or(value: Any) -> str:  # noqa: ANN401 - a field that may not apply
    return "" if value is UNSET else str(value)


def _said(entry: Entry) -> str:
    match entry.kind:
        case "tool_call":
            return _arguments(entry.arguments)
        case "interaction_requested" | "interaction_answered":
            return _arguments(entry.payload)
        case "usage":
            return _arguments(entry.counts)
        case "data":
            return _arguments(entry.data)
        case "history_compacted":
            items = [(_role(item), _value(text_of(item) or _spoken(item))) for item in entry.items or ()]
            summary = entry.text if entry.text and not any(entry.text in text for _, text in items) else None
            return "\n".join([*([summary] if summary else []), *(f"{who}: {_member(text)}" for who, text in items)])
        case _:
            parts = _others(entry.content)
            return "\n".join([*([entry.text] if entry.text else []), *parts])


def _role(item: Any) -> str:  # noqa: ANN401 - an item of any form
    """Return who says an item of a history, or what it is."""
    found = (item.get("role") or item.get("type")) if isinstance(item, dict) else None
    return found if isinstance(found, str) else "item"


def _spoken(item: Any) -> Any:  # noqa: ANN401 - an item of any form
    return (text_of(item.get("content")) or item) if isinstance(item, dict) else item


def _others(parts: Any) -> list[str]:  # noqa: ANN401 - content of any form
    """Name the parts of a message that are no text."""
    if not isinstance(parts, list):
        return [] if parts is UNSET or text_of(parts) is not None else [_value(parts)]
    return [
        f"[{part.get('type', 'part') if isinstance(part, dict) else 'part'}]" for part in parts if text_of(part) is None
    ]


def _arguments(value: Any) -> str:  # noqa: ANN401 - content is any JSON value
    """Return an object one member a line, anything else as it is."""
    if isinstance(value, dict) and value:
        return "\n".join(f"{name}: {_member(item)}" for name, item in value.items())
    return "" if value is UNSET or value is None else _value(value)


def _member(value: Any) -> str:  # noqa: ANN401 - content is any JSON value
    text = _value(value)
    return text if "\n" not in text else "\n" + "\n".join(f"  {line.expandtabs(_TAB)}" for line in text.split("\n"))


def _value(value: Any) -> str:  # noqa: ANN401 - content is any JSON value
    return value if isinstance(value, str) else json.dumps(content.escape(value)[0], ensure_ascii=False)


def _result(entry: Entry, shown: Shown) -> Iterator[str]:
    if entry.output is UNSET and entry.result_erased is UNSET:
        yield "  no result"
        return
    marks = ["failed"] if entry.is_error is True else []
    marks += ["stands in for a result that never came"] if entry.placeholder is True else []
    marks += ["late: its turn was closed before"] if entry.result_late is True else []
    marks += ["erased"] if entry.result_erased is True else []
    marks += [f"{entry.result_revisions} revisions"] if (entry.result_revisions or 1) > 1 else []
    yield f"  result #{entry.result_position}" + (f"  [{', '.join(marks)}]" if marks else "")
    if entry.output is not UNSET:
        text = text_of(entry.output)
        yield from _text(text if text is not None else _arguments(entry.output), shown)


def _rows(rows: Iterable[Row], shown: Shown) -> Iterator[str]:
    for row in rows:
        yield f"  #{row.position}  {_time(row.at_us)}  {row.producer}: {row.outcome}"
        said = "erased" if row.said is None else _arguments({k: v for k, v in row.said.items() if v is not None})
        yield from _text(said, shown)


def _text(text: str, shown: Shown) -> Iterator[str]:
    """Yield a text's lines, indented and folded; of a long one the beginning, and how much is left."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    if not text:
        return
    kept = text if shown.full else "\n".join(text[:_CHARS].split("\n")[:_LINES])
    room = _room()
    for line in kept.split("\n"):
        for part in _folded(safe(line.expandtabs(_TAB)), room):
            yield f"{_INDENT}{part}".rstrip()
    if len(kept) < len(text):
        yield f"{_INDENT}[{len(text) - len(kept):,} more characters; --full shows all]"


def _folded(line: str, room: int | None) -> list[str]:
    """Return a line cut to the room, at spaces where it can."""
    if room is None:
        return [line]
    found, at = [], 0
    while len(line) - at > room or cell_len(line[at:]) > room:
        part = line[at : at + room + 1]
        head = (chop_cells(part, room) or [part])[0]  # what takes no room at all is not cut
        space = head.rfind(" ")
        cut = space + 1 if space > room // 2 else len(head)
        found.append(line[at : at + cut].rstrip())
        at += cut
    return [*found, line[at:]]


def _time(at_us: int, *, is_bound: bool = False) -> str:
    return ("before " if is_bound else "") + times.at_of(at_us).strftime("%Y-%m-%d %H:%M:%SZ")
