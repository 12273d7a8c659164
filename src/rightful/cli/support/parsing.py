"""Parse the command line with argparse, and format help as wide as the terminal.

Kept apart from `cli`, so that a hook's call, whose words are always the same, does not load it.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, Protocol, cast

from rightful.cli.output import terminal

_UNKNOWN = re.compile(r"invalid choice: '(?P<choice>[^']+)'|unrecognized arguments: (?P<option>--?[^\s=]+)")
_PIPED_COLUMNS = 100  # the width of help that is piped


class _Help(argparse.HelpFormatter):
    """Help as wide as the terminal, a description's paragraphs kept apart.

    argparse creates a formatter for each argument, and its own imports shutil to find the width.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=(terminal.columns(sys.stdout) or _PIPED_COLUMNS) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(super(_Help, self)._fill_text(part, width, indent) for part in text.split("\n\n"))


class _Parser(argparse.ArgumentParser):
    """A parser whose help is an answer like any other: old Pythons raise where new ones stay silent."""

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ANN401 - as in argparse
        if file is sys.stdout and message:
            terminal.write_stdout(message)
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Print the error on one line, whatever an argument contains, and exit."""
        super().error(terminal.safe(f"{message}{_nearest(message, self)}"))


def _nearest(message: str, of: argparse.ArgumentParser) -> str:
    """Return a suggestion for an unknown word, as the rest of a sentence; empty if none is near."""
    if (hit := _UNKNOWN.search(message)) is None or "maybe you meant" in message:
        return ""
    from difflib import get_close_matches  # only who mistypes waits for it

    word = hit["choice"] or hit["option"]
    able = [known for known in _words(of) if known.startswith("-") == word.startswith("-")]
    if word in able:
        return f"; write it after `{of.prog}`"  # such as `rightful --json status`
    near = get_close_matches(word, able, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _words(of: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options and the choices of a parser, and the options of those below it."""
    for action in of._actions:  # noqa: SLF001 - argparse tells it nowhere else
        yield from action.option_strings
        yield from (str(choice) for choice in action.choices or ())
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for below in action.choices.values():
                yield from (word for word in _words(below) if word.startswith("-"))


class Command(Protocol):
    """What a command module offers."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments. `--ledger` and `--json` are there already."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code."""


def parser(modules: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of these commands, given the name of each one's module."""
    top = _Parser(
        prog="rightful",
        description="An append-only ledger that gives every agent session its rightful credit, transcript and history.",
        epilog="Exit codes: 0 success, 1 check failed, 2 wrong usage or invalid input, 3 conflict, 4 storage error.",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    _add_ledger(top, default=None)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in modules.items():
        _add_command(commands, name, module)
    return top


def add_subcommands(
    parser: argparse.ArgumentParser, texts: Mapping[str, str]
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Declare what a command can do, and yield each with its own parser.

    Args:
        parser: The command's parser.
        texts: What each does, by its word.
    """
    found = parser.add_subparsers(dest="what", metavar="WHAT", required=True, help=", ".join(texts))
    for name, text in texts.items():
        command = found.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.",
            formatter_class=parser.formatter_class, allow_abbrev=False,
        )  # fmt: skip
        _add_common(command, default=argparse.SUPPRESS)  # they may follow WHAT as well as precede it
        yield name, command


def _add_common(to: argparse.ArgumentParser, **default: Any) -> None:  # noqa: ANN401 - as `add_argument`
    _add_ledger(to, default=argparse.SUPPRESS)
    to.add_argument("--json", action="store_true", help="print one JSON document instead of text", **default)
    to.add_argument("--verbose", action="store_true", help="log each step to stderr", **default)


def _add_ledger(to: argparse.ArgumentParser, default: str | None) -> None:
    to.add_argument(
        "--ledger",
        metavar="PATH",
        default=default,
        help="ledger folder (default: RIGHTFUL_LEDGER, else the nearest .rightful upwards)",
    )


def _add_command(commands: argparse._SubParsersAction[_Parser], name: str, module_name: str) -> None:
    module = importlib.import_module(module_name)
    text = module.__doc__ or ""
    sub = commands.add_parser(
        name,
        help=text.partition("\n")[0].rstrip("."),
        description=text,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    _add_common(sub)
    cast("Command", module).arguments(sub)
    sub.set_defaults(run=cast("Command", module).run, parser=sub)
