"""Read stored rows by type, without scanning the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful.log.rows import Recorded, checked, found_by, recorded

if TYPE_CHECKING:
    from rightful.log.log import Log


def rows_of(log: Log, *types: str) -> Iterator[Recorded]:
    """Yield the rows of some rare types by ascending position.

    Raises:
        DamagedRowError: A row does not fit its checksum or its commitment.
    """
    query = DCBQuery(items=[DCBQueryItem(types=list(types))])
    for rows in found_by(log.recorder, query):
        for row in checked(rows, log.path):
            yield recorded(row, log.path)
