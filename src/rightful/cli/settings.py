"""The settings file of Claude Code: our hooks put in and taken out, and everything else left as it is.

What `install` puts in is one entry for each hook event; what is ours is told by the command's words.
`remove` gives back the very bytes that were there, if nothing else was changed since; else it cuts
out what is ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rightful.cli import json_text
from rightful.errors import StorageError, UsageError
from rightful.producers.claude_hook import EVENTS

BACKUP = ".before-rightful"
"""What the name of the backup ends with."""

TIMEOUT_S = 10
"""What a hook's call may take before Claude Code ends it; seconds. It ends itself after `limits.HOOK_TOTAL_S`."""

_OURS = ["hook", "run", "claude-code"]
_BOM = "\ufeff"
_EMPTY = "{}\n"
_TRIES = 5
_UNCHANGED = "Nothing was changed; try again when nobody writes it."


class Installed(NamedTuple):
    """One of our entries.

    Attributes:
        event: The hook event.
        command: The command, as the shell reads it.
        where: Its place: the numbers of its group and of it in the group.
    """

    event: str
    command: str
    where: tuple[int, int]


def command_of(program: Sequence[str], ledger: str) -> str:
    """Return the command that is written: safe for a shell, absolute, and never a failure of the agent's."""
    return f"{shlex.join([*program, *_OURS, '--ledger', ledger])} || true"


def words_of(command: object) -> list[str] | None:
    """Return the words of a command of ours; None if it is another's."""
    if not isinstance(command, str):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    for at in range(1, len(words) - 2):
        if words[at : at + 3] == _OURS and os.path.basename(words[at - 1]) == "rightful":
            return words
    return None


class Settings:
    """One settings file.

    Attributes:
        path: The file as it was named.
        text: What it holds; None if there is none.

    Raises:
        UsageError: It cannot be read, or is no settings file. It was not touched.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._real = os.path.realpath(path)
        self.text: str | None = None
        self._read()

    def _read(self) -> None:
        try:
            with open(self._real, "rb") as file:
                self._data: bytes | None = file.read()
        except FileNotFoundError:
            self._data = None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}; nothing was changed.") from None
        self.text = None if self._data is None else _checked(self.path, self._data)

    @property
    def backup(self) -> str:
        """The file that keeps what was there before the hooks."""
        return self._real + BACKUP

    def installed(self) -> list[Installed]:
        """Return our entries, in the order in which they stand."""
        return [] if self.text is None else list(_installed(self.text))

    def disabled(self) -> bool:
        """Say whether this file tells the agent to run no hooks at all."""
        return self.text is not None and json.loads(self.text.removeprefix(_BOM)).get("disableAllHooks") is True

    def install(self, events: Iterable[str], command: str) -> bool:
        """Put the command in for each hook event; return whether anything changed.

        Entries of ours that say something else are replaced.

        Raises:
            UsageError: It has changed meanwhile into no settings file.
            StorageError: Somebody else keeps writing it.
            OSError: It cannot be written. It is as it was.
        """
        wanted = sorted(events, key=EVENTS.index)
        for _ in range(_TRIES):
            present = sorted((one.event, one.command) for one in self.installed())
            if present == sorted((event, command) for event in wanted):
                return False
            base = self._without()
            if self._replaced(_with(base or _EMPTY, wanted, command), before=base):
                return True
        raise StorageError(f"{self.path} was written by another program each time it was to be changed", _UNCHANGED)

    def remove(self) -> list[Installed]:
        """Take out what is ours, and nothing else; return what that was.

        Raises:
            UsageError: It has changed meanwhile into no settings file.
            StorageError: Somebody else keeps writing it.
            OSError: It cannot be written. It is as it was.
        """
        for _ in range(_TRIES):
            present = self.installed()
            if not present or self._replaced(self._without(), before=None):
                return present
        raise StorageError(f"{self.path} was written by another program each time it was to be changed", _UNCHANGED)

    def _without(self) -> str | None:
        """Return the text as it was before our hooks; None if there was no file."""
        present = self.installed()
        if self.text is None or not present:
            return self.text
        events = sorted({one.event for one in present} & set(EVENTS), key=EVENTS.index)
        for before in (self._before(), None):
            if _with(before or _EMPTY, events, present[0].command) == self.text:
                return before
        return _stripped(self.text)

    def _before(self) -> str | None:
        try:
            with open(self.backup, "rb") as file:
                return _checked(self.backup, file.read())
        except (OSError, UsageError):
            return None

    def _replaced(self, text: str | None, before: str | None) -> bool:
        """Write the file, whole or not at all; return False, having read it anew, if somebody else wrote it."""
        folder = os.path.dirname(self._real)
        os.makedirs(folder, exist_ok=True)
        mode = None
        with contextlib.suppress(OSError):
            mode = os.stat(self._real).st_mode & 0o7777
        if before is not None:
            _write(self.backup, before.encode(), mode)
        if _bytes_of(self._real) != self._data:
            self._read()
            return False
        if text is None:
            os.unlink(self._real)
        else:
            _write(self._real, text.encode(), mode)
        if before is None:
            _forget(self.backup, text)
        self._read()
        return True


def _forget(backup: str, text: str | None) -> None:
    """Remove a backup that says what the file itself says again."""
    if text is not None and _bytes_of(backup) == text.encode():
        os.unlink(backup)


def _bytes_of(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, data: bytes, mode: int | None) -> None:
    half = f"{path}.{os.getpid()}.tmp"
    try:
        with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(half)
        raise
    from pathlib import Path

    from rightful.recorders.files import sync_folder

    with contextlib.suppress(OSError):
        sync_folder(Path(path).parent)


def _checked(path: str, data: bytes) -> str:
    """Return a settings file's text.

    Raises:
        UsageError: It is none; the error says where.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
        raise _refused(path, "is not UTF-8", *json_text.place(text, len(text))) from None
    body = text.removeprefix(_BOM)
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


