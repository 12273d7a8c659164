"""Move events from the spool to the ledger, file by file, in parts that fit into one transaction.

The name of a long file contains the number of bytes already written: `<time>-<random>.<bytes>.events.jsonl`,
with a `b` after the number if one of those lines was not valid. So the next drain continues from there, in any
process. If a part is written twice, because another process also drained it or was killed, its events are
`duplicate`.

A file that cannot be read, or whose events make the ledger fail, does not block the other files.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from rightful import content, limits
from rightful.errors import DamagedRowError, InvalidEventError, StorageError
from rightful.importers.sources.text_files import opened
from rightful.integrations.spool.durable_files import read_file, remove_torn
from rightful.integrations.spool.spool_files import ASIDE, EVENTS, INPUT, append, set_aside_file

if TYPE_CHECKING:
    from rightful.integrations.spool.spool_files import Spool, Wire
    from rightful.log.log import Log

_FROM = re.compile(r"\.(?P<at>[0-9]{1,15})(?P<bad>b?)(?=\.events\.jsonl\Z)")


class _File:
    """A spool file that is being drained.

    Attributes:
        path: Its current path.
        is_whole: Whether everything read from it so far is in the ledger.
        given_up: Whether it was set aside, or left for a later drain; nothing more of it is written now.
    """

    def __init__(self, path: str) -> None:
        began = _FROM.search(path)
        self.path = path
        self.start = int(began["at"]) if began else 0
        self.is_whole = not (began and began["bad"])
        self.given_up = False

    def named(self, at: int | None) -> str:
        """Return the file's name after `at` bytes were written, or its original name for None."""
        name = _FROM.sub("", os.path.basename(self.path))
        return name if at is None else f"{name.removesuffix(EVENTS)}.{at}{'' if self.is_whole else 'b'}{EVENTS}"


class _Part(NamedTuple):
    """Consecutive events of a file.

    Attributes:
        file: The file.
        events: The readable events.
        size: The size of their lines; bytes.
        end: The offset in the file after them; None at its end.
        is_whole: Whether every line between them could be read.
    """

    file: _File
    events: list[Wire]
    size: int
    end: int | None
    is_whole: bool


class DrainResult(NamedTuple):
    """The result of a drain.

    Attributes:
        files: The number of files that were written to the ledger and removed.
        aside: The new paths of files that can never be written.
        left: The number of files that remain queued.
    """

    files: int = 0
    aside: tuple[str, ...] = ()
    left: int = 0


def drain(
    spool: Spool,
    log: Log,
    *,
    timeout_s: float,
    max_files: int | None = None,
    max_events: int = limits.SPOOL_COMMAND_EVENTS,
) -> DrainResult:
    """Append the events of the queued files, the oldest first, and remove the files. No file blocks the others.

    Args:
        spool: The spool.
        log: The ledger's log.
        timeout_s: The maximum wait for other writers, for each append; seconds.
        max_files: The maximum number of files; all if None.
        max_events: The number of events after which to stop. The next drain continues with the rest of a file.

    Raises:
        StorageError: The ledger cannot be written. Events that were not written stay in the spool.
    """
    waiting = spool.waiting()
    files = _Drain(log, timeout_s)
    batch: list[_Part] = []
    read = count = size = 0
    for part in _parts_of_all(waiting[:max_files]):
        if batch and (count + len(part.events) > limits.INGEST_EVENTS or size + part.size > limits.INGEST_BYTES):
            files.append(batch)
            batch, count, size = [], 0, 0
            if read >= max_events:
                break
        batch.append(part)
        count, size, read = count + len(part.events), size + part.size, read + len(part.events)
    files.append(batch)
    for folder in spool.folders:
        remove_torn(folder)
        remove_torn(f"{folder}/{ASIDE}")
    return DrainResult(files.removed, tuple(files.aside), len(waiting) - files.removed - len(files.aside))


