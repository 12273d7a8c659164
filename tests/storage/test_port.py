from __future__ import annotations

from eventsourcing.dcb.api import DCBEvent

from rightful.storage.port import LedgerEvent


def test_a_row_is_compared_by_all_that_it_holds_as_its_base_is() -> None:
    row = LedgerEvent("t", b"d", ["a"], b"p")

    assert row == LedgerEvent(type="t", data=b"d", tags=["a"], payload=b"p")
    for other in (
        LedgerEvent("u", b"d", ["a"], b"p"),
        LedgerEvent("t", b"e", ["a"], b"p"),
        LedgerEvent("t", b"d", ["b"], b"p"),
        LedgerEvent("t", b"d", ["a"], b"q"),
        LedgerEvent("t", b"d", ["a"]),
        DCBEvent("t", b"d", ["a"]),
    ):
        assert row != other
    assert LedgerEvent("t", b"d").tags == []
    assert repr(row) == "LedgerEvent(type='t', data=b'd', tags=['a'], payload=b'p')"
