"""Install the hooks that record an agent's sessions, take them out again, or say how they are.

`install` writes an entry for each hook event into the agent's settings file, and leaves everything else
in it as it is. The hooks record session starts and ends, tool calls with their results, and the
exposures that the lesson hook leaves. `remove` takes out exactly these entries. `status` says what is
installed and what waits in the spool, and exits with 1 if the hooks are not installed or cannot work.

`run` is what the hooks call: it reads what the agent says on stdin, prints nothing, and always exits
with 0. What it cannot write it keeps in a spool, which the next command drains.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from rightful import limits, times
from rightful.cli import common, hooked
from rightful.cli.settings import Settings, command_of, ledger_of, programs_of
from rightful.errors import LedgerNotFoundError, StorageError, UsageError
from rightful.producers.claude_hook import EVENTS, PRODUCER
from rightful.producers.spool import Spool, at_us_of

if TYPE_CHECKING:
    import argparse

    from rightful.cli.settings import Installed

ACTIONS = ("install", "remove", "status", "run")

_SCOPES = ("user", "project", "local")

_YOUNG = ("PostToolUseFailure",)
"""Hook events that a version in use may not know."""

_TOLERANT = (2, 1, 101)
"""The version from which Claude Code passes over names of hook events that it does not know.

One before it takes such a name for a mistake and skips the whole settings file, the permissions too
(stablyai/orca#10191).
"""

_VERSION_WAIT_S = 10
_LOOK_BACK_PAGES = 200
"""How far back the last call of the hook is searched; pages of `limits.PAGE_ROWS` rows."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help="`install`, `remove`, `status` or `run`")
    parser.add_argument("agent", metavar="AGENT", choices=[hooked.AGENT], help="`claude-code`")
    parser.add_argument(
        "--scope",
        choices=_SCOPES,
        default="user",
        metavar="SCOPE",
        help="whose settings: `user`, the default; `project`, or `local`, of the project in the working folder",
    )
    parser.add_argument("--settings", metavar="FILE", help="the settings file itself, instead of a scope")
    parser.add_argument(
        "--without",
        action="append",
        choices=EVENTS,
        default=[],
        metavar="EVENT",
        help="with `install`: leave a hook event out; may be repeated",
    )
    parser.add_argument(
        "--with",
        dest="with_",
        action="append",
        choices=_YOUNG,
        default=[],
        metavar="EVENT",
        help="with `install`: ask for a young hook event though the agent's version is not known to take it",
    )


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    if (args.without or args.with_) and args.action != "install":
        raise UsageError("--with and --without belong to `install`; nothing was done. Leave them out.")
    match args.action:
        case "install":
            return _install(args)
        case "remove":
            return _remove(args)
        case "status":
            return _status(args)
        case _:
            return hooked.answer(hooked.Call(args.ledger, args.verbose), alone=False)


def _install(args: argparse.Namespace) -> int:
    ledger = _ledger(args)
    settings = Settings(_file(args))
    left_out = _left_out(args, settings)
    events = [event for event in EVENTS if event not in left_out]
    command = command_of(_program(), ledger)
    changed = settings.install(events, command)
    kept = settings.backup if changed and os.path.exists(settings.backup) else None
    if args.json:
        common.print_json(
            {
                "settings": settings.path,
                "changed": changed,
                "events": events,
                "left_out": left_out,
                "command": command,
                "backup": kept,
            }
        )
    elif changed:
        common.say(f"{settings.path}: hooks for {', '.join(events)} are installed, and write to {ledger}.")
        if kept:
            common.say(f"What was there is kept in {kept}. Sessions that run now use the hooks from their next start.")
    else:
        common.say(f"{settings.path} has these hooks already; nothing was changed.")
    for event in left_out:
        if event not in args.without:
            common.note(_UNSURE.format(event=event))
    return common.DONE


_UNSURE = (
    "{event} was left out: no Claude Code that is known to take it was found, and an older one would skip its whole "
    "settings file. Results of tools that fail are not recorded so. If yours takes it, add --with {event}."
)


def _left_out(args: argparse.Namespace, settings: Settings) -> list[str]:
    """Return the hook events that are not asked for: those that were named, and those the agent may not know."""
    known = {*args.with_, *(one.event for one in settings.installed())}
    unsure = [event for event in _YOUNG if event not in known and event not in args.without]
    if unsure and _agent_version() >= _TOLERANT:
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
    settings = Settings(_file(args))
    removed = settings.remove()
    kept = settings.backup if removed and os.path.exists(settings.backup) else None
    if args.json:
        common.print_json(
            {"settings": settings.path, "removed": [one.event for one in removed], "backup": kept},
        )
    elif removed:
        common.say(f"{settings.path}: {common.many(len(removed), 'hook')} taken out. What they recorded stays.")
        if kept:
            common.say(f"The file was changed since they were installed; what was there before is still in {kept}.")
    else:
        common.say(f"{settings.path} has no hooks of ours; nothing was changed.")
    return common.DONE


def _ledger(args: argparse.Namespace) -> str:
    """Return the ledger that the hooks shall write to, absolute, having seen that it is one."""
    from rightful import app

    path = os.path.abspath(app.folder_of(common.located(args.ledger)))
    try:
        app.open(path, readonly=True).close()
    except LedgerNotFoundError:
        common.refuse_parent(path)
        raise
    return path


def _file(args: argparse.Namespace) -> str:
    """Return the settings file that is meant, absolute."""
    if args.settings is not None:
        if not args.settings.strip():
            raise UsageError("--settings is empty; nothing was done. Give the path of a file, or leave it out.")
        return str(os.path.abspath(args.settings))
    if args.scope == "user":
        home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
        if home.startswith("~"):
            raise UsageError("your home folder is not known; nothing was done. Name the file with --settings.")
        return os.path.abspath(f"{home}/settings.json")
    name = "settings.json" if args.scope == "project" else "settings.local.json"
    return f"{_project()}/.claude/{name}"


def _project() -> str:
    """Return the root of the project around the working folder: where `.git` is, else the folder itself."""
    here = folder = os.getcwd()
    while not os.path.exists(f"{folder}/.git"):
        above = os.path.dirname(folder)
        if above == folder:
            return here
        folder = above
    return folder


def _program() -> list[str]:
    """Return how to start this program from anywhere: its own script, else this Python with this source."""
    beside = os.path.join(os.path.dirname(sys.executable), "rightful")
    for script in (sys.argv[0], beside):
        if os.path.basename(script) == "rightful" and os.path.isfile(script) and os.access(script, os.X_OK):
            return [os.path.abspath(script)]
    import rightful

    source = os.path.dirname(os.path.dirname(os.path.abspath(str(rightful.__file__))))
    return ["/usr/bin/env", f"PYTHONPATH={source}", sys.executable, "-m", "rightful"]


def _status(args: argparse.Namespace) -> int:
    settings = Settings(_file(args))
    installed = settings.installed()
    named = [ledger for one in installed if (ledger := ledger_of(one.command))]
    if not named and (asked := _asked(args)):
        named = [asked]
    facts: dict[str, Any] = {
        "settings": settings.path,
        "installed": bool(installed),
        "disabled": settings.disabled(),
        "events": [_event(event, installed) for event in EVENTS],
        "ledgers": [_of_ledger(ledger) for ledger in dict.fromkeys(named)],
    }
    if args.json:
        common.print_json(facts)
    else:
        _show(facts)
    works = all(one["runs"] for one in facts["events"] if one["installed"])
    works = works and all(one["exists"] for one in facts["ledgers"])
    return common.DONE if installed and works and not facts["disabled"] else common.CHECK_SAID_NO


def _asked(args: argparse.Namespace) -> str | None:
    from rightful import app

    try:
        return os.path.abspath(app.folder_of(common.located(args.ledger)))
    except LedgerNotFoundError:
        return None


def _event(event: str, installed: list[Installed]) -> dict[str, Any]:
    commands = [one.command for one in installed if one.event == event]
    programs = [program for command in commands for program in programs_of(command)]
    return {
        "event": event,
        "installed": bool(commands),
        "runs": bool(programs) and all(os.access(program, os.X_OK) for program in programs),
        "commands": commands,
    }


def _of_ledger(path: str) -> dict[str, Any]:
    """Return what is to be said of a ledger and its spool. Nothing is drained: one may look without changing."""
    spool = Spool(path, os.environ)
    waiting = spool.waiting()
    exists, last, why = _last(path)
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
        "aside": [{"file": file, "why": _why(file)} for file in spool.aside()],
    }


