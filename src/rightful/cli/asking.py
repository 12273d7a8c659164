"""What every command that asks the projections shares: policy, position, time of decay, progress."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightful import content
from rightful.cli import common, logs
from rightful.errors import PolicyError, ReadOnlyStoreError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from rightful.app import Ledger
    from rightful.cli.logs import Log

_WHOLE_FROM = 1_000

PROGRESS_ROWS = 50_000
"""Rows to fold from which on a person is shown how far it is."""


def add_position(parser: argparse.ArgumentParser) -> None:
    """Declare `--as-of` and `--decay-at`."""
    parser.add_argument("--as-of", metavar="POSITION|TIME", help="only what was recorded up to it; default all")
    parser.add_argument("--decay-at", metavar="TIME", help="the time of a decay; default the latest event's")


def policy_named(asked: str) -> str | Mapping[str, Any]:
    """Return the policy that a person means: a preset's name, a JSON object, or a file that holds one.

    Raises:
        PolicyError: It is a file that cannot be read or holds no object.
    """
    if asked.lstrip().startswith("{"):
        return _object(asked.encode("utf-8", "surrogateescape"), "it")
    path = Path(asked)
    if path.suffix == ".json" or "/" in asked:
        try:
            return _object(path.read_bytes(), str(path))
        except OSError as error:
            raise PolicyError(f"{path} cannot be read ({error.strerror})") from None
    return asked


def _object(text: bytes, where: str) -> Mapping[str, Any]:
    found = content.parse_json(text)
    if not isinstance(found, dict):
        raise PolicyError(f"{where} holds no JSON object")
    return found


def as_of(args: argparse.Namespace) -> int | str | None:
    """Return the position or time that `--as-of` gives."""
    given: str | None = args.as_of
    return int(given) if given is not None and given.isdecimal() else given


@contextmanager
def folded(args: argparse.Namespace) -> Iterator[Ledger]:
    """Open the ledger and bring its projections up to date, with progress on long work."""
    try:
        ledger = common.opened(args)
    except ReadOnlyStoreError:
        ledger = common.opened(args, readonly=True)
    with ledger:
        log = logs.of(args)
        behind, began = ledger.projected().behind(), time.monotonic()
        _catch_up(ledger)
        log.step("folded", rows=behind, took_s=round(time.monotonic() - began, 3))
        yield ledger
        _save(ledger, log)


def _save(ledger: Ledger, log: Log) -> None:
    """Keep the projection for the next time; nothing depends on it."""
    watermark = ledger.projected().facts.watermark
    match ledger.projected().save():
        case True:
            log.step("saved", watermark=watermark)
        case False:
            log.warning("the projection was not saved; the next command folds again", folder=str(ledger.path))
        case None:
            pass


def _catch_up(ledger: Ledger) -> None:
    projected = ledger.projected()
    missing = projected.behind()
    if missing < PROGRESS_ROWS:
        projected.catch_up()
        return
    from rightful.cli import tables

    with tables.progress("folding", missing, "rows") as advance:
        done = projected.facts.watermark

        def told(position: int, _: int) -> None:
            nonlocal done
            advance(position - done)
            done = position

        projected.catch_up(told)


def number(value: float) -> str:
    """Return a number for people: three significant digits, whole from 1,000 on."""
    return f"{value:.3g}" if abs(value) < _WHOLE_FROM else f"{value:,.0f}"


def fixed(value: float) -> str:
    """Return a mean, a rate or a distance for people: three decimals."""
    return f"{value:.3f}"


def refuse_unknown_time(text: str | None) -> None:
    """Refuse an empty time, which would mean the default.

    Raises:
        UsageError: It is empty.
    """
    if text is not None and not text.strip():
        raise UsageError("an empty time was given; write it as 2026-08-01T10:15:00Z or leave the option out")
