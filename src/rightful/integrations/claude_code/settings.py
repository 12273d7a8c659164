"""The settings file of Claude Code: install and remove our hooks, and change nothing else.

`install` adds one entry for each hook event. An entry is ours if its command has exactly the form that `install`
writes. `remove` restores the original bytes if nothing else was changed since; otherwise it removes only our entries.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from contextlib import ExitStack

from rightful.errors import StorageError, UsageError
from rightful.integrations.claude_code import settings_file, settings_text
from rightful.integrations.claude_code.hook_events import EVENTS
from rightful.integrations.claude_code.settings_text import BOM, HookEntry, with_command, with_entries, without_entries

BACKUP = ".before-rightful"
"""What the name of the backup ends with; a number is behind it where there is one already."""

_EMPTY = "{}\n"
_TRIES = 20


class Settings:
    """One settings file.

    Attributes:
        path: The file as it was named.
        text: Its content; None if the file does not exist.
        backup: The backup that `install` or `remove` left; None if there is none.

    Raises:
        UsageError: It cannot be read, or is not a settings file. It was not changed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._real = os.path.realpath(path)
        self.text: str | None = None
        self.backup: str | None = None
        self._read()

    def _read(self) -> None:
        try:
            self._data = settings_file.read(self._real)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}; nothing was changed.") from None
        self.text = None if self._data is None else settings_text.checked_text(self.path, self._data)

    def backups(self) -> list[str]:
        """Return the backups from before the hooks were installed, the newest first."""
        folder, name = os.path.split(self._real)
        numbered = re.compile(re.escape(name + BACKUP) + r"(?:\.([0-9]{1,9}))?")
        try:
            found = [match for match in map(numbered.fullmatch, os.listdir(folder)) if match]
        except OSError:
            return []
        return [f"{folder}/{match[0]}" for match in sorted(found, key=lambda match: int(match[1] or 1), reverse=True)]

    def installed(self) -> list[HookEntry]:
        """Return our entries, in file order."""
        return [] if self.text is None else settings_text.installed(self.text)

    def others(self) -> list[HookEntry]:
        """Return entries that call us but that `install` did not write; they are not changed."""
        return [] if self.text is None else settings_text.others(self.text)

    def disabled(self) -> bool:
        """Return whether this file disables all hooks of the agent."""
        return self.text is not None and json.loads(self.text.removeprefix(BOM)).get("disableAllHooks") is True

    def install(self, events: Iterable[str], command: str) -> bool:
        """Add the command for each hook event, and return whether anything changed.

        Our entries with another command are replaced. A matcher or a timeout that the user added to one of them
        is kept.

        Raises:
            UsageError: Another program wrote it meanwhile, and it is no longer a valid settings file.
            StorageError: Another process keeps writing it, or it belongs to another user.
            OSError: It cannot be written. It is as it was.
        """
        wanted = sorted(events, key=EVENTS.index)
        settings_file.remove_leftovers(self._real)
        for _ in range(_TRIES):
            untouched, before, backup = self._before_install()
            if untouched or self.text is None:
                new = with_entries(before or _EMPTY, wanted, command)
            else:
                new = with_command(self.text, wanted, command)
            if new == self.text or not (wanted or self.installed()):
                return False
            backup_text = self.text if not self.installed() else None
            if self._write_if_unchanged(new, backup_text):
                self.backup = self.backup or backup
                return True
        raise self._busy()

    def remove(self) -> list[HookEntry]:
        """Remove our entries and nothing else, and return them.

        Raises:
            UsageError: Another program wrote it meanwhile, and it is no longer a valid settings file.
            StorageError: Another process keeps writing it, or it belongs to another user.
            OSError: It cannot be written. It is as it was.
        """
        settings_file.remove_leftovers(self._real)
        for _ in range(_TRIES):
            if not (present := self.installed()) or self.text is None:
                return []
            untouched, before, backup = self._before_install()
            if self._write_if_unchanged(before if untouched else without_entries(self.text), None):
                if backup:
                    with contextlib.suppress(OSError):
                        os.unlink(backup)  # the file says again what it says
                elif not untouched:
                    self.backup = next(iter(self.backups()), None)
                return present
        raise self._busy()

    def _busy(self) -> StorageError:
        return StorageError(
            f"{self.path} was written by another program each time it was to be changed", settings_file.UNCHANGED
        )

    def _before_install(self) -> tuple[bool, str | None, str | None]:
        """Return whether nothing but our entries was changed since they were put in, what was there, and its backup.

        What was there is None if there was no file.
        """
        present = self.installed()
        if self.text is None or not present:
            return True, self.text, None
        events = sorted({entry.event for entry in present} & set(EVENTS), key=EVENTS.index)
        for backup in self.backups():
            before = self._text_of_backup(backup)
            if before is not None and with_entries(before, events, present[0].command) == self.text:
                return True, before, backup
        return with_entries(_EMPTY, events, present[0].command) == self.text, None, None

    def _text_of_backup(self, backup: str) -> str | None:
        try:
            data = settings_file.read(backup)
            return None if data is None else settings_text.checked_text(backup, data)
        except (OSError, UsageError):
            return None

    def _write_if_unchanged(self, text: str | None, backup_text: str | None) -> bool:
        """Write the file atomically. If another process wrote it, read it again and return False.

        Args:
            text: What it shall hold; None: it shall go.
            backup_text: What is to be kept in a backup.
        """
        done = False
        try:
            done = self._exchange(text, backup_text)
        finally:
            if not done:
                self._remove_backup()
        self._read()
        return done

    def _exchange(self, text: str | None, backup_text: str | None) -> bool:
        """Prepare the new file, then read the current one again, and replace it at once if it is unchanged."""
        settings_file.make_folder(os.path.dirname(self._real))
        with ExitStack() as temporaries:
            temporary = None
            if text is not None:
                temporary = temporaries.enter_context(
                    settings_file.prepared_file(self._real, text.encode(), self._real)
                )
            if backup_text is not None:
                self._write_backup(backup_text)
            if settings_file.read(self._real) != self._data:
                return False
            if temporary is None:
                os.unlink(self._real)
            else:
                settings_file.replace(temporary, self._real)
        return True

    def _remove_backup(self) -> None:
        """Remove the backup if the file was not changed after all."""
        if self.backup:
            with contextlib.suppress(OSError):
                os.unlink(self.backup)
            self.backup = None

    def _write_backup(self, text: str) -> None:
        """Write the backup to a new path; existing files are not overwritten."""
        if self.backup is None:
            newest = next(iter(self.backups()), None)
            number = 0 if newest is None else int(newest.removeprefix(self._real + BACKUP).removeprefix(".") or 1)
            self.backup = self._real + BACKUP + (f".{number + 1}" if number else "")
        with settings_file.prepared_file(self.backup, text.encode(), self._real) as temporary:
            settings_file.replace(temporary, self.backup)
