"""A token names the commitment of its last row: rows lost to a power cut or a restored backup make it stale."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rightful
from rightful.errors import StaleTokenError
from rightful.ledger import Ledger
from rightful.tokens import Token

S = "t:chat"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with rightful.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def read_then_lose(folder: Path, *, lost: str = S) -> str:
    """Return a token over a row that is lost afterwards: the folder is put back to what it was before that row."""
    with rightful.open(folder / "ledger", create=True) as ledger:
        ledger.extend(S, ["a"])
    shutil.copytree(folder / "ledger", folder / "before")
    with rightful.open(folder / "ledger") as ledger:
        ledger.extend(lost, ["lost"])
        text = ledger.history(S).token.text()
    shutil.rmtree(folder / "ledger")
    shutil.move(folder / "before", folder / "ledger")
    return text


@pytest.mark.parametrize("lost", [S, "t:other"])
def test_token_over_a_lost_row_compacts_nothing_that_came_in_its_place(tmp_path: Path, lost: str) -> None:
    """Row C6: the item at the lost row's position left the view, though no summary was made of it."""
    text = read_then_lose(tmp_path, lost=lost)
    with rightful.open(tmp_path / "ledger") as ledger:
        ledger.extend(S, ["b"])

        with pytest.raises(StaleTokenError) as caught:
            ledger.compact(Token.of(text), ["summary"])

        assert (caught.value.token_position, caught.value.changed_at) == (2, None)
        assert ledger.history(S).items == ["a", "b"]
        assert ledger.log.head() == 2


def test_token_over_a_row_that_is_there_compacts(tmp_path: Path) -> None:
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        ledger.extend(S, ["a"])
        ledger.extend("t:other", ["x"])
        text = ledger.history(S).token.text()
        ledger.extend(S, ["b"])
    with rightful.open(tmp_path / "ledger") as ledger:
        ledger.compact(Token.of(text), ["summary"])

        assert ledger.history(S).items == ["summary", "b"]


def test_token_of_version_1_is_taken_without_that_check(ledger: Ledger) -> None:
    ledger.extend(S, ["a"])
    first = f'{{"session":"{S}","position":1,"ledger":"{ledger.id}"}}'

    assert ledger.compact(Token.of(first), ["summary"]).outcome == "appended"


def test_same_read_as_version_1_and_2_derives_one_event_id(ledger: Ledger) -> None:
    ledger.extend(S, ["a"])
    token = ledger.history(S).token
    first = Token.of(token.key())

    receipts = [ledger.compact(of, ["summary"]) for of in (first, token)]

    assert [receipt.outcome for receipt in receipts] == ["appended", "duplicate"]
    assert receipts[0].id == receipts[1].id


def test_every_view_of_a_ledger_names_the_row_it_ends_with(ledger: Ledger) -> None:
    def expected() -> Any:
        return next(iter(ledger.log.scan()))[-1].envelope.commitment

    assert ledger.history(S).token.commitment == ""  # position 0 has none
    ledger.extend(S, ["a"])
    assert ledger.history(S).token.commitment == expected()
    ledger.extend("t:other", ["b"])
    ready = ledger.histories().ready(S, fold_recent=True)
    assert ready is None or ready.token.commitment == expected()
    assert ledger.history(S).token.commitment == expected()
    assert ledger.fork(S, "t:branch").commitment == expected()
