from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rightful import ledger as app
from rightful.ledger import Ledger
from rightful.projections.credit.linked_names import same_run


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with app.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def asked(ledger: Ledger, one: str, other: str) -> bool | None:
    return same_run(ledger.projected().catch_up(), one, other)


def link(ledger: Ledger, session: str, other: str) -> None:
    ledger.producer("p").link(session, other, as_="native", evidence="native-id")


def test_names_that_links_join_are_of_one_run(ledger: Ledger) -> None:
    link(ledger, "run:a", "codex:x")

    assert asked(ledger, "run:a", "codex:x") is True
    assert asked(ledger, "codex:x", "run:a") is True
    assert asked(ledger, "run:new", "run:new") is True


def test_a_name_that_is_joined_to_another_run_is_of_that_one(ledger: Ledger) -> None:
    link(ledger, "run:a", "codex:x")
    link(ledger, "run:b", "codex:y")

    assert asked(ledger, "run:a", "codex:y") is False
    assert asked(ledger, "run:never-seen", "codex:y") is False


def test_a_name_in_no_link_proves_nothing(ledger: Ledger) -> None:
    link(ledger, "run:a", "codex:x")
    ledger.producer("p").started("codex:alone")

    assert asked(ledger, "run:a", "codex:alone") is None
    assert asked(ledger, "run:a", "codex:never-seen") is None


def test_an_ambiguous_name_proves_nothing(ledger: Ledger) -> None:
    link(ledger, "run:a", "codex:x")
    link(ledger, "run:b", "codex:x")

    assert asked(ledger, "run:a", "codex:x") is None
    assert asked(ledger, "run:never-seen", "codex:x") is None
