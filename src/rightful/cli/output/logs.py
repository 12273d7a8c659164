"""The log of a command on stderr: its steps with `--verbose`, and warnings in any case.

One line a step: key and value on a terminal, one JSON object a line elsewhere. structlog is loaded
when a line is written, not before: a hook pays nothing for it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


class Log:
    """The steps of one command.

    Args:
        verbose: Whether to print the steps.
    """

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    def step(self, what: str, **facts: object) -> None:
        """Log a step; the name of each fact ends with its unit."""
        if self._verbose:
            _logger().info(what, **_safe(facts))

    def warning(self, what: str, **facts: object) -> None:
        """Log a problem that loses no data."""
        _logger().warning(what, **_safe(facts))


def of(args: argparse.Namespace) -> Log:
    """Return the log of a command."""
    return Log(verbose=args.verbose)


def _logger() -> Any:  # noqa: ANN401 - structlog builds it
    import structlog

    is_terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer(colors=is_terminal) if is_terminal else structlog.processors.JSONRenderer()
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
    )


def _safe(facts: dict[str, object]) -> dict[str, object]:
    from rightful.cli.output.terminal import safe

    return {name: safe(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
