"""The command by which an agent calls us: what `install` writes, and how it is recognised."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence

_ENV = "/usr/bin/env"
_PATHS = "PYTHONPATH="
_OURS = ["hook", "run", "claude-code", "--ledger"]
_BEHIND = " || true"
_CALLS_US = re.compile(r"\brightful\b.*\bhook\b.*\brun\b", re.DOTALL)


def program() -> list[str]:
    """Return how to start this program from anywhere: its own script, else this Python with this source.

    The agent calls it in the project's folder. No file of the project may be run in the place of a
    module: so no PYTHONPATH of the agent's is taken over, in which an empty part means that folder, and
    `-m` goes with `-P`.
    """
    import rightful

    source = os.path.dirname(os.path.dirname(os.path.abspath(str(rightful.__file__))))
    beside = os.path.join(os.path.dirname(sys.executable), "rightful")
    for script in (sys.argv[0], beside):
        if os.path.basename(script) == "rightful" and os.path.isfile(script) and os.access(script, os.X_OK):
            named = [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
            return [_ENV, f"{_PATHS}{source if source in named else ''}", os.path.abspath(script)]
    return [_ENV, f"{_PATHS}{source}", sys.executable, "-P", "-m", "rightful"]


def command_of(program: Sequence[str], ledger: str) -> str:
    """Return the command that is written: safe for a shell, absolute, and never a failure of the agent's."""
    return f"{shlex.join([*program, *_OURS, ledger])}{_BEHIND}"


def words_of(command: object) -> list[str] | None:
    """Return the words of a command that `command_of` wrote; None of any other, be it one with something added."""
    if not isinstance(command, str) or not command.endswith(_BEHIND):
        return None
    text = command.removesuffix(_BEHIND)
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    ours = words[-len(_OURS) - 1 : -1] == _OURS and _is_program(words[: -len(_OURS) - 1])
    return words if ours and shlex.join(words) == text else None


def _is_program(words: list[str]) -> bool:
    """Return whether these words may start us: those of `program`, or of an earlier version."""
    with_paths = len(words) > 1 and words[0] == _ENV and words[1].startswith(_PATHS)
    match words[2:] if with_paths else words:
        case [script]:
            return script.startswith("/") and os.path.basename(script) == "rightful"
        case [python, "-P", "-m", "rightful"] | [python, "-m", "rightful"]:
            return with_paths and python.startswith("/")
        case _:
            return False


def calls_us(command: object) -> bool:
    """Return whether a command that `install` did not write seems to call the hook."""
    return isinstance(command, str) and words_of(command) is None and _CALLS_US.search(command) is not None


def ledger_of(command: str) -> str | None:
    """Return the ledger that a command of ours names."""
    words = words_of(command)
    return words[-1] if words else None


def programs_of(command: str) -> list[str]:
    """Return the files that a command of ours starts: the program, and what starts it."""
    words = words_of(command) or []
    return [word for word in words[: -len(_OURS) - 1] if word.startswith("/")]
