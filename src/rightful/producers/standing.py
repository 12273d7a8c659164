"""What stands in the log already, found by its type without a look at the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful import limits
from rightful.ledger.recorded import Recorded, checked, recorded
from rightful.recorders.port import Row

if TYPE_CHECKING:
    from rightful.ledger.log import Log


def rows_of(log: Log, *types: str) -> Iterator[Recorded]:
    """Yield the rows of some types by ascending position; for types of which there are few.

    Raises:
        DamagedRowError: A row does not fit its checksum or its commitment.
    """
    query = DCBQuery(items=[DCBQueryItem(types=list(types))])
    after = 0
    while True:
        found = list(log.recorder.read(query, after=after, limit=limits.PAGE_ROWS))
        for one in found:
            row = Row(one.position, one.event.data, getattr(one.event, "payload", None))
            yield recorded(checked(row, log.path), log.path)
        if len(found) < limits.PAGE_ROWS:
            return
        after = found[-1].position
