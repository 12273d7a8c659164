"""How large a tool's file may be: what is written can be read again, and what stands there can be replaced."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.backfilling import (
    FILE,
    applied,
    books,
    bytes_of,
    plan_of,
    rows,
    taken_back,
    text,
    written,
)

from rightful import limits
from rightful.backfill import target_file as module
from rightful.backfill.publication_status import status
from rightful.errors import TargetChangedError, TargetError


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return written(tmp_path / "state" / "b.json", FILE)


def test_too_large_result_is_refused_before_the_publication(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, size = plan_of(path, target), len(bytes_of(path, target))

    monkeypatch.setattr(limits, "EVENT_BYTES", size - 1)
    with pytest.raises(TargetError, match=f"it would have {size:,} bytes"):
        applied(path, plan)
    with pytest.raises(TargetError, match="it would have"):
        plan_of(path, target)
    assert rows(path, "posterior.published") == rows(path, "balance.opened") == []
    assert target.read_bytes() == text(FILE)

    monkeypatch.setattr(limits, "EVENT_BYTES", size)
    assert applied(path, plan).happened == "written"


def test_file_too_large_for_a_plan_can_be_rolled_back(path: Path, target: Path) -> None:
    applied(path, plan_of(path, target))
    large = target.read_bytes() + b" " * limits.EVENT_BYTES
    target.write_bytes(large)

    with books(path) as found:
        [one] = status(found, str(target))
    assert (one.standing, one.sha256) == ("changed since", hashlib.sha256(large).hexdigest())
    with pytest.raises(TargetError, match="it has more than 16777216 bytes"):
        plan_of(path, target)
    with pytest.raises(TargetChangedError, match="another program wrote it after"):
        taken_back(path, target)
    taken_back(path, target, force=True)

    assert target.read_bytes() == text(FILE)
    assert (path / "backfill" / f"{one.sha256}.bytes").read_bytes() == large
    assert [one.name for one in target.parent.iterdir()] == [target.name]


def test_a_file_of_the_limit_can_be_replaced_and_one_past_it_not(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(text(FILE))

    monkeypatch.setattr(limits, "REPLACED_BYTES", size)
    assert module.read_state(str(target)).data == text(FILE)
    monkeypatch.setattr(limits, "REPLACED_BYTES", size - 1)
    with pytest.raises(TargetError, match=f"it has more than {size - 1} bytes"):
        module.read_state(str(target))
