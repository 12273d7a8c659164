"""The command line: one module per command, imported when the command is called.

A command module has a docstring (its first line is the summary, all of it is the help),
`arguments(parser)`, which declares its arguments, and `run(args)`, which runs it and returns the
exit code: 0 or None success, 1 check failed, 2 wrong usage or invalid input, 3 conflict, 4 storage error.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_MODULES = (
    "init", "ingest", "import_", "credit", "hook", "run", "handoff", "posteriors_", "explain", "audit", "policy",
    "backfill", "transcript", "history", "locate", "status", "demo",
)  # fmt: skip

COMMANDS = {module.rstrip("_"): f"rightful.cli.commands.{module}" for module in _MODULES}
"""The module of each command."""

INTERRUPTED = 130  # exit code after Ctrl-C: 128 + the signal number, as in shells
PIPE_CLOSED = 141  # exit code when the reader of stdout has closed the pipe: 128 + SIGPIPE
_HOOK_ACTIONS = ("install", "remove", "status", "run")
_HOOK_AGENT = "claude-code"
_WITH_VALUE = ("--ledger", "--settings", "--scope", "--with", "--without")


def _named(words: Sequence[str]) -> str | None:
    """Return the command in the arguments, if only `--ledger` precedes it."""
    rest = iter(words)
    for word in rest:
        if word == "--ledger":
            next(rest, None)
        elif not word.startswith("--ledger="):
            return word if word in COMMANDS else None
    return None


def _hook_call(words: Sequence[str]) -> dict[str, str] | None:
    """Return the options and agents of a hook call, with the options' values; None for other commands.

    A hook that passes unknown arguments must not block its agent (exit code 2 of a PreToolUse hook blocks the tool).
    """
    if "hook" not in words or "run" not in words:
        return None
    options, named = {}, []
    rest = iter(words)
    for word in rest:
        name, is_whole, value = word.partition("=")
        if name in _WITH_VALUE:
            options[name] = value if is_whole else next(rest, "")
        elif word.startswith("-"):
            options[word] = ""
        else:
            named.append(word)
    commands = [word for word in named if word in COMMANDS]
    if commands[:1] != ["hook"]:
        return None
    after = named[named.index("hook") + 1 :]
    actions = [word for word in after if word in _HOOK_ACTIONS]
    if actions[:1] != ["run"]:
        return None
    if {"-h", "--help"} & set(options) and sys.stdin is not None and sys.stdin.isatty():
        return None  # a person at a terminal asks for help
    agents = after[after.index("run") + 1 :] or [_HOOK_AGENT]
    return options | dict.fromkeys(agents, "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: The arguments after the program's name; those of the process if None.
    """
    alone = argv is None
    if alone:
        atexit.register(_ignore_interrupts)  # the answer is complete by then; an interrupt would only print a traceback
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if (options := _hook_call(words)) is not None:
            return _answer_hook(options, alone=alone)
        return _main(words, alone=alone)
    except KeyboardInterrupt:  # before `_guarded`: modules are being imported
        return _interrupted(alone=alone)


def _main(words: Sequence[str], *, alone: bool) -> int:
    from rightful.cli.output import terminal

    terminal.fill_closed_streams()
    if alone:
        terminal.buffer_stdout()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a narrow locale must not lose an answer
    gc.disable()  # importing makes no garbage, and collecting costs a hook 3 of its 60 ms
    try:
        return _guarded(words, alone=alone)
    finally:
        gc.enable()


def _interrupted(*, alone: bool) -> int:
    """Report Ctrl-C. A second one, which is often sent along, must not cut the message off."""
    if alone:
        _ignore_interrupts()
    eval("0")  # noqa: S307 - CPython forgets that one stopped an `exec` of text (namedtuple's), and so would end by it
    from rightful.cli.output import terminal

    terminal.warn_stderr(
        "interrupted. Acknowledged events are written; running the command again repeats none of them."
    )
    return INTERRUPTED


def _ignore_interrupts() -> None:
    # The C module below `signal`, whose import takes half a millisecond in each process.
    import _signal  # type: ignore[import-not-found]

    with contextlib.suppress(ValueError):  # not the main thread, which no signal reaches
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)


def _answer_hook(options: dict[str, str], *, alone: bool) -> int:
    """Handle a call by an agent's hook; one of an unknown agent does nothing.

    Signals are ignored during the import: the input could not be kept yet.
    """
    if _HOOK_AGENT not in options:
        return 0
    if alone:
        import signal  # loaded where it is needed: it takes half a millisecond

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    from rightful.cli.commands import hook_call

    return hook_call.answer(options.get("--ledger"), verbose="--verbose" in options, alone=alone)


def _run(words: Sequence[str]) -> int:
    from rightful.cli.support import parsing

    command = _named(words)
    modules = {command: COMMANDS[command]} if command else COMMANDS  # only the named command is imported
    try:
        args, rest = parsing.parser(modules).parse_known_args(words)
        if rest and not _accepted(args, rest, words):
            args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    except SystemExit as stopped:  # argparse has printed the error or the help
        return int(stopped.code or 0)
    return args.run(args) or 0


def _accepted(args: argparse.Namespace, rest: Sequence[str], words: Sequence[str]) -> bool:
    """Accept words that are left over as the command's PATHs or its FILE; return whether that was possible.

    argparse ends optional positionals at the first option after another positional: in `import auto --again PATH`
    it leaves PATH over (https://github.com/python/cpython/issues/59317).
    """
    if any(word.startswith("-") and word != "-" for word in rest):
        return False
    paths = getattr(args, "paths", None)
    if isinstance(paths, list):
        paths += rest
        return True
    if len(rest) == 1 and getattr(args, "file", None) == "-" and words.count("-") == rest.count("-"):
        args.file = rest[0]
        return True
    return False


def _guarded(words: Sequence[str], *, alone: bool) -> int:
    """Run a command and flush its answer. Print an error, if there is one, and return its exit code."""
    from rightful.cli.output import terminal
    from rightful.errors import RightfulError

    try:
        code = _version() if words == ["--version"] else _run(words)
        terminal.write_stdout("", flush=True)
    except RightfulError as error:
        terminal.warn_stderr(str(error))
        return error.exit_code
    except BrokenPipeError:
        terminal.detach(sys.stdout)
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return _interrupted(alone=alone)
    except MemoryError:
        terminal.warn_stderr("out of memory. Acknowledged events are written. Request less, or raise the memory limit.")
        return terminal.STORAGE
    except OSError as error:
        terminal.warn_stderr(
            f"{error.filename or 'the system'}: {error.strerror or error}. Fix it and run the command again."
        )
        return terminal.STORAGE
    return code


def _version() -> int:
    from importlib.metadata import PackageNotFoundError, version

    from rightful.cli.output import terminal

    try:
        terminal.print_stdout(f"rightful {version('rightful')}")
    except PackageNotFoundError:
        terminal.print_stdout("rightful, run from its source and not installed")
    return 0
