"""The tool manifests of gptme: two small files per tool call, in the folder of `--manifest-dir`.

| file | becomes |
|---|---|
| `<id>-<sequence>-<tool>-pre.json` | `tool_call.snapshotted`: its arguments are only a hash, which is in `extra` |
| `<id>-<sequence>-<tool>-post.json` | `tool_result.snapshotted`, likewise; a call that failed has none |

(gptme's hooks/manifest.py.) Each record has its own hash and that of the previous record. A record whose hash does not
match its content was modified. If a record's chain does not lead back to a first record, an earlier record is missing
or was modified. Both are problems that name the file, and the record is not imported. The chain is followed through
the files of the folder.

The id is `GPTME_SESSION_ID`, a label that is reused: the next session of that name begins at 1 and overwrites files.
So the session is `workspace:<id>@<time of the first record of the chain>`, and a record's key is its hash: another
record under the same file name is another fact. The remaining records of an older session have lost their beginning,
so their session is unknown. If gptme knows no id, it generates one (`anon-` and eight digits), which names no session.

The `result_hash` of a tool without a result is the hash of an empty text; it is stored unchanged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from rightful import content, limits, times
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import Origin, Reader, Wire
from rightful.importers.engine.loop import STDIN
from rightful.importers.shared.foreign_fields import key_of, moment_us, session_of, shaped
from rightful.importers.sources.text_files import Found, Problem, opened

PRODUCER = "gptme-manifest"
"""The producer of the events."""

NAMESPACE = "workspace"
"""The namespace of the sessions, as in the session records of a workspace."""

_MADE_UP = re.compile(r"anon-[0-9a-f]{8}\Z")
_TAKEN = frozenset({"session_id", "tool", "timestamp"})
_MARKS = frozenset({"session_id", "sequence", "phase", "prev_hash", "hash"})


class _Record(msgspec.Struct):
    session_id: str
    sequence: int
    tool: str
    timestamp: str
    phase: Literal["pre", "post"]
    hash: str
    prev_hash: str | None


class _Link(NamedTuple):
    """A record in the chain.

    Attributes:
        session_id: Its session id.
        previous: The hash of the previous record.
        timestamp: Its time, as written.
        value: The whole record.
    """

    session_id: str
    previous: str | None
    timestamp: str
    value: Mapping[str, Any]


class GptmeManifest:
    """The kind `manifest`."""

    NAME = "manifest"

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._chain: dict[str, _Link] = {}

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a record of a manifest."""
        return value.keys() >= _MARKS

    def reader(self, origin: Origin) -> Reader:
        """Return the reader of one file.

        Raises:
            InvalidEventError: It is standard input, which has no folder.
        """
        if origin.path == STDIN:
            raise InvalidEventError(
                "Expected a file: the session of a record is known only from the other records in its folder"
            )
        folder = Path(origin.path).parent
        return _ManifestReader(lambda record: self._records_of(folder, record))

    def _records_of(self, folder: Path, record: str) -> Mapping[str, _Link]:
        """Return the records of a folder by their hashes; read the folder again if this record is new."""
        if self._folder != folder or record not in self._chain:
            self._folder, self._chain = folder, dict(_links(folder))
        return self._chain


class _ManifestReader(Reader):
    """Reads one record.

    Args:
        chain_of: Returns the records of its folder by their hashes, including the record with the given hash.
    """

    def __init__(self, chain_of: Callable[[str], Mapping[str, _Link]]) -> None:
        self._chain_of = chain_of
        self._chain: Mapping[str, _Link] = {}

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the call or the result of a record; before a result its call, since `post` is read before `pre`.

        Raises:
            InvalidEventError: It is not a record, it was modified, or its session is unknown.
        """
        record: _Record = shaped(found.value, _Record)
        self._chain = self._chain_of(record.hash)
        if record.phase == "post" and (before := self._chain.get(record.prev_hash or "")) is not None:
            with suppress(InvalidEventError):  # its own import reports the problem
                if before.value["phase"] == "pre":
                    yield self._event(shaped(before.value, _Record), before.value)
        yield self._event(record, found.value)

    def _event(self, record: _Record, value: Mapping[str, Any]) -> Wire:
        at_us, _ = moment_us(record.timestamp, "$.timestamp")
        check_hash(value, record.hash, "hash")
        if _MADE_UP.match(record.session_id):
            what = (
                f"Expected a session id, got {record.session_id!r}: gptme generates such an id if it knows no session"
            )
            raise InvalidEventError(f"{what}, so it does not identify a session", "$.session_id")
        began = self._began(record)
        moment_us(began, "$.timestamp")
        kind = "tool_call.snapshotted" if record.phase == "pre" else "tool_result.snapshotted"
        return {
            "type": kind,
            "producer": PRODUCER,
            "key": key_of(record.session_id, record.hash),
            "session": session_of(NAMESPACE, record.session_id, "$.session_id", suffix=f"@{began}"),
            "at": times.text_of(at_us),
            "call": f"{record.sequence:04d}-{record.tool}",
            "complete": True,
            "extra": {name: item for name, item in value.items() if name not in _TAKEN},
        } | ({"name": record.tool} if record.phase == "pre" else {})

    def _began(self, record: _Record) -> str:
        """Return the time of the first record of the chain, as written."""
        link = _Link(record.session_id, record.prev_hash, record.timestamp, {})
        for _ in range(len(self._chain) + 1):
            if link.previous is None:
                return link.timestamp
            before = self._chain.get(link.previous)
            if before is None or before.session_id != record.session_id:
                what = f"the chain is broken: no record of {record.session_id!r} here has the hash {link.previous}"
                raise InvalidEventError(f"{what}, so the session is unknown", "$.prev_hash")
            link = before
        raise InvalidEventError("the chain is broken: it has a cycle", "$.prev_hash")


def check_hash(value: Mapping[str, Any], said: str, name: str) -> None:
    """Check that a record was not modified.

    Args:
        value: The record.
        said: Its stored hash.
        name: The field of the hash.

    Raises:
        InvalidEventError: The stored hash does not match the content.
    """
    computed = hash_of(value, without=name)
    if computed != said:
        what = f"Expected the hash of its content ({computed}), got {said[:80]}: it was modified after it was written"
        raise InvalidEventError(what, f"$.{name}")


def hash_of(value: Mapping[str, Any], *, without: str) -> str:
    """Return the hash of a record as gptme computes it, over all fields except that of the hash."""
    payload = {name: item for name, item in value.items() if name != without}
    return f"sha256:{hashlib.sha256(json.dumps(payload, sort_keys=True, default=str).encode()).hexdigest()}"


def _links(folder: Path) -> Iterator[tuple[str, _Link]]:
    """Yield the records of a folder. Other files are skipped; their own import reports them."""
    for path in sorted(folder.glob("*.json")):
        try:
            with opened(str(path), follow=False) as file:
                data = file.stream.read(limits.BESIDE_BYTES + 1)
            if len(data) > limits.BESIDE_BYTES:
                continue
            value = content.parse_json(data.decode("utf-8", "surrogateescape"))
            record = msgspec.convert(value, _Record)
        except (OSError, InvalidEventError, msgspec.ValidationError, UnicodeEncodeError):  # the last: a lone surrogate
            continue
        yield record.hash, _Link(record.session_id, record.prev_hash, record.timestamp, value)
