"""Install, remove or check the hooks that record an agent's sessions.

`install` adds one entry per hook event to the agent's settings file and changes nothing else in it. The hooks record
session starts and ends, tool calls with their results, and the exposures that the lesson hook writes. `remove`
deletes exactly these entries. `status` shows which hooks are installed and what is in the spool; it exits with 1 if
the hooks are not installed or cannot run.

`run` is the command that the hooks call: it reads the agent's JSON from stdin, prints nothing and always exits with
0. Events that it cannot write are kept in a spool until the next command drains it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from rightful import limits, times
from rightful.cli.commands import hook_call
from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice
from rightful.errors import LedgerNotFoundError, StorageError, UsageError
from rightful.integrations.claude_code import settings_scopes
from rightful.integrations.claude_code.hook_entry import command_of, ledger_of, program, programs_of
from rightful.integrations.claude_code.hook_events import EVENTS, PRODUCER
from rightful.integrations.claude_code.settings import Settings
from rightful.integrations.spool.spool_files import Spool, at_us_of

if TYPE_CHECKING:
    import argparse

    from rightful.integrations.claude_code.settings_text import HookEntry

ACTIONS = ("install", "remove", "status", "run")

_NEW_EVENTS = ("PostToolUseFailure",)
"""Hook events that a version in use may not know."""

_TOLERANT_VERSION = (2, 1, 101)
"""The version from which Claude Code passes over names of hook events that it does not know.

