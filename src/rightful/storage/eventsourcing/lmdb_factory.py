"""LMDB as the store of a ledger and, by name, of any application of the eventsourcing library.

`PERSISTENCE_MODULE=rightful.storage.eventsourcing.lmdb_factory` and `LMDB_PATH=FOLDER` serve a `DCBApplication`
and the views of its projections: events stand in the folder, views in its folder `views`.
The library looks for exactly one factory in this module, for either.
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
    """Makes recorders from environment variables, for applications and for projections."""

    def dcb_recorder(self) -> LMDBRecorder:
        """Return a recorder on the folder's events, made if there are none.

        Raises:
            InfrastructureFactoryError: `LMDB_PATH` is not set.
            StorageError: The store cannot be made or opened.
        """
        recorder = LMDBRecorder(self._folder(), kind="plain", create=True)
        self._made().append(recorder)
        return recorder

    def tracking_recorder(
        self, tracking_recorder_class: type[LMDBTrackingRecorder] | None = None
    ) -> LMDBTrackingRecorder:
        """Return a view on the folder's views, named by its projection.

        Raises:
            InfrastructureFactoryError: `LMDB_PATH` is not set.
            StorageError: The store cannot be made or opened.
        """
        kind = tracking_recorder_class
        if kind is None:
            topic = self.env.get(self.TRACKING_RECORDER_TOPIC)
            kind = resolve_topic(topic) if topic else LMDBTrackingRecorder
        recorder = kind(self._folder() / "views", name=self.env.name or kind.__name__)
        self._made().append(recorder)
        return recorder

    def aggregate_recorder(self, purpose: str = "events") -> NoReturn:
        """Refuse: this is no store of aggregates."""
        self._refuse(f"aggregates ({purpose})")

    def application_recorder(self) -> NoReturn:
        """Refuse: this is no store of an aggregate application."""
        self._refuse("aggregate applications")

    def process_recorder(self) -> NoReturn:
        """Refuse: this is no store of an aggregate application."""
        self._refuse("process applications")

    def close(self) -> None:
        """Close what this factory made."""
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
