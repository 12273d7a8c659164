"""Hand a payload over to the next step of a session: put it under a name, take it once.

`put` stores the content of FILE or stdin under a name; `take` prints the last stored payload byte for byte, to one
taker only; `list` shows all handoffs of a session. The session must always be named. With a --key, a step can be run
again: its put is stored once, and its take returns the same payload until another one is put. If two runs use the same
session name, neither gets the payload of the other, and the error names both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rightful import limits, times
from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice, options
from rightful.cli.support.parsing import add_subcommands
from rightful.errors import StorageError, UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.handoffs.handoffs import Handoff, HandoffSummary

_STDIN = "-"

_WHATS = {
    "put": "store a payload under a name, in place of the last one",
    "take": "take the last payload of a name and print it; exit code 1 if there is none",
    "list": "show the handoffs of a session and their takers",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what can be done, and what each takes."""
    for name, command in add_subcommands(parser, _WHATS):
        if name != "list":
            command.add_argument("name", metavar="NAME", help="name of the handoff")
        if name == "put":
            command.add_argument(
                "file", metavar="FILE", nargs="?", default=_STDIN, help="file to store; `-` for stdin (default: -)"
            )
            command.add_argument("--allow-empty", action="store_true", help="store an empty payload too")
        command.add_argument(
            "--session", metavar="S", required=True, help="session of this step; the full name if it is new"
        )
        if name == "take":
            command.add_argument("--put-by", metavar="OTHER", help="session that put the payload (default: S)")
        if name != "list":
            command.add_argument("--key", metavar="K", help="key of this step, so that it can be run again")


def run(args: argparse.Namespace) -> int:
    """Run the subcommand and return the exit code."""
    return {"put": _put, "take": _take, "list": _list}[args.what](args)


def _put(args: argparse.Namespace) -> int:
    payload = _payload(args.file)
    if not payload and not args.allow_empty:
        where = "stdin" if args.file == _STDIN else args.file
        raise UsageError(
            f"{where} is empty; nothing was put or replaced under {args.name}. Check the step that should have "
            f"filled it, or use --allow-empty."
        )
    with ledger_choice.open_ledger(args) as ledger:
        session = options.session_or_new(ledger, args.session)
        receipt = ledger.put_handoff(args.name, payload, session=session, key=args.key)
    if args.json:
        terminal.print_json({"id": receipt.id, "outcome": receipt.outcome, "position": receipt.position})
    else:
        what = "was put before with this key" if receipt.outcome == "duplicate" else "waits to be taken"
        terminal.print_stdout(f"{args.name} of {session} {what} (position {receipt.position}).")
    return terminal.DONE


def _payload(name: str) -> str | bytes:
    """Return what a file holds: text where it is UTF-8, else bytes."""
    try:
        data = _read(terminal.stdin_bytes()) if name == _STDIN else _read_file(name)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}; nothing was put. Name another file.") from None
    if len(data) > limits.EVENT_BYTES:
        raise UsageError(
            f"{name} is longer than {limits.EVENT_BYTES:,} bytes; nothing was put. Put its path and its digest instead."
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _read_file(name: str) -> bytes:
    with Path(name).open("rb") as file:
        return _read(file)


def _read(file: BinaryIO) -> bytes:
    return file.read(limits.EVENT_BYTES + 1)


def _take(args: argparse.Namespace) -> int:
    with ledger_choice.open_ledger(args) as ledger:
        session = options.session_or_new(ledger, args.session)
        put_by = None if args.put_by is None else options.session_or_new(ledger, args.put_by)
        handoff = ledger.take_handoff(args.name, session=session, put_by=put_by, key=args.key)
    if args.json:
        terminal.print_json(_document(handoff))
    else:
        _print(handoff.payload)
    return terminal.DONE


def _document(handoff: Handoff) -> dict[str, Any]:
    from rightful.handoffs.handoffs import stored_payload

    form, payload = stored_payload(handoff.payload)
    return {
        "id": handoff.id,
        "name": handoff.name,
        "session": handoff.session,
        "form": form,
        "payload": payload,
        "put_at": handoff.put_at,
        "position": handoff.position,
        "taken_id": handoff.taken_id,
        "repeated": handoff.repeated,
    }


def _print(payload: object) -> None:
    """Print a payload as it was put; escaped where it would reach a terminal."""
    match payload:
        case bytes():
            data = payload
        case str():
            data = payload.encode("utf-8", "surrogateescape")
        case _:
            data = terminal.json_text(payload).encode() + b"\n"
    if sys.stdout.isatty():
        terminal.print_stdout(*data.decode("utf-8", "replace").split("\n"))
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        terminal.detach(sys.stdout)
        raise StorageError(
            f"the payload could not be written to stdout: {error.strerror}; it counts as taken",
            "Free disk space, and repeat the take if it had a --key.",
        ) from None


def _list(args: argparse.Namespace) -> int:
    from rightful.cli.output import tables

    with ledger_choice.open_ledger(args) as ledger:
        session = options.session_or_new(ledger, args.session)
        found = ledger.handoffs().listed(session)
    if args.json:
        terminal.print_json([handoff._asdict() for handoff in found])
    elif not found:
        terminal.print_stdout(f"{session} put nothing.")
    else:
        tables.show_table({"name": "", "state": "", "put": "", "form": "", "position": ""}, map(_cells, found))
    return terminal.DONE


def _cells(handoff: HandoffSummary) -> list[str]:
    taken = (
        "" if handoff.taken_at is None else f" by {handoff.taken_by} at {times.text_of(times.us_of(handoff.taken_at))}"
    )
    return [
        handoff.name,
        handoff.state + taken,
        times.text_of(times.us_of(handoff.put_at)),
        handoff.form,
        str(handoff.position),
    ]
