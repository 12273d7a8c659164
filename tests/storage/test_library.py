from __future__ import annotations

from pathlib import Path

import pytest
from eventsourcing.dcb.tests import DCBRecorderTestCase

from rightful.storage.recorder import LMDBRecorder


class _Library(DCBRecorderTestCase):
    """The library's own suite has helpers only; these are called below."""


@pytest.fixture
def recorder(tmp_path: Path) -> LMDBRecorder:
    return LMDBRecorder(tmp_path / "store", kind="plain", create=True)


def test_it_passes_the_librarys_append_and_read(recorder: LMDBRecorder) -> None:
    with recorder:
        _Library()._test_append_read(recorder)


def test_it_passes_the_librarys_append_and_subscribe(recorder: LMDBRecorder) -> None:
    with recorder:
        _Library()._test_append_subscribe(recorder)
