"""What a balance has to do with what stands in the log already."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.importers.bandit_files import ARM, LAST, LEFT_OUT, balances, means, state, write
from tests.importers.conftest import Importer, said

from rightful import limits
from rightful.identity import composite_key
from rightful.ledger import Ledger


def test_a_bandit_that_forgot_is_recognised_by_its_selections(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """gptme_sessions starts fresh where it cannot read a file, and its next save wipes all history."""
    path = tmp_path / "bandit-state.json"
    imported("bandit-state", write(path, state()))

    [report] = imported("bandit-state", write(path, state(arms={}, last_updated="2026-08-02T00:00:00Z")))

    [problem] = report.problems
    assert problem.what == (
        "note: it has fewer selections than the balance opened from this file before: a reset, or an older copy. "
        "Of one source, the balance with the newest time counts"
    )
    assert means(ledger) == {}


def publication(data: bytes, key: str = "1") -> dict[str, Any]:
    return {
        "type": "posterior.published", "producer": "backfill", "key": key, "at": "2026-08-02T00:00:00Z",
        "policy": "0" * 64, "through": 1, "digest": "0" * 64, "target": "b.json",
        "new_sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip


def test_bytes_that_this_ledger_wrote_open_nothing(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", state())
    [receipt] = ledger.append([publication(path.read_bytes())])

    [report] = imported("bandit-state", path)

    assert said(report) == {
        "appended": 0,
        "duplicate": 1,
        "problems": [
            {
                "line": None,
                "what": f"note: this ledger published this state itself (`{receipt.id}`): no balance is opened",
            }
        ],
    }
    assert (report.exit_code, report.repeated, balances(ledger), means(ledger)) == (0, 0, [], {})


@pytest.mark.parametrize("word", ["rollback", "opened"])
def test_a_tools_own_bytes_that_were_put_back_open_a_balance(
    ledger: Ledger, imported: Importer, tmp_path: Path, word: str
) -> None:
    path = write(tmp_path / "b.json", state())
    ledger.append([publication(path.read_bytes()) | {"extra": {word: True}}])

    [report] = imported("bandit-state", path)

    assert said(report) == {"appended": 1, "duplicate": 0, "problems": []}
    assert means(ledger) == {"x": (2.5, 1.5, 2)}


def test_bytes_opened_by_an_earlier_version_are_duplicates(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    """A conflict would take the balance away; and the bytes are the same."""
    path = write(tmp_path / "b.json", state())
    source, sha256 = os.path.realpath(path), hashlib.sha256(path.read_bytes()).hexdigest()
    fewer = {
        "type": "balance.opened", "producer": "bandit-state", "key": composite_key(source, sha256), "at": LAST,
        "source": source, "sha256": sha256, "arms": {"x": {"alpha": 2.5, "beta": 1.5, "n": 2}},
    }  # fmt: skip
    ledger.append([fewer])

    [report] = imported("bandit-state", path)

    assert said(report) == {"appended": 0, "duplicate": 1, "problems": []}
    assert means(ledger) == {"x": (2.5, 1.5, 2)}


def test_other_bytes_under_the_id_of_these_are_a_conflict(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", state())
    source, sha256 = os.path.realpath(path), hashlib.sha256(path.read_bytes()).hexdigest()
    forged = {
        "type": "balance.opened", "producer": "bandit-state", "key": composite_key(source, sha256), "at": LAST,
        "source": source, "sha256": "0" * 64, "arms": {"x": {"alpha": 9, "beta": 1, "n": 9}},
    }  # fmt: skip
    ledger.append([forged])

    [report] = imported("bandit-state", path)

    assert (report.appended, report.conflicts, report.exit_code) == (0, 1, 3)
    assert means(ledger) == {}


def test_other_bytes_than_those_that_were_written_open_their_balance(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = write(tmp_path / "b.json", state())
    ledger.append([publication(path.read_bytes() + b"\n")])

    assert [one.appended for one in imported("bandit-state", path)] == [1]


def test_arms_of_another_balance_get_a_note_that_stays_the_same(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    a = write(tmp_path / "a.json", state(arms={"x": ARM, "y": ARM}))
    b = write(tmp_path / "b.json", state(arms={"x": ARM, "z": ARM}))

    once, again = imported("bandit-state", a, b), imported("bandit-state", a, b)

    what = f"note: arms that are also in the balance of {str(a.resolve())!r}: 1; both count, or {LEFT_OUT}"
    assert [[one.what for one in report.problems] for report in once] == [[], [what]]
    assert [report.problems for report in again] == [report.problems for report in once]
    assert means(ledger)["x"] == (4.0, 2.0, 4)
    assert means(ledger, balances=["*/a.json"])["x"] == (2.5, 1.5, 2)


def test_a_newer_state_of_the_same_file_is_beside_nobody(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    imported("bandit-state", write(path, state()))

    [report] = imported("bandit-state", write(path, state(last_updated="2026-08-02T00:00:00Z")))

    assert said(report) == {"appended": 1, "duplicate": 0, "problems": []}


def test_a_balance_whose_bytes_were_published_is_beside_nobody(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    a, b = write(tmp_path / "a.json", state()), write(tmp_path / "b.json", state(total_sessions=1))
    imported("bandit-state", a)
    ledger.append([publication(a.read_bytes())])

    assert [report.problems for report in imported("bandit-state", b)] == [[]]


def test_many_balances_are_read_page_by_page(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    """What was published stands behind more rows of the same type than one page holds."""
    path = write(tmp_path / "b.json", state())
    ledger.append([publication(b"%d" % at, key=f"{at}") for at in range(limits.PAGE_ROWS)])
    ledger.append([publication(path.read_bytes(), key="ours")])

    [report] = imported("bandit-state", path)

    assert (report.appended, report.duplicate) == (0, 1)
