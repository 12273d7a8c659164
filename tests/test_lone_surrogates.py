"""A lone surrogate where a thing of another shape was expected is refused like any other wrong value."""

from __future__ import annotations

import pytest

from rightful.errors import PolicyError, UsageError
from rightful.histories.covered_items import stored_names
from rightful.importers.bandits.bandit_documents import _count
from rightful.importers.gptme.conversation_events import _model_of
from rightful.policies import _checked


def test_a_lone_surrogate_is_no_policy() -> None:
    with pytest.raises(PolicyError, match="it contains a lone surrogate"):
        _checked({"decay": "\ud800"})


def test_a_lone_surrogate_is_no_item_of_a_history() -> None:
    with pytest.raises(UsageError, match="Invalid item names"):
        stored_names(["\ud800"])


def test_a_message_whose_metadata_is_a_lone_surrogate_names_no_model() -> None:
    assert _model_of({"metadata": "\ud800"}) is None


def test_a_lone_surrogate_is_no_count() -> None:
    assert _count("\ud800") is None
