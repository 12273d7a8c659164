"""LMDB as the store of a ledger and, by name, of any application of the eventsourcing library.

`PERSISTENCE_MODULE=rightful.storage.eventsourcing.lmdb_factory` and `LMDB_PATH=FOLDER` serve a `DCBApplication`
and the views of its projections: events are stored in the folder, views in its subfolder `views`.
The library requires exactly one factory in this module, so this one serves both.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import eventsourcing.dcb.persistence as _dcb
import eventsourcing.persistence as _library
from eventsourcing.utils import resolve_topic

from rightful.storage.eventsourcing.tracking import LMDBTrackingRecorder, ViewState
from rightful.storage.recorder import LMDBRecorder

__all__ = ["LMDBFactory", "LMDBRecorder", "LMDBTrackingRecorder", "ViewState"]

LMDB_PATH = "LMDB_PATH"
"""The environment variable that names the folder."""


class LMDBFactory(
    _dcb.DCBInfrastructureFactory[LMDBTrackingRecorder], _library.InfrastructureFactory[LMDBTrackingRecorder]
):
    """Creates recorders from environment variables, for applications and for projections."""

    def dcb_recorder(self) -> LMDBRecorder:
        """Return a recorder on the folder's events; create the store if it does not exist.

        Raises:
            InfrastructureFactoryError: `LMDB_PATH` is not set.
            StorageError: The store cannot be created or opened.
        """
        recorder = LMDBRecorder(self._folder(), kind="plain", create=True)
        self._made().append(recorder)
        return recorder

    def tracking_recorder(
        self, tracking_recorder_class: type[LMDBTrackingRecorder] | None = None
    ) -> LMDBTrackingRecorder:
        """Return a recorder for the view of a projection, stored under the projection's name.

        Raises:
            InfrastructureFactoryError: `LMDB_PATH` is not set.
            StorageError: The store cannot be created or opened.
        """
        kind = tracking_recorder_class
        if kind is None:
            topic = self.env.get(self.TRACKING_RECORDER_TOPIC)
            kind = resolve_topic(topic) if topic else LMDBTrackingRecorder
        recorder = kind(self._folder() / "views", name=self.env.name or kind.__name__)
        self._made().append(recorder)
        return recorder

    def aggregate_recorder(self, purpose: str = "events") -> NoReturn:
        """Not supported: this store does not hold aggregates."""
        self._refuse(f"aggregates ({purpose})")

    def application_recorder(self) -> NoReturn:
        """Not supported: this store does not hold an aggregate application."""
        self._refuse("aggregate applications")

    def process_recorder(self) -> NoReturn:
        """Not supported: this store does not hold an aggregate application."""
        self._refuse("process applications")

    def close(self) -> None:
        """Close every recorder that this factory created."""
        made = self._made()
        while made:
            made.pop().close()

    def _made(self) -> list[LMDBRecorder | LMDBTrackingRecorder]:
        made: list[LMDBRecorder | LMDBTrackingRecorder] = self.__dict__.setdefault("_recorders", [])
        return made

    def _folder(self) -> Path:
        folder = self.env.get(LMDB_PATH)
        if not folder:
            msg = f"{LMDB_PATH} is not set; set it to the folder of the store"
            raise _library.InfrastructureFactoryError(msg)
        return Path(folder)

    def _refuse(self, what: str) -> NoReturn:
        msg = f"{__name__} stores DCB events and views, not {what}; use `eventsourcing.sqlite` for these"
        raise _library.NotSupportedError(msg)
