"""Texts by number: a dict's answers without its memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples

from rightful.projections.facts import text_table as module
from rightful.projections.facts.text_table import Texts


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.text(), unique=True), st.text(), st.integers(1, 4))
def test_it_answers_as_a_dict_of_numbers_does(known: list[str], other: str, recent: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECENT_TEXTS", recent)
        texts = Texts(known)

        assert [texts.find(text) for text in known] == list(range(len(known)))
        assert texts.find(other) == (known.index(other) if other in known else None)

    assert list(texts) == texts.between(0) == known
    assert texts.between(0, 2) == known[:2]
    assert [texts[number] for number in range(len(known))] == known


def test_the_newest_are_kept_at_hand_and_no_more_than_the_limit() -> None:
    texts = Texts(f"t:{number}" for number in range(module.RECENT_TEXTS + 1))

    assert len(texts.recent) == 1
    assert texts.find("t:0") == 0
    assert len(texts.recent) == 2


def test_it_grows_past_its_first_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECENT_TEXTS", 100)
    texts = Texts(f"t:{number}" for number in range(3_000))

    assert [texts.find(f"t:{number}") for number in (0, 1, 511, 512, 1_023, 2_999, 3_000)] == [
        0, 1, 511, 512, 1_023, 2_999, None,
    ]  # fmt: skip
