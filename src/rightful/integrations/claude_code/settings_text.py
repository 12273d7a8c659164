"""What stands in a settings file's text, and its text with our entries in it, or without them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rightful.errors import UsageError
from rightful.integrations.claude_code import json_text
from rightful.integrations.claude_code.hook_entry import calls_us, words_of

TIMEOUT_S = 10
"""What a hook's call may take before Claude Code ends it; seconds. It ends itself after `limits.HOOK_TOTAL_S`."""

BOM = "\ufeff"
"""What a text may begin with; kept."""


class Installed(NamedTuple):
    """One entry that calls us.

    Attributes:
        event: The hook event.
        command: The command, as the shell reads it.
        where: Its place: the numbers of its group and of it in the group.
        plain: It stands alone in its group and is as it was written: nobody put anything beside the command.
    """

    event: str
    command: str
    where: tuple[int, int]
    plain: bool


def installed(text: str) -> list[Installed]:
    """Return our entries, in the order in which they stand."""
    return [one for one in _entries(text) if words_of(one.command) is not None]


def others(text: str) -> list[Installed]:
    """Return entries that seem to call us and are not as `install` writes them: somebody's own."""
    return [one for one in _entries(text) if calls_us(one.command)]


def _entries(text: str) -> Iterator[Installed]:
    text = text.removeprefix(BOM)
    hooks = json_text.member(text, json_text.begin(text), "hooks")
    for event in json_text.items(text, hooks.value_at) if hooks else []:
        for number, group in enumerate(event.value):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for inner, entry in enumerate(entries if isinstance(entries, list) else []):
                command = entry.get("command") if isinstance(entry, dict) else None
                if isinstance(command, str):
                    yield Installed(str(event.key), command, (number, inner), group == _group(command))


def _group(command: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}


def with_entries(text: str, events: Iterable[str], command: str) -> str:
    """Return the text with our entry for each event, behind what is there."""
    mark, text = (BOM, text.removeprefix(BOM)) if text.startswith(BOM) else ("", text)
    for event in events:
        root = json_text.begin(text)
        hooks = json_text.member(text, root, "hooks")
        known = json_text.member(text, hooks.value_at, event) if hooks else None
        if hooks is None:
            text = json_text.put(text, root, "hooks", {event: [_group(command)]}, 1)
        elif known is None:
            text = json_text.put(text, hooks.value_at, event, [_group(command)], 2)
        else:
            text = json_text.put(text, known.value_at, None, _group(command), 3)
    return mark + text


def renewed(text: str, events: Iterable[str], command: str) -> str:
    """Return the text with this command in our entries for these events, and in no others.

    What somebody changed beside a command of ours, a matcher or a timeout, stays as he wants it.
    """
    wanted = list(events)
    mark, text = (BOM, text.removeprefix(BOM)) if text.startswith(BOM) else ("", text)
    present = installed(text)
    first = {one.event: one.where for one in reversed(present)}
    for one in reversed(present):  # what stands before it keeps its place
        if one.event not in wanted or (one.plain and one.where != first[one.event]):
            text = _cut_out(text, one)
        else:
            item = _place(text, ["hooks", one.event, one.where[0], "hooks", one.where[1], "command"])
            text = text[: item.value_at] + json.dumps(command, ensure_ascii=False) + text[item.end :]
    return mark + with_entries(text, [event for event in wanted if event not in first], command)


def stripped(text: str) -> str:
    """Return the text with our entries cut out, and what held nothing else."""
    mark, text = (BOM, text.removeprefix(BOM)) if text.startswith(BOM) else ("", text)
    for one in reversed(installed(text)):
        text = _cut_out(text, one)
    return mark + text


def _cut_out(text: str, one: Installed) -> str:
    """Cut an entry out: itself, or the outermost of what holds it and nothing else."""
    path: list[str | int] = ["hooks", one.event, one.where[0], "hooks", one.where[1]]
    while True:
        item = _place(text, path)
        holder = _place(text, path[:-1]).value_at if path[:-1] else json_text.begin(text)
        beside = json_text.items(text, holder)
        if len(beside) > 1 or len(path) == 1:
            return json_text.cut(text, holder, [each.start for each in beside].index(item.start))
        path = path[:3] if len(path) > 3 else path[:-1]  # noqa: PLR2004 - a group goes with all that it says


def _place(text: str, path: list[str | int]) -> json_text.Item:
    """Return what stands at the end of a path of names and numbers, which is known to be there."""
    at = json_text.begin(text)
    for key in path[:-1]:
        at = _item(text, at, key).value_at
    return _item(text, at, path[-1])


def _item(text: str, at: int, key: str | int) -> json_text.Item:
    return next(each for each in json_text.items(text, at) if each.key == key)


def checked(path: str, data: bytes) -> str:
    """Return a settings file's text.

    Raises:
        UsageError: It is none; the error says where.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
        raise _refused(path, "is not UTF-8", *json_text.place(text, len(text))) from None
    body = text.removeprefix(BOM)
    try:
        json.loads(body, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise _refused(path, f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:
        raise _refused(path, f"says {error} twice", 1, 1) from None
    except RecursionError:
        raise _refused(path, "is nested too deep", 1, 1) from None
    _check_form(path, body)
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(repr(key))
        found[key] = value
    return found


def _check_form(path: str, text: str) -> None:
    root = json_text.begin(text)
    if text[root] != "{":
        raise _refused(path, "is no object", *json_text.place(text, root))
    hooks = json_text.member(text, root, "hooks")
    if hooks is None:
        return
    if not isinstance(hooks.value, dict):
        raise _refused(path, "has `hooks` that is no object", *json_text.place(text, hooks.value_at))
    for event in json_text.items(text, hooks.value_at):
        if not isinstance(event.value, list):
            raise _refused(path, f"has `hooks.{event.key}` that is no array", *json_text.place(text, event.value_at))


def _refused(path: str, what: str, line: int, column: int) -> UsageError:
    return UsageError(f"{path} {what}, line {line} column {column}; it was not touched. Mend it and run this again.")
