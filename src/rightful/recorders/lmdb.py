"""The import path of version 0.1, kept for one version: use `rightful.storage.eventsourcing.lmdb_factory`."""

from rightful.storage.eventsourcing.lmdb_factory import LMDBFactory, LMDBRecorder, LMDBTrackingRecorder, ViewState

__all__ = ["LMDBFactory", "LMDBRecorder", "LMDBTrackingRecorder", "ViewState"]
