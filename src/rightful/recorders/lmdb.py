"""LMDB as the store of a ledger and, by name, of any application of the eventsourcing library."""

from __future__ import annotations

from rightful.recorders.recorder import LMDBRecorder

__all__ = ["LMDBRecorder"]