class _Drain:
    """Appends parts, then removes, renames or sets aside their files."""

    def __init__(self, log: Log, timeout_s: float) -> None:
        self._log = log
        self._timeout_s = timeout_s
        self.removed = 0
        self.aside: list[str] = []

    def append(self, batch: list[_Part]) -> None:
        """Append parts together, or one by one if that fails because of one of them."""
        batch = [part for part in batch if not part.file.given_up]
        events = [event for part in batch for event in part.events]
        try:
            receipts = iter(append(self._log, events, timeout_s=self._timeout_s)) if events else iter(())
        except Exception as error:
            if isinstance(error, StorageError) and not isinstance(error, DamagedRowError):
                raise
            if len(batch) > 1:
                for part in batch:
                    self.append([part])
            else:
                self._give_up(batch[0].file, for_good=not isinstance(error, StorageError | MemoryError))
            return
        for part in batch:
            outcomes = {receipt.outcome for _, receipt in zip(part.events, receipts, strict=False)}
            part.file.is_whole &= part.is_whole and "invalid" not in outcomes
            self._finish_file(part.file, part.end)

    def _finish_file(self, file: _File, end: int | None) -> None:
        with contextlib.suppress(OSError):  # another process removed it
            if end is not None:
                path = f"{os.path.dirname(file.path)}/{file.named(end)}"
                os.rename(file.path, path)
                file.path = path
            elif file.is_whole:
                os.unlink(file.path)
                self.removed += 1
            else:
                self._give_up(file, for_good=True)

    def _give_up(self, file: _File, *, for_good: bool) -> None:
        file.given_up = True
        if for_good:
            with contextlib.suppress(OSError):
                self.aside.append(set_aside_file(file.path, file.named(None)))


def _parts_of_all(paths: list[str]) -> Iterator[_Part]:
    for path in paths:
        with contextlib.suppress(Exception):  # another process drained it, or it is not readable now
            yield from _parts(_File(path))


def _parts(file: _File) -> Iterator[_Part]:
    if file.path.endswith(INPUT):
        events = _of_input(file.path)
        yield _Part(file, events or [], 0, None, events is not None)
        return
    with opened(file.path, follow=False) as found:
        if file.start and not _is_line_start(found.stream, file.start):
            file.start, file.is_whole = 0, True
        found.stream.seek(file.start)
        yield from _of_lines(file, found.stream)


def _is_line_start(stream: BinaryIO, at: int) -> bool:
    stream.seek(at - 1)
    return stream.read(1) == b"\n"


def _of_lines(file: _File, stream: BinaryIO) -> Iterator[_Part]:
    events: list[Wire] = []
    is_whole, size = True, 0
    while line := stream.readline(limits.SPOOL_LINE_BYTES + 1):
        if not line.endswith(b"\n"):
            is_whole = False  # it is incomplete or too long; the rest of the file is set aside with it
            break
        try:
            events.append(content.parse_line(line))
        except InvalidEventError:
            is_whole = False
        size += len(line)
        if len(events) >= limits.INGEST_EVENTS or size >= limits.INGEST_BYTES:
            yield _Part(file, events, size, stream.tell(), is_whole)
            events, size, is_whole = [], 0, True
    yield _Part(file, events, size, None, is_whole)


def _of_input(path: str) -> list[Wire] | None:
    """Return the events of a stored hook input; None if it can never be converted to events.

    Raises:
        OSError: The file is gone, or cannot be read now.
    """
    from rightful.integrations.claude_code import hook_events as claude_hook

    if os.lstat(path).st_size > limits.SPOOL_LINE_BYTES:
        return None
    data = read_file(path, limits.SPOOL_LINE_BYTES)
    try:
        kept = json.loads(data)
        raw = kept["input"].encode("utf-8", "surrogateescape")
        return claude_hook.events_of(claude_hook.input_of(raw), kept["at_us"], kept["nonce"])
    except Exception:  # noqa: BLE001 - any malformed file is kept, and must not block the other files
        return None
