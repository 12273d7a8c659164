"""A plan is applied whole or not at all: what was edited in it never reaches the ledger or the file."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.backfilling import (
    GIT,
    OLD,
    TESTS,
    applied,
    arm,
    ledger_with,
    plan_of,
    rows,
    state,
    taken_back,
    text,
    written,
)
from tests.projections.telling import exposed, graded, opened
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill import target_file as module
from rightful.backfill.plan_document import VERSION, ArmChange, Plan, difference, plan_from
from rightful.errors import RightfulError, StorageError, TargetChangedError, UsageError
from rightful.policies import policy_of

FILE = state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 2))
ZEROS = "0" * 64


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return written(tmp_path / "state" / "b.json", FILE)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ({"asked": ZEROS}, "asked"),
        ({"policy": policy_of({"balances": ["/ws/b.json"]})}, "policy"),
        ({"policy_hash": ZEROS}, "policy_hash"),
        ({"decay_at": "2020-01-01T00:00:00.000000Z"}, "decay_at"),
        ({"decay_at": None}, "decay_at"),
        ({"asked_decay_at": "2020-01-01T00:00:00Z"}, "decay_at"),
        ({"asked_as_of": 2}, "through"),
        ({"digest": ZEROS}, "digest"),
        ({"new_sha256": ZEROS}, "new_sha256"),
        ({"asked_old": "rebuilt"}, "policy"),
        ({"old": "rebuilt"}, "old"),
        ({"opens": None}, "opens"),
        ({"opens": str(uuid.UUID(int=7))}, "opens"),
        ({"counts": False}, "counts"),
        ({"updated": True}, "updated"),
        ({"refusals": ("nothing",), "forced": True}, "refusals"),
        ({"grades": 99}, "grades"),
        ({"in_balance": 2}, "in_balance"),
        ({"uncredited": {}}, "uncredited"),
        ({"changes": ()}, "changes"),
        ({"changes": (ArmChange(TESTS, None, (9.0, 1.0), 0.4, 1),)}, "changes"),
        ({"unchanged": 7}, "unchanged"),
    ],
)
def test_edited_plan_is_refused_with_its_first_differing_field(
    tmp_path: Path, target: Path, edit: dict[str, Any], named: str
) -> None:
    path = ledger_with(tmp_path)
    with rightful.open(path) as ledger:
        ledger.append([graded("t:nobody", 1.0, at=13 * 3600)])
    plan = plan_of(path, target, force=True)
    forced = msgspec.structs.replace(plan, **edit)

    with pytest.raises(
        TargetChangedError, match=f"or the plan was edited: `{named}` differs. Nothing was written. Plan"
    ):
        applied(path, forced)

    assert target.read_bytes() == text(FILE)
    assert rows(path, "posterior.published") == rows(path, "balance.opened") == []
    assert applied(path, plan).happened == "written"


@pytest.mark.parametrize("edit", [{"asked_old": "kept"}, {"asked_decay_at": "no time"}, {"asked_as_of": "no time"}])
def test_a_plan_that_nobody_could_have_asked_for_is_refused(path: Path, target: Path, edit: dict[str, Any]) -> None:
    with pytest.raises(RightfulError):
        applied(path, msgspec.structs.replace(plan_of(path, target), **edit))

    assert rows(path, "posterior.published") == rows(path, "balance.opened") == []


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"old": "rebuilt", "force": True},
        {"policy": {"decay": {"mode": "time", "half_life": 3600}}, "decay_at": "1970-01-02T00:00:00Z"},
        {"policy": {"balances": []}},
        {"as_of": 2},
        {"as_of": "2999-01-01T00:00:00Z"},
    ],
)
def test_plan_from_its_document_applies_after_further_appends(path: Path, target: Path, asked: dict[str, Any]) -> None:
    """Later rows are not in it, a balance of another file among them."""
    plan = plan_from(plan_of(path, target, **asked).document(), "p")
    with rightful.open(path) as ledger:
        ledger.append([opened(at=50), graded("t:a", 1.0, at=13 * 3600, seq=2)])

    done = applied(path, plan)

    assert done.sha256 == plan.new_sha256
    [published] = rows(path, "posterior.published")
    assert (published.digest, published.policy, published.extra["asked"]) == (plan.digest, plan.policy_hash, plan.asked)


def test_every_field_but_the_notes_counts_in_a_difference(path: Path, target: Path) -> None:
    plan = plan_of(path, target)

    for name in Plan.__struct_fields__:
        changed = msgspec.structs.replace(plan, **{name: "another"})
        assert difference(plan, changed) == (None if name == "notes" else name)


def test_a_plan_of_another_program_version_says_so_and_what_to_do(path: Path, target: Path) -> None:
    document = msgspec.json.decode(plan_of(path, target).document())
    older = {name: value for name, value in document.items() if not name.startswith("asked_")} | {"version": 1}

    assert VERSION == 2
    for one in (older, document | {"version": 3}):
        with pytest.raises(
            UsageError, match=r"p is a plan of another program version; nothing was written. Plan again"
        ):
            plan_from(msgspec.json.encode(one), "p")


@pytest.mark.parametrize("old", ["counted", "rebuilt", "kept"])
@pytest.mark.parametrize("imported", [False, True])
def test_published_plan_without_its_write_still_recomputes(
    path: Path, target: Path, old: str, imported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own opening and what it retires stand in the ledger by then."""
    applied(path, plan_of(path, target))
    Bandit(target).update([OLD], 1.0, "1970-01-01T14:00:00+00:00")
    if imported:
        applied(path, plan_of(path, target, force=True))
        taken_back(path, target)
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=15 * 3600), graded("t:c", 1.0, at=15 * 3600 + 1)])
    plan = plan_of(path, target, old=old, force=True)

    def fail(*_: Any) -> None:
        raise OSError(28, "full")

    with monkeypatch.context() as patch:
        patch.setattr(module, "place", fail)
        with pytest.raises(StorageError):
            applied(path, plan)

    assert applied(path, plan).happened == "written"
    assert hashlib.sha256(target.read_bytes()).hexdigest() == plan.new_sha256
