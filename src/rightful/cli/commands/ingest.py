"""Append events from JSON lines, one event per line.

Each line is an event in wire form. An invalid line is reported with its line number and column; the other
lines are stored. Ingesting the same lines again writes nothing: each stored event is reported as
`duplicate`. With --json, one receipt per line is printed, in order.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rightful import content, limits
from rightful.cli.output import logs, terminal
from rightful.cli.support import ledger_choice
from rightful.cli.support.input_lines import Line, batches
from rightful.errors import InvalidEventError, StorageError, UsageError
from rightful.log.rows import Receipt

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rightful.ledger import Ledger

_CODES = {"invalid": terminal.INVALID, "conflict": terminal.CONFLICT}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="file of JSON lines; `-` for stdin (default: -)"
    )


def run(args: argparse.Namespace) -> int:
    """Append all lines, up to a thousand per transaction, and print the receipts."""
    with ledger_choice.open_ledger(args) as ledger, _file(args.file) as file:
        answer, log = _Answer(whole=args.json), logs.of(args)
        try:
            for batch in batches(file):
                _ingest(ledger, batch, answer)
                log.step("committed", lines=len(batch), head=ledger.log.head())
        finally:
            answer.close()
    if answer.broken is not None:
        raise answer.broken
    return terminal.highest_code(_CODES.get(outcome, terminal.DONE) for outcome in answer.counts)


@contextlib.contextmanager
def _file(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield terminal.stdin_bytes()
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below, while an error of opening is ours to word
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}; nothing was written. Name another file.") from None
    with file:
        yield file


def _ingest(ledger: Ledger, batch: list[Line], answer: _Answer) -> None:
    parsed = [_parsed(line) for line in batch]
    receipts = iter(ledger.append([event for event in parsed if not isinstance(event, Receipt)]))
    for line, event in zip(batch, parsed, strict=True):
        answer.add(line.number, event if isinstance(event, Receipt) else next(receipts))
    answer.flush()


def _parsed(line: Line) -> Any:  # noqa: ANN401 - any JSON value, or the receipt of a bad line
    if line.text is None:
        return Receipt(None, "invalid", None, None, f"Expected a line of at most {limits.EVENT_BYTES} bytes - at `$`")
    try:
        return content.parse_line(line.text)
    except InvalidEventError as error:
        return Receipt(None, "invalid", None, None, str(error).replace(", line 1 column ", ", column "))


class _Answer:
    """Counts receipts, warns about invalid lines, and prints each receipt if requested.

    Events are stored even after the reader of the answer has gone.

    Attributes:
        counts: How many receipts there were of each outcome.
        broken: Set once the answer cannot be given any more.
    """

    def __init__(self, *, whole: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._whole = whole
        self.broken: BrokenPipeError | StorageError | None = None
        if whole:
            self._print('{"receipts":[')

    def add(self, number: int, receipt: Receipt) -> None:
        """Add the receipt of a line."""
        document: dict[str, Any] = receipt._asdict()
        if receipt.reason is None:
            del document["reason"]
        if receipt.outcome in _CODES:
            document["line"] = number
            terminal.warn_stderr(f"line {number}: {terminal.problem_of(receipt)}")
        separator = "," if self.counts else ""
        self.counts[receipt.outcome] += 1
        if self._whole:
            self._print(separator + terminal.json_text(document))

    def flush(self) -> None:
        """Flush the answers: the reader may be waiting for them."""
        self._print("", flush=True)

    def close(self) -> None:
        """End the answer."""
        if self._whole:
            self._print(f'],"counts":{terminal.json_text(dict(self.counts))}}}\n', flush=True)
        else:
            self._print(f"{terminal.counts_text(self.counts)}.\n", flush=True)

    def _print(self, text: str, *, flush: bool = False) -> None:
        if self.broken is not None:
            return
        try:
            terminal.write_stdout(text, flush=flush)
        except (BrokenPipeError, StorageError) as error:
            self.broken = error
