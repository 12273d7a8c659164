"""What is kept between processes is the answer that would be computed."""

from __future__ import annotations

from pathlib import Path

from tests.projections.telling import exposed, graded, linked

import rightful

LOG = [
    exposed("cc:a", "x", at=10),
    exposed("cc:b", "y", at=20),
    linked("ws:a", "cc:a"),
    graded("ws:a", 0.8, at=30),
    graded("cc:b", 0.2, at=31),
]


def test_an_audit_goes_on_from_the_kept_runs_and_credits(tmp_path: Path) -> None:
    """The newest-file rule needs to know that `ws:a` and `cc:a` are one run."""
    with rightful.open(tmp_path / "ledger", create=True) as first:
        first.append(LOG)
        before = first.audit("historical-newest")

    with rightful.open(tmp_path / "ledger") as again:
        audit = again.audit("historical-newest")

    assert audit.as_dict() == before.as_dict()
    assert (audit.foreign_grades, audit.unverifiable_grades) == (1, 0)
