"""Session facts in the lines of Claude Code: working folder, model, usage, and end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rightful import limits
from rightful.importers.claude_code.claude_blocks import SYNTHETIC, Line
from rightful.importers.claude_code.claude_files import NAMESPACE
from rightful.importers.engine.formats import Wire
from rightful.importers.shared.record_parts import numbers

_BESIDE = (("version", "version"), ("claude_code_version", "version"), ("gitBranch", "git_branch"))


class Facts:
    """The facts of a session's start, collected line by line.

    Attributes:
        told: The known facts.
    """

    def __init__(self, told: Wire | None = None) -> None:
        self.told = dict(told or {})

    @property
    def are_whole(self) -> bool:
        """Whether all facts are known."""
        return self.told.keys() >= {"cwd", "model"}

    def learn(self, value: Mapping[str, Any], resumed: list[str]) -> Wire | None:
        """Return all known facts if a line adds one; None if it adds nothing.

        Args:
            value: The line.
            resumed: The ids of other sessions with earlier lines in the file; the last one is the parent.
        """
        message = value.get("message")
        model = message.get("model") if isinstance(message, dict) else value.get("model")
        more = {
            name: said
            for name, said in (("cwd", value.get("cwd")), ("model", model))
            if name not in self.told and isinstance(said, str) and said and said != SYNTHETIC
        }
        if not more:
            return None
        extra = {name: value[said] for said, name in _BESIDE if isinstance(value.get(said), str) and value[said]}
        if resumed and "resumes" not in self.told.get("extra", {}):
            extra["resumes"] = f"{NAMESPACE}:{resumed[-1]}"
            if len(resumed) > 1:
                extra["ancestors"] = [f"{NAMESPACE}:{raw}" for raw in resumed]
        self.told = self.told | more
        if extra := extra | self.told.get("extra", {}):
            self.told["extra"] = extra
        return dict(self.told)


def described(value: Mapping[str, Any]) -> Wire:
    """Return the facts of a subagent's start from its description."""
    model = value.get("model")
    told = {"model": model} if isinstance(model, str) and model else {}
    return told | {"extra": {name: item for name, item in value.items() if name not in told}}


def usage_of(line: Line, message: Mapping[str, Any]) -> Wire | None:
    """Return the usage of an answer so far; None if the line has no valid usage.

    Args:
        line: One of its lines.
        message: Its message. A stream log prints it before the answer's usage is known.
    """
    usage, of, model = message.get("usage"), message.get("id"), message.get("model")
    if not isinstance(usage, dict) or not isinstance(of, str) or not 0 < len(of) <= limits.WORD_CHARS:
        return None
    stopped = message.get("stop_reason")
    if model == SYNTHETIC or (line.is_of_log and stopped is None):
        return None
    counts, rest = _counted(usage)
    said = {"model": model, "stop_reason": stopped} | rest
    extra = {name: item for name, item in said.items() if item is not None}
    return line.event("usage.recorded", "usage", of=of, counts=counts, **({"extra": extra} if extra else {}))


def _counted(usage: Mapping[str, Any]) -> tuple[Wire, Wire]:
    """Return the numbers of a usage, and its other fields."""
    counts = numbers(usage)
    return counts, {name: item for name, item in usage.items() if name not in counts}


def result_of(line: Line) -> Iterator[Wire]:
    """Yield the events of a `result` line of a stream log: the run's end, its usage, and its error."""
    value = line.value
    turns = value.get("num_turns")
    stated = {"type", "uuid", "session_id", "sessionId", "num_turns", "usage", "result", "timestamp"}
    extra = {name: item for name, item in value.items() if name not in stated}
    fields: Wire = {"turns": turns} if type(turns) is int and 0 <= turns <= limits.SEQ_MAX else {}
    usage = value.get("usage")
    if isinstance(usage, dict):
        counts, rest = _counted(usage)
        yield line.event(
            "usage.recorded", "usage", counts=counts, cumulative=True, extra={**rest, "stretch": line.ident}
        )
    if value.get("is_error") is True or str(value.get("subtype", "")).startswith("error"):
        said = value.get("result")
        message = said if isinstance(said, str) and said else value.get("subtype")
        yield line.event("error.recorded", "error", message=message if isinstance(message, str) else None)
    yield line.event("session.ended", "ended", **fields, extra=extra)


def error_of(line: Line) -> Wire:
    """Return the error of an API request that Claude Code retries."""
    error = line.value.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    content = line.value.get("content")
    text = next((said for said in (message, content) if isinstance(said, str) and said), None)
    extra = {
        name: line.value[name] for name in ("error", "retryAttempt", "maxRetries", "retryInMs") if name in line.value
    }
    return line.event("error.recorded", "error", message=text, **({"extra": extra} if extra else {}))
