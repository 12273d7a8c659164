"""A turn that fails where it begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contracts.base import event, found

from rightful.encoding.merkle import Frontier
from rightful.errors import ForeignStoreError
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.store_tables import Tables


@pytest.mark.parametrize("before", [0, 2], ids=["the first turn", "a later turn"])
def test_a_tree_that_does_not_fit_is_named_and_takes_no_row_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        recorder.append([event()])
    with LMDBRecorder(tmp_path / "s", kind="plain") as recorder:
        for _ in range(before):
            recorder.append([event()])
        if before:
            assert recorder._store is not None
            journal = recorder._store.env.journal
            journal._tree = journal._tree[:-1] + b"?"

        def refused(*_: object, **__: object) -> Frontier:
            raise ForeignStoreError(str(tmp_path), "its root does not fit its frontier")

        with monkeypatch.context() as patch:
            patch.setattr(Tables, "frontier", refused)
            with pytest.raises(ForeignStoreError, match="root does not fit"):
                recorder.append([event()])
        assert found(recorder) == list(range(1, recorder.head() + 1)) == list(range(1, 2 + before))
