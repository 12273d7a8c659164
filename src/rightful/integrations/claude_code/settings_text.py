"""The text of a settings file, with our entries in it or without them.

A changed file is written as the agent itself writes it: JSON, indented by two spaces. The order of keys is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rightful.errors import UsageError
from rightful.integrations.claude_code.hook_entry import calls_us, words_of

TIMEOUT_S = 10
"""Timeout of a hook's call in the settings; seconds. The call ends itself after `limits.HOOK_TOTAL_S`."""

BOM = "\ufeff"
"""A byte order mark, which is kept if the text begins with one."""


class HookEntry(NamedTuple):
    """One entry that calls us.

    Attributes:
        event: The hook event.
        command: The command, as the shell reads it.
        where: The index of its group, and its index in the group.
        plain: Whether it is alone in its group and as `install` wrote it, without a user's matcher or timeout.
    """

    event: str
    command: str
    where: tuple[int, int]
    plain: bool


def installed(text: str) -> list[HookEntry]:
    """Return our entries, in their order."""
    return list(_ours(_document(text)))


def others(text: str) -> list[HookEntry]:
    """Return entries that seem to call us and are not as `install` writes them: a user's own."""
    return [entry for entry in _entries(_document(text)) if calls_us(entry.command)]


def _document(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text.removeprefix(BOM))
    return document


def _text(document: dict[str, Any], before: str) -> str:
    """Return a document as text; the text before if it says the same."""
    if document == _document(before):
        return before
    mark = BOM if before.startswith(BOM) else ""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        text = json.dumps(document, indent=2)  # a lone surrogate has no UTF-8
    return f"{mark}{text}\n"


def _ours(document: dict[str, Any]) -> Iterator[HookEntry]:
    return (entry for entry in _entries(document) if words_of(entry.command) is not None)


def _entries(document: dict[str, Any]) -> Iterator[HookEntry]:
    for event, groups in document.get("hooks", {}).items():
        for number, group in enumerate(groups):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for inner, entry in enumerate(entries if isinstance(entries, list) else []):
                command = entry.get("command") if isinstance(entry, dict) else None
                if isinstance(command, str):
                    yield HookEntry(event, command, (number, inner), group == _group(command))


def _group(command: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}


def with_entries(text: str, events: Iterable[str], command: str) -> str:
    """Return the text with our entry for each event, after the entries that it has."""
    document = _document(text)
    _add(document, events, command)
    return _text(document, text)


def _add(document: dict[str, Any], events: Iterable[str], command: str) -> None:
    for event in events:
        document.setdefault("hooks", {}).setdefault(event, []).append(_group(command))


def with_command(text: str, events: Iterable[str], command: str) -> str:
    """Return the text with this command in our entries for these events, and in no others.

    A matcher or a timeout that a user added to one of our entries is kept.
    """
    wanted = list(events)
    document = _document(text)
    present = list(_ours(document))
    first = {entry.event: entry.where for entry in reversed(present)}
    for entry in reversed(present):  # from the last one, so that earlier indexes stay valid
        if entry.event not in wanted or (entry.plain and entry.where != first[entry.event]):
            _remove(document, entry)
        else:
            group, inner = entry.where
            document["hooks"][entry.event][group]["hooks"][inner]["command"] = command
    _add(document, [event for event in wanted if event not in first], command)
    return _text(document, text)


def without_entries(text: str) -> str:
    """Return the text without our entries, and without groups and events that held nothing else."""
    document = _document(text)
    for entry in reversed(list(_ours(document))):
        _remove(document, entry)
    return _text(document, text)


def _remove(document: dict[str, Any], entry: HookEntry) -> None:
    """Remove an entry, and whatever is empty without it: its group with all its fields, its event, `hooks`."""
    hooks = document["hooks"]
    groups = hooks[entry.event]
    group, inner = entry.where
    del groups[group]["hooks"][inner]
    if not groups[group]["hooks"]:
        del groups[group]
    if not groups:
        del hooks[entry.event]
    if not hooks:
        del document["hooks"]


def checked_text(path: str, data: bytes) -> str:
    """Return the text of a settings file.

    Raises:
        UsageError: The file is not valid; the error names the place.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
        column = len(text) - text.rfind("\n")
        raise _invalid(path, f"is not UTF-8: line {text.count(chr(10)) + 1} column {column}") from None
    try:
        document = json.loads(text.removeprefix(BOM), object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _invalid(path, f"is not JSON: {error.msg}: line {error.lineno} column {error.colno}") from None
    except ValueError as error:
        raise _invalid(path, f"has the key {error} twice in one object") from None
    except RecursionError:
        raise _invalid(path, "is nested too deep") from None
    _check_form(path, document)
    return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(repr(key))
        found[key] = value
    return found


def _check_form(path: str, document: object) -> None:
    if not isinstance(document, dict):
        raise _invalid(path, "is not a JSON object")
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict):
        raise _invalid(path, "has a value that is not an object at $.hooks")
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            raise _invalid(path, f"has a value that is not an array at $.hooks.{event}")


def _invalid(path: str, what: str) -> UsageError:
    return UsageError(f"{path} {what}. The file was not changed. Fix it and run the command again.")