One before it takes such a name for a mistake and skips the whole settings file, the permissions too
(stablyai/orca#10191).
"""

_VERSION_WAIT_S = 10
_LOOK_BACK_PAGES = 200
"""How far back the last call of the hook is searched; pages of `limits.PAGE_ROWS` rows."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help="install, remove, status or run")
    parser.add_argument("agent", metavar="AGENT", choices=[hook_call.AGENT], help="claude-code")
    parser.add_argument(
        "--scope",
        choices=settings_scopes.SCOPES,
        default="user",
        metavar="SCOPE",
        help="settings to use: user, or project or local of the working folder (default: user)",
    )
    parser.add_argument("--settings", metavar="FILE", help="settings file to use instead of a scope")
    parser.add_argument(
        "--without",
        action="append",
        choices=EVENTS,
        default=[],
        metavar="EVENT",
        help="hook event not to install (repeatable)",
    )
    parser.add_argument(
        "--with",
        dest="with_",
        action="append",
        choices=_NEW_EVENTS,
        default=[],
        metavar="EVENT",
        help="hook event to install even if the agent may not support it",
    )


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit code."""
    if (args.without or args.with_) and args.action != "install":
        raise UsageError("--with and --without are options of `install`; nothing was done. Omit them.")
    match args.action:
        case "install":
            return _install(args)
        case "remove":
            return _remove(args)
        case "status":
            return _status(args)
        case _:
            return hook_call.answer(args.ledger, verbose=args.verbose, alone=False)


def _install(args: argparse.Namespace) -> int:
    ledger = _ledger(args)
    settings = Settings(settings_scopes.settings_path(args))
    left_out = _omitted_events(args, settings)
    events = [event for event in EVENTS if event not in left_out]
    command = command_of(program(), ledger)
    changed = settings.install(events, command)
    elsewhere = settings_scopes.other_scopes(settings.path)
    if args.json:
        terminal.print_json(
            {
                "settings": settings.path,
                "changed": changed,
                "events": events,
                "left_out": left_out,
                "command": command,
                "backup": settings.backup,
                "others": _others(settings),
                "elsewhere": [other._asdict() for other in elsewhere],
            }
        )
    elif changed:
        terminal.print_stdout(
            f"{_one_line(settings.path)}: hooks for {', '.join(events)} are installed, and write to {ledger}."
        )
        if settings.backup:
            terminal.print_stdout(
                f"The previous file is kept as {settings.backup}. "
                "Running sessions use the hooks after their next start."
            )
    else:
        terminal.print_stdout(f"{_one_line(settings.path)} already has these hooks; nothing was changed.")
    for event in left_out:
        if event not in args.without:
            terminal.note_stderr(_OMITTED_NOTE.format(event=event))
    _note_others(settings)
    for other in elsewhere:
        _note_elsewhere(other)
    return terminal.DONE


def _note_elsewhere(other: settings_scopes.OtherScope) -> None:
    terminal.note_stderr(
        f"{_one_line(other.settings)} ({other.scope}) also has rightful hooks, which write to "
        f"{_one_line(', '.join(other.ledgers))}, and Claude Code runs both. To remove those: "
        f"rightful hook remove {hook_call.AGENT} --scope {other.scope}"
    )


def _others(settings: Settings) -> list[dict[str, str]]:
    return [{"event": entry.event, "command": entry.command} for entry in settings.others()]


def _note_others(settings: Settings) -> None:
    """Name the commands that call us and are not ours to change."""
    for entry in settings.others():
        terminal.note_stderr(
            f"{_one_line(settings.path)}: a command for {_one_line(entry.event)} calls `rightful hook run`, but was "
            f"not written by `install`. It was not changed: {_one_line(entry.command)}"
        )


def _one_line(text: str) -> str:
    """Return text that stays on one line, whatever stands in it."""
    return terminal.safe(text).replace("\n", "\\n").replace("\t", "\\t")


_OMITTED_NOTE = (
    "{event} was not installed: no Claude Code version that supports it was found, and an older one would ignore the "
    "whole settings file. Results of failing tools are not recorded. If your version supports it, add --with {event}."
)


def _omitted_events(args: argparse.Namespace, settings: Settings) -> list[str]:
    """Return the hook events that are not asked for: those that were named, and those the agent may not know."""
    known = {*args.with_, *(entry.event for entry in settings.installed())}
    unsure = [event for event in _NEW_EVENTS if event not in known and event not in args.without]
    if unsure and _agent_version() >= _TOLERANT_VERSION:
        unsure = []
    return [event for event in EVENTS if event in args.without or event in unsure]


def _agent_version() -> tuple[int, ...]:
    """Return the version of the Claude Code that a shell would start here; nothing if that is not known."""
    import re
    import shutil
    import subprocess

    if (program := shutil.which("claude")) is None:
        return ()
    try:
        done = subprocess.run(  # noqa: S603 - the agent itself, found as the shell finds it
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_WAIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(rb"(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in found.groups()) if found else ()


def _remove(args: argparse.Namespace) -> int:
    settings = Settings(settings_scopes.settings_path(args))
    removed = settings.remove()
    if args.json:
        terminal.print_json(
            {
                "settings": settings.path,
                "removed": [entry.event for entry in removed],
                "backup": settings.backup,
                "others": _others(settings),
            },
        )
    elif removed:
        terminal.print_stdout(
            f"{_one_line(settings.path)}: {terminal.plural(len(removed), 'hook')} removed. Recorded events are kept."
        )
        if settings.backup:
            terminal.print_stdout(
                f"The file was changed after they were installed; the previous file is kept as {settings.backup}."
            )
    else:
        terminal.print_stdout(f"{_one_line(settings.path)} has no rightful hooks; nothing was changed.")
    _note_others(settings)
    return terminal.DONE


def _ledger(args: argparse.Namespace) -> str:
    """Return the ledger that the hooks shall write to, absolute, having seen that it is one."""
    from rightful import ledger as app

    path = os.path.abspath(app.folder_of(ledger_choice.ledger_path(args.ledger)))
    try:
        app.open(path, readonly=True).close()
    except LedgerNotFoundError:
        ledger_choice.refuse_parent(path)
        raise
    return path


def _status(args: argparse.Namespace) -> int:
    settings = Settings(settings_scopes.settings_path(args))
    installed = settings.installed()
    named = [ledger for entry in installed if (ledger := ledger_of(entry.command))]
    if not named and (ledger := _ledger_if_any(args)):
        named = [ledger]
    facts: dict[str, Any] = {
        "settings": settings.path,
        "installed": bool(installed),
        "disabled": settings.disabled(),
        "events": [_event_facts(event, installed) for event in EVENTS],
        "ledgers": [_ledger_facts(ledger) for ledger in dict.fromkeys(named)],
        "others": _others(settings),
        "elsewhere": [other._asdict() for other in settings_scopes.other_scopes(settings.path)],
    }
    if args.json:
        terminal.print_json(facts)
    else:
        _show(facts)
    works = all(event["runs"] for event in facts["events"] if event["installed"])
    works = works and all(ledger["exists"] for ledger in facts["ledgers"])
    return terminal.DONE if installed and works and not facts["disabled"] else terminal.CHECK_SAID_NO


def _ledger_if_any(args: argparse.Namespace) -> str | None:
    from rightful import ledger as app

    try:
        return os.path.abspath(app.folder_of(ledger_choice.ledger_path(args.ledger)))
    except LedgerNotFoundError:
        return None


def _event_facts(event: str, installed: list[HookEntry]) -> dict[str, Any]:
    commands = [entry.command for entry in installed if entry.event == event]
    programs = [program for command in commands for program in programs_of(command)]
    return {
        "event": event,
        "installed": bool(commands),
        "runs": bool(programs) and all(os.access(program, os.X_OK) for program in programs),
        "commands": commands,
    }


def _ledger_facts(path: str) -> dict[str, Any]:
    """Return what is to be said of a ledger and its spool. Nothing is drained: one may look without changing."""
    spool = Spool(path, os.environ)
    waiting = spool.waiting()
    exists, last, why = _last_recorded(path)
    return {
        "path": path,
        "exists": exists,
        "problem": why,
        "last_recorded_at": last,
        "waiting": len(waiting),
        "waiting_bytes": sum(_size(file) for file in waiting),
        "oldest_at": times.text_of(at_us_of(waiting[0])) if waiting else None,
        "folders": list(dict.fromkeys(os.path.dirname(file) for file in waiting)),
        "full": bool(spool.full()),
        "aside": [{"file": file, "why": _reason_in(file)} for file in spool.aside()],
    }


def _last_recorded(path: str) -> tuple[bool, str | None, str | None]:
    """Return whether there is a ledger, when the hook's last event happened, and what is wrong with the ledger."""
    from rightful import ledger as app

    try:
        with app.open(path, readonly=True) as ledger:
            head = ledger.log.head()
            for page in range(_LOOK_BACK_PAGES):
                until = head - page * limits.PAGE_ROWS
                rows = [row for part in ledger.log.scan(max(until - limits.PAGE_ROWS, 0), until) for row in part]
                ours = [row.envelope.recorded_at_us for row in rows if row.envelope.producer == PRODUCER]
                if ours or not rows:
                    return True, times.text_of(ours[-1]) if ours else None, None
            return True, None, None
    except LedgerNotFoundError as error:
        return False, None, str(error)
    except StorageError as error:
        return True, None, str(error)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _reason_in(path: str) -> str:
    """Return why a file was set aside, as far as it says so."""
    try:
        with open(path, "rb") as file:
            return str(json.loads(file.read())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it contains an invalid event, or is damaged"


def _show(facts: dict[str, Any]) -> None:
    from rightful.cli.output import tables

    tables.show_facts(
        {"settings": _one_line(facts["settings"])} | {event["event"]: _state(event) for event in facts["events"]},
    )
    for entry in facts["others"]:
        terminal.print_stdout(
            f"Another command for {_one_line(entry['event'])} also calls the hook: {_one_line(entry['command'])}"
        )
    for other in facts["elsewhere"]:
        ledgers = _one_line(", ".join(other["ledgers"]))
        terminal.print_stdout(
            f"{_one_line(other['settings'])} ({other['scope']}) also has rightful hooks, which write to {ledgers}."
        )
    if facts["disabled"]:
        terminal.print_stdout(
            "`disableAllHooks` in these settings disables all hooks of the agent: nothing is recorded."
        )
    for ledger in facts["ledgers"]:
        tables.show_facts(
            {
                "ledger": _one_line(ledger["path"] if ledger["problem"] is None else ledger["problem"]),
                "last recorded": ledger["last_recorded_at"] or ("never" if ledger["problem"] is None else "unknown"),
                "in the spool": _spool_text(ledger),
                "set aside": terminal.plural(len(ledger["aside"]), "file") if ledger["aside"] else "nothing",
            }
        )
        for file in ledger["aside"]:
            terminal.print_stdout(f"  {_one_line(file['file'])}: {_one_line(file['why'])}")
        if ledger["full"]:
            terminal.print_stdout(
                "The spool was full: the newest calls were lost. After it is drained, remove its file `full`."
            )


def _state(event: dict[str, Any]) -> str:
    if not event["installed"]:
        return "not installed"
    return "installed" if event["runs"] else f"installed, but its program is missing: {_one_line(event['commands'][0])}"


def _spool_text(ledger: dict[str, Any]) -> str:
    from rightful.cli.output import tables

    if not ledger["waiting"]:
        return "nothing"
    calls = terminal.plural(ledger["waiting"], "call")
    folders = _one_line(", ".join(ledger["folders"]))
    return f"{calls}, {tables.size(ledger['waiting_bytes'])}, since {ledger['oldest_at']}, in {folders}"
