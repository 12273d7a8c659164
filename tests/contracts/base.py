"""What each part of the suite uses: events, queries, and a recorder that closes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBQueryItem
from tests.contracts.support import (
    Place,
)

from rightful import limits
from rightful.storage.port import LedgerRecorder

LONG = "x" * limits.TAG_KEY_BYTES


def event(data: str = "data", kind: str = "type", tags: tuple[str, ...] = ()) -> DCBEvent:
    return DCBEvent(type=kind, data=data.encode(), tags=list(tags))


def query(*items: tuple[tuple[str, ...], tuple[str, ...]]) -> DCBQuery:
    return DCBQuery(items=[DCBQueryItem(types=list(types), tags=list(tags)) for types, tags in items])


def tagged(*tags: str) -> DCBQuery:
    return query(((), tags))


def found(recorder: LedgerRecorder, wanted: DCBQuery | None = None, **options: Any) -> list[int]:
    return [each.position for each in recorder.read(wanted, **options)]


class Opened:
    """Gives each test a recorder on its `place`, which the class of a recorder gives."""

    @pytest.fixture
    def recorder(self, place: Place) -> Iterator[LedgerRecorder]:
        recorder = place.open()
        yield recorder
        recorder.close()