def _installed(text: str) -> Iterator[Installed]:
    text = text.removeprefix(_BOM)
    hooks = json_text.member(text, json_text.begin(text), "hooks")
    for event in json_text.items(text, hooks.value_at) if hooks else []:
        for number, group in enumerate(event.value):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for inner, entry in enumerate(entries if isinstance(entries, list) else []):
                command = entry.get("command") if isinstance(entry, dict) else None
                if words_of(command) is not None:
                    yield Installed(str(event.key), str(command), (number, inner))


def _with(text: str, events: Iterable[str], command: str) -> str:
    """Return the text with our entry for each event."""
    mark, text = (_BOM, text.removeprefix(_BOM)) if text.startswith(_BOM) else ("", text)
    group = {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}
    for event in events:
        root = json_text.begin(text)
        hooks = json_text.member(text, root, "hooks")
        known = json_text.member(text, hooks.value_at, event) if hooks else None
        if hooks is None:
            text = json_text.put(text, root, "hooks", {event: [group]}, 1)
        elif known is None:
            text = json_text.put(text, hooks.value_at, event, [group], 2)
        else:
            text = json_text.put(text, known.value_at, None, group, 3)
    return mark + text


def _stripped(text: str) -> str:
    """Return the text with our entries cut out, and what held nothing else."""
    mark, text = (_BOM, text.removeprefix(_BOM)) if text.startswith(_BOM) else ("", text)
    while (one := next(_installed(text), None)) is not None:
        root = json_text.begin(text)
        hooks = json_text.member(text, root, "hooks")
        assert hooks is not None, "an entry stands in it"
        event = json_text.member(text, hooks.value_at, one.event)
        assert event is not None, "an entry stands in it"
        text = _cut_out(text, [root, hooks.value_at, event.value_at], one)
    return mark + text


def _cut_out(text: str, at: list[int], one: Installed) -> str:
    """Cut an entry out: itself, or the outermost of what holds it and nothing else."""
    root, hooks, event = at
    number, inner = one.where
    group = json_text.items(text, event)[number]
    entries = json_text.member(text, group.value_at, "hooks")
    assert entries is not None, "an entry stands in it"
    if len(entries.value) > 1:
        return json_text.cut(text, entries.value_at, inner)
    if len(json_text.items(text, event)) > 1:
        return json_text.cut(text, event, number)
    events = json_text.items(text, hooks)
    if len(events) > 1:
        return json_text.cut(text, hooks, [item.key for item in events].index(one.event))
    return json_text.cut(text, root, [item.key for item in json_text.items(text, root)].index("hooks"))


def ledger_of(command: str) -> str | None:
    """Return the ledger that a command of ours names."""
    words = words_of(command) or []
    named = (words[at + 1] for at, word in enumerate(words[:-1]) if word == "--ledger")
    return next(named, None)


def programs_of(command: str) -> list[str]:
    """Return the files that a command of ours starts: the program, and what starts it."""
    words = words_of(command) or []
    before = words[: next((at for at in range(len(words)) if words[at : at + 3] == _OURS), 0)]
    return [word for word in before if word.startswith("/") and "=" not in word]
