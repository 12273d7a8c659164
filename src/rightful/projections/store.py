"""Where projections are kept between processes: their own LMDB environment, apart from the log.

Everything in it can be deleted and is rebuilt from the log. Columns are stored in chunks of
`CHUNK_ROWS`; the watermark is written in the same transaction as the columns that it adds to, so a
reader sees both or neither; of a first save it comes last. Each value carries a CRC, and
whatever does not fit (another version, another ledger, a longer log than there is, damage) is
ignored as if nothing were stored. Names and arms are numbered as their pages come, so a save
adds only to the save that was loaded or written before it; any other is replaced whole.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import numpy as np

from rightful import limits
from rightful.errors import StorageError
from rightful.projections.cached_answer import CachedAnswer, from_values, to_values
from rightful.projections.facts.columns import Table
from rightful.projections.facts.facts import (
    Aside,
    Balance,
    Correction,
    Decay,
    Facts,
    IdentityClaim,
    Mention,
    Prune,
    Retirement,
    Start,
)
from rightful.projections.facts.session_names import Names
from rightful.projections.projection_environment import HeldError, UnfitError, delete, make, with_opened
from rightful.storage.environment import store_files

VERSION = 11
"""Version of this form; raised by any change of what is folded or how it is stored."""

CHUNK_ROWS = 65_536

_PART_BYTES = 1 << 24
_SAVE_BYTES = 16

_TABLES = ("shown", "arms_shown", "withheld", "grades", "links", "turns")
_LISTS: dict[str, Any] = {
    "asides": list[Aside],
    "corrected": list[Correction],
    "starts": list[Start],
    "claims": list[IdentityClaim],
    "decayed": list[Decay],
    "pruned": list[Prune],
    "balances": list[Balance],
    "published": list[tuple[int, str]],
    "retired": list[Retirement],
    "taken_back": list[tuple[int, str]],
    "alias_links": list[tuple[int, int]],
    "quarantine": dict[str, dict[int, int]],
    "withdrawn": dict[str, list[tuple[int, int, str, str]]],
    "named": dict[str, dict[int, tuple[int, str]]],
    "unread": dict[str, dict[int, tuple[int, str]]],
    "mentions": dict[int, list[Mention]],
}
_NUMBERINGS: dict[str, Any] = {
    "arms": list[str],
    "contexts": list[tuple[str | None, ...]],
    "graders": list[tuple[str, str]],
    "producers": list[str],
    "outcomes": list[str],
}


class Head(msgspec.Struct, frozen=True):
    """What the stored projection is.

    Attributes:
        version: `VERSION` of the program that wrote it.
        ledger: The ledger's id.
        watermark: The position it has folded.
        anchor: The commitment of the row there, which no other row has.
        save: A new random value for each save; identifies the numbers in the columns.
        rows: How many rows each table has.
        kept: The names of the parts of the answer.
    """

    version: int
    ledger: str
    watermark: int
    anchor: str
    save: str
    rows: dict[str, int]
    kept: list[str]


class Store:
    """The stored projection of one ledger.

    Args:
        folder: Where it is kept; made when something is saved first.
        ledger: The ledger's id, so that a copied folder is not mistaken for that of another ledger.
        writable: Whether anything may be saved.
        entropy: Gives that many random bytes, to tell saves apart.
    """

    def __init__(
        self, folder: Path, ledger: str, *, writable: bool = True, entropy: Callable[[int], bytes] = os.urandom
    ) -> None:
        self.folder = folder
        self.ledger = ledger
        self.writable = writable
        self._entropy = entropy
        self._unfit = False
        self._save = ""  # the one that was loaded or written last
        self._of: Facts | None = None  # the facts whose numbers it has

    def load(self, head: int, anchor: Callable[[int], str]) -> tuple[Facts, CachedAnswer] | None:
        """Return the stored facts and answer, or None where there are none that fit the log.

        Args:
            head: How many rows the log has.
            anchor: Gives the commitment of the row at a position: a log that was restored from a
                backup and went on has another one there.
        """
        self._save, self._of = "", None
        try:
            if not (self.folder / store_files.STORE / store_files.DATA).exists():
                return None
            found, facts, kept = with_opened(self.folder, lambda env: self._load(env, head, anchor), readonly=True)
        except HeldError:
            return None
        except (UnfitError, lmdb.Error, OSError, StorageError, msgspec.DecodeError, ValueError, KeyError):
            self._unfit = True
            return None
        self._save, self._of = found.save, facts
        return facts, kept

    def _load(self, env: lmdb.Environment, head: int, anchor: Callable[[int], str]) -> tuple[Head, Facts, CachedAnswer]:
        with env.begin() as txn:
            found = self._head(txn, head)
            if found.watermark and anchor(found.watermark) != found.anchor:
                raise UnfitError("anchor")
            facts = _read(txn, found)
            return found, facts, from_values({name: _get(txn, f"kept/{name}") for name in found.kept}, facts)

    def watermark(self) -> int:
        """Return the position that is stored; 0 when nothing usable is."""
        try:
            return with_opened(self.folder, self._watermark, readonly=True)
        except (HeldError, UnfitError, lmdb.Error, OSError, StorageError, msgspec.DecodeError):
            return 0

    def _watermark(self, env: lmdb.Environment) -> int:
        with env.begin() as txn:
            return self._head(txn, limits.SEQ_MAX).watermark

    def save(self, facts: Facts, kept: CachedAnswer, anchor: str) -> bool:
        """Store the facts and the answer at their watermark, in one transaction.

        Args:
            facts: The columns.
            kept: The default policy's answer.
            anchor: The commitment of the row at the watermark.

        Returns:
            Whether they are stored. A full disk, a folder that cannot be written or a process that
            holds what is stored leaves it as it was; nothing of the ledger depends on it.
        """
        if not self.writable:
            return False
        try:
            try:
                self._write(facts, kept, anchor)
            except (UnfitError, lmdb.Error, StorageError, msgspec.DecodeError):
                self.delete()
                self._write(facts, kept, anchor)
        except (HeldError, UnfitError, lmdb.Error, OSError, StorageError):
            return False
        return True

    def delete(self) -> None:
        """Remove what is stored. Nothing is lost: it is rebuilt from the log."""
        delete(self.folder)

    def _head(self, txn: lmdb.Transaction[bytes], end: int) -> Head:
        found = msgspec.json.decode(_get(txn, "head"), type=Head)
        if (found.version, found.ledger) != (VERSION, self.ledger) or found.watermark > end:
            raise UnfitError("head")
        return found

    def _write(self, facts: Facts, kept: CachedAnswer, anchor: str) -> None:
        """Write on top of what is stored; what could not be read is removed first."""
        if self._unfit:
            self.delete()
            self._unfit = False
        make(self.folder)
        save = self._entropy(_SAVE_BYTES).hex()
        with_opened(self.folder, lambda env: self._write_to(env, facts, kept, anchor, save), readonly=False)
        self._save, self._of = save, facts

    def _write_to(self, env: lmdb.Environment, facts: Facts, kept: CachedAnswer, anchor: str, save: str) -> None:
        with env.begin() as txn:
            before = Head(VERSION, self.ledger, 0, "", "", {}, [])
            if txn.stat()["entries"]:
                before = self._head(txn, facts.watermark)
                if before.save != self._save or facts is not self._of:
                    raise UnfitError("save")
        if not before.watermark:
            _put_in_parts(env, _values(facts, {}))
        with env.begin(write=True) as txn:
            if before.watermark:
                for key, value in _values(facts, before.rows):
                    _put(txn, key, value)
            values = to_values(kept)
            for name in {*before.kept} - values.keys():
                txn.delete(f"kept/{name}".encode())
            for name, value in values.items():
                _put(txn, f"kept/{name}", value)
            head = Head(VERSION, self.ledger, facts.watermark, anchor, save, _rows(facts), list(values))
            _put(txn, "head", msgspec.json.encode(head))


def _put(txn: lmdb.Transaction[bytes], key: str, value: bytes) -> None:
    txn.put(key.encode(), zlib.crc32(value).to_bytes(4, "big") + value)


def _get(txn: lmdb.Transaction[bytes], key: str) -> bytes:
    stored = txn.get(key.encode())
    if stored is None or zlib.crc32(stored[4:]).to_bytes(4, "big") != stored[:4]:
        raise UnfitError(key)
    return stored[4:]


def _chunks(size: int, unchanged: int = 0) -> Iterator[tuple[int, slice]]:
    """Yield the number and the rows of each chunk, from the first that has new rows."""
    for number in range(unchanged // CHUNK_ROWS, -(-size // CHUNK_ROWS)):
        yield number, slice(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)


def _put_in_parts(env: lmdb.Environment, values: Iterator[tuple[str, bytes]]) -> None:
    """Write the values of a first save in several commits: LMDB keeps uncommitted values in memory.

    There is nothing to lose yet, and a store without a head is never treated as complete.
    """
    for first in values:
        with env.begin(write=True) as txn:
            held = 0
            for key, value in chain([first], values):
                _put(txn, key, value)
                held += len(value)
                if held >= _PART_BYTES:
                    break


def _rows(facts: Facts) -> dict[str, int]:
    return {**{name: len(getattr(facts, name)) for name in _TABLES}, "names": len(facts.names)}


def _values(facts: Facts, before: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """Yield the keys and values of the facts, from the first chunk that has new rows."""
    for name in _TABLES:
        table: Table = getattr(facts, name)
        for column in table.names:
            values = table[column]
            for number, part in _chunks(len(table), before.get(name, 0)):
                yield f"{name}/{column}/{number:08d}", values[part].tobytes()
    for number, part in _chunks(len(facts.names), before.get("names", 0)):
        yield f"names/texts/{number:08d}", msgspec.msgpack.encode(facts.names.texts.between(part.start, part.stop))
    for column in Names.COLUMNS:
        values = facts.names.column(column)
        for number, part in _chunks(len(facts.names)):
            yield f"names/{column}/{number:08d}", values[part].tobytes()
    for name in _NUMBERINGS:
        yield name, msgspec.msgpack.encode(getattr(facts, name).values)
    for name in _LISTS:
        yield name, msgspec.msgpack.encode(getattr(facts, name))
    yield "clock", facts.clock.tobytes()


def _read(txn: lmdb.Transaction[bytes], head: Head) -> Facts:
    facts = Facts()
    for name in _TABLES:
        table: Table = getattr(facts, name)
        size = head.rows[name]
        table.load({column: _column(txn, f"{name}/{column}", table.dtype(column), size) for column in table.names})
    size = head.rows["names"]
    texts: list[str] = []
    for number, _ in _chunks(size):
        texts += msgspec.msgpack.decode(_get(txn, f"names/texts/{number:08d}"), type=list[str])
    if len(texts) != size:
        raise UnfitError("names")
    kinds = {column: facts.names.column(column).dtype for column in Names.COLUMNS}
    facts.names.load(texts, {column: _column(txn, f"names/{column}", kinds[column], size) for column in Names.COLUMNS})
    for name, form in _NUMBERINGS.items():
        getattr(facts, name).load(msgspec.msgpack.decode(_get(txn, name), type=form))
    for name, form in _LISTS.items():
        setattr(facts, name, msgspec.msgpack.decode(_get(txn, name), type=form))
    facts.awaited = set(facts.withdrawn)
    facts.load_clock(_get(txn, "clock"), head.watermark)
    return facts


def _column(txn: lmdb.Transaction[bytes], key: str, dtype: np.dtype[Any], size: int) -> Any:  # noqa: ANN401 - a column
    parts = [np.frombuffer(_get(txn, f"{key}/{number:08d}"), dtype) for number, _ in _chunks(size)]
    column = np.concatenate(parts) if parts else np.empty(0, dtype)
    if len(column) != size:
        raise UnfitError(key)
    return column
