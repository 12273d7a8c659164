"""The scopes of Claude Code's settings files: user, project, and project on this machine only.

Claude Code runs the hooks of all of them, so each command also reports the others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from rightful.errors import UsageError
from rightful.integrations.claude_code.hook_entry import ledger_of
from rightful.integrations.claude_code.settings import Settings

if TYPE_CHECKING:
    import argparse

SCOPES = ("user", "project", "local")
"""The names of the scopes."""


class OtherScope(NamedTuple):
    """Another settings file that the agent reads here too, and that has hooks of ours.

    Attributes:
        scope: Its scope.
        settings: The file.
        ledgers: The ledgers that its hooks write to.
    """

    scope: str
    settings: str
    ledgers: list[str]


def settings_path(args: argparse.Namespace) -> str:
    """Return the absolute path of the settings file of `--settings` or `--scope`.

    Raises:
        UsageError: The name is empty, or the folder is unknown.
    """
    if args.settings is None:
        return settings_file_of(args.scope)
    if not args.settings.strip():
        raise UsageError("--settings is empty; nothing was done. Pass the path of a file, or omit it.")
    return str(os.path.abspath(args.settings))


def settings_file_of(scope: str) -> str:
    """Return the settings file of a scope, absolute.

    Raises:
        UsageError: It is the user's, and the home folder is unknown.
    """
    if scope == "user":
        home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
        if home.startswith("~"):
            raise UsageError("your home folder is unknown; nothing was done. Name the file with --settings.")
        return os.path.abspath(f"{home}/settings.json")
    name = "settings.json" if scope == "project" else "settings.local.json"
    return f"{_project()}/.claude/{name}"


def other_scopes(path: str) -> list[OtherScope]:
    """Return the other scopes with hooks of ours. An unreadable file is skipped, since its hooks would not run."""
    found = []
    seen = {os.path.realpath(path)}
    for scope in SCOPES:
        try:
            settings = Settings(settings_file_of(scope))
        except UsageError:
            continue
        if (real := os.path.realpath(settings.path)) in seen:
            continue
        seen.add(real)
        if installed := settings.installed():
            ledgers = dict.fromkeys(ledger_of(entry.command) or "" for entry in installed)
            found.append(OtherScope(scope, settings.path, list(ledgers)))
    return found


def _project() -> str:
    """Return the root of the project around the working folder: where `.git` is, else the folder itself."""
    here = folder = os.getcwd()
    while not os.path.exists(f"{folder}/.git"):
        above = os.path.dirname(folder)
        if above == folder:
            return here
        folder = above
    return folder
