"""The action receipts of gptme: one line before each tool call, in `receipts.jsonl`.

The plugin gptme-action-receipts of gptme-contrib (hooks/receipt_hook.py) appends `session_id`,
`model`, `action_type`, `target` (the first 512 characters), `workspace`, `timestamp` and
`receipt_hash`. A line becomes `tool_call.snapshotted`: its name is the action's type, its arguments
are target and workspace. Nothing says how the call ended.

Its time has whole seconds, so the same action twice in one second has the same hash, but is two actions. The key is
the hash and how often it occurred in the file in the hour before. A copy of a line much later in the file is the same
action.

The hash is SHA-256 of the other fields as JSON with sorted keys. A line whose hash does not match was modified or
damaged; that is a problem, and the line is not imported.

The id is a label that is reused, and the file has many sessions. So the session is
`workspace:<id>@<time of its first receipt>`, and a label without a receipt for a day begins another one. The plugin
writes `unknown` if it knows no session; that is not a session id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful import times
from rightful.importers.engine.formats import APPENDED, GrowingKind, GrowingReader, Origin, Wire
from rightful.importers.gptme_records.manifest import NAMESPACE, check_hash
from rightful.importers.shared.foreign_fields import key_of, moment_us, session_of, shaped
from rightful.importers.sources.text_files import Found, Problem

PRODUCER = "gptme-receipts"
"""The producer of the receipts."""

_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
_MARKS = frozenset({"action_type", "receipt_hash"})
_TAKEN = frozenset({"session_id", "action_type", "target", "workspace", "timestamp"})


class _Receipt(msgspec.Struct):
    session_id: str
    action_type: str
    timestamp: str
    receipt_hash: str
    target: str | None = None
    workspace: str | None = None


class _Label(msgspec.Struct):
    """A session label in use.

    Attributes:
        began: The time of its first receipt, as written.
        last_us: The time of its last one; microseconds since 1970.
    """

    began: str
    last_us: int


class _RecentReceipt(msgspec.Struct):
    """A receipt of the last hour: its hash, its time in microseconds since 1970, and how often it occurred."""

    mark: str
    at_us: int
    count: int = 0


class GptmeReceipts(GrowingKind):
    """The kind `receipts`."""

    NAME = "receipts"
    GROWS = APPENDED

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a receipt."""
        return value.keys() >= _MARKS

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file."""
        del origin
        return ReceiptsReader()


class ReceiptsReader(GrowingReader):
    """Reads one file; stores the labels of the last day and the receipts of the last hour."""

    def __init__(self) -> None:
        self._labels: dict[str, _Label] = {}
        self._seen: dict[str, _RecentReceipt] = {}
        self._latest_us = 0

    def state(self) -> dict[str, Any]:
        """Return the labels in use and the receipts of the last hour."""
        labels = {
            name: [label.began, label.last_us]
            for name, label in self._labels.items()
            if self._latest_us - label.last_us < _DAY_US
        }
        seen = [[receipt.mark, receipt.at_us, receipt.count] for receipt in self._seen.values()]
        return {"labels": labels, "seen": seen, "latest_us": self._latest_us}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue after the last receipt."""
        self._labels = {name: _Label(*fields) for name, fields in state["labels"].items()}
        self._seen = {fields[0]: _RecentReceipt(*fields) for fields in state["seen"]}
        self._latest_us = state["latest_us"]

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the call of one receipt.

        Raises:
            InvalidEventError: It is not a receipt, it was modified, or it names no session.
        """
        receipt: _Receipt = shaped(found.value, _Receipt)
        at_us, _ = moment_us(receipt.timestamp, "$.timestamp")
        check_hash(found.value, receipt.receipt_hash, "receipt_hash")
        label = self._label(receipt, at_us)
        session = session_of(NAMESPACE, receipt.session_id, "$.session_id", suffix=f"@{label.began}")
        occurrence = self._occurrence(receipt.receipt_hash, at_us)
        extra = {name: item for name, item in found.value.items() if name not in _TAKEN}
        yield {
            "type": "tool_call.snapshotted",
            "producer": PRODUCER,
            "key": key_of(receipt.session_id, receipt.receipt_hash, occurrence),
            "session": session,
            "at": times.text_of(at_us),
            "call": f"{receipt.receipt_hash}.{occurrence}",
            "name": receipt.action_type,
            "arguments": {"target": receipt.target, "workspace": receipt.workspace},
            "complete": True,
            "extra": extra,
        }

    def _label(self, receipt: _Receipt, at_us: int) -> _Label:
        label = self._labels.get(receipt.session_id)
        if label is None or at_us - label.last_us >= _DAY_US:
            label = self._labels[receipt.session_id] = _Label(receipt.timestamp, at_us)
        label.last_us = max(label.last_us, at_us)
        return label

    def _occurrence(self, mark: str, at_us: int) -> int:
        """Return how often a receipt occurred in the last hour, including this one; forget older receipts."""
        self._latest_us = max(self._latest_us, at_us)
        while self._seen and self._latest_us - (oldest := next(iter(self._seen.values()))).at_us > _HOUR_US:
            del self._seen[oldest.mark]
        seen = self._seen.setdefault(mark, _RecentReceipt(mark, at_us))
        seen.count += 1
        return seen.count