def _last(path: str) -> tuple[bool, str | None, str | None]:
    """Return whether there is a ledger, when the hook's last event happened, and what is wrong with the ledger."""
    from rightful import app

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


def _why(path: str) -> str:
    """Return why a file was set aside, as far as it says so."""
    try:
        with open(path, "rb") as file:
            return str(json.loads(file.read())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it holds an event that does not fit its type, or is damaged"


def _show(facts: dict[str, Any]) -> None:
    from rightful.cli import tables

    tables.show_facts(
        {"settings": facts["settings"]} | {one["event"]: _state(one) for one in facts["events"]},
    )
    if facts["disabled"]:
        common.say("`disableAllHooks` in these settings tells the agent to run no hooks: nothing is recorded.")
    for one in facts["ledgers"]:
        tables.show_facts(
            {
                "ledger": one["path"] if one["problem"] is None else one["problem"],
                "last recorded": one["last_recorded_at"] or "never",
                "in the spool": _waits(one),
                "set aside": common.many(len(one["aside"]), "file") if one["aside"] else "nothing",
            }
        )
        for file in one["aside"]:
            common.say(f"  {file['file']}: {file['why']}")
        if one["full"]:
            common.say(
                "The spool was full: the newest calls were not kept. Once it is drained, remove its file `full`."
            )


def _state(event: dict[str, Any]) -> str:
    if not event["installed"]:
        return "not installed"
    return "installed" if event["runs"] else f"installed, and its program is gone: {event['commands'][0]}"


def _waits(one: dict[str, Any]) -> str:
    from rightful.cli import tables

    if not one["waiting"]:
        return "nothing"
    calls = common.many(one["waiting"], "call")
    return f"{calls}, {tables.size(one['waiting_bytes'])}, since {one['oldest_at']}, in {', '.join(one['folders'])}"
