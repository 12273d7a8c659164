"""The command line: one module a command, loaded when it is called and not before.

A command module has a docstring (its first line is the summary, all of it is the help),
`arguments(parser)`, which declares what it takes, and `run(args)`, which does it and returns
the exit code: 0 done, 1 the check said no, 2 wrong usage or invalid input, 3 conflict, 4 storage.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from rightful.cli import common

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS: dict[str, str] = {
    "init": "rightful.cli.init",
    "ingest": "rightful.cli.ingest",
    "import": "rightful.cli.import_",
    "credit": "rightful.cli.credit",
    "posteriors": "rightful.cli.posteriors",
    "audit": "rightful.cli.audit",
    "backfill": "rightful.cli.backfill",
    "status": "rightful.cli.status",
    "demo": "rightful.cli.demo",
}
"""The module of each command."""

_PIPED_COLUMNS = 100  # the width of help where nobody's terminal limits it

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the signal's number, as shells have it."""

PIPE_CLOSED = 141
"""Exit code when the reader of our output went away: 128 and SIGPIPE."""


class _Help(argparse.HelpFormatter):
    """Help as wide as the terminal, a description's paragraphs kept apart.

    argparse makes a formatter for each argument it is told of, and its own loads shutil to ask for the width.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=(common.columns(sys.stdout) or _PIPED_COLUMNS) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(super(_Help, self)._fill_text(part, width, indent) for part in text.split("\n\n"))


class _Parser(argparse.ArgumentParser):
    """A parser whose help is an answer like any other: old Pythons raise where new ones stay silent."""

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ANN401 - as in argparse
        if file is sys.stdout and message:
            common.put(message)
        else:
            super()._print_message(message, file)


class Command(Protocol):
    """What a command module offers."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments. `--ledger` and `--json` are there already."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code."""


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the argument parser.

    Args:
        command: Prepare this command alone; a hook that ingests loads no other. None: all.
    """
    top = _Parser(
        prog="rightful",
        description="An append-only ledger that gives every agent session its rightful credit, transcript and history.",
        epilog="Exit codes: 0 done, 1 the check said no, 2 wrong usage or invalid input, 3 conflict, 4 storage.",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="say which version this is")
    _add_ledger(top, default=None)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in [command] if command else COMMANDS:
        _add_command(commands, name)
    return top


def _add_ledger(to: argparse.ArgumentParser, default: str | None) -> None:
    to.add_argument(
        "--ledger",
        metavar="PATH",
        default=default,
        help="the ledger; else RIGHTFUL_LEDGER, else the nearest .rightful upwards",
    )


def _add_command(commands: argparse._SubParsersAction[_Parser], name: str) -> None:
    module = importlib.import_module(COMMANDS[name])
    text = module.__doc__ or ""
    sub = commands.add_parser(
        name,
        help=text.partition("\n")[0].rstrip("."),
        description=text,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    _add_ledger(sub, default=argparse.SUPPRESS)
    sub.add_argument("--json", action="store_true", help="print one JSON document instead of text for people")
    sub.add_argument("--verbose", action="store_true", help="log each step on stderr")
    cast("Command", module).arguments(sub)
    sub.set_defaults(run=cast("Command", module).run, parser=sub)


def _named(words: Sequence[str]) -> str | None:
    """Return the command that the words name, when nothing but `--ledger` stands before it."""
    rest = iter(words)
    for word in rest:
        if word == "--ledger":
            next(rest, None)
        elif not word.startswith("--ledger="):
            return word if word in COMMANDS else None
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: The words after the program's name; the process's own if None.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    common.occupy_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a narrow locale must not lose an answer
    gc.disable()  # loading modules makes no garbage, and looking for it costs a hook 3 of its 60 ms
    try:
        return _guarded(lambda: _version() if words == ["--version"] else _run(words))
    finally:
        gc.enable()


def _run(words: Sequence[str]) -> int:
    try:
        args, rest = parser(_named(words)).parse_known_args(words)
        if rest:
            args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    except SystemExit as stopped:  # argparse has said what is wrong, or has shown the help
        return int(stopped.code or 0)
    code: int = args.run(args)
    return code


def _guarded(work: Callable[[], int]) -> int:
    """Do the work and give all of its answer; return the exit code of what goes wrong, having said it."""
    from rightful.errors import RightfulError

    try:
        code = work()
        common.put("", flush=True)
    except RightfulError as error:
        common.complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        common.abandon(sys.stdout)
        return PIPE_CLOSED
    except KeyboardInterrupt:
        common.complain("interrupted; what was acknowledged is written, and sending all again writes nothing twice.")
        return INTERRUPTED
    except MemoryError:
        common.complain("memory ran out; what was acknowledged is written. Ask for less, or raise the limit.")
        return common.STORAGE
    except OSError as error:
        common.complain(
            f"{error.filename or 'the system'}: {error.strerror or error}. Mend it and run the command again."
        )
        return common.STORAGE
    return code


def _version() -> int:
    from importlib.metadata import PackageNotFoundError, version

    try:
        common.say(f"rightful {version('rightful')}")
    except PackageNotFoundError:
        common.say("rightful, run from its source and not installed")
    return 0
