from __future__ import annotations

import pytest

from rightful import limits
from rightful.storage.tables.store_tables import pack_position, pack_positions, unpack_position, word_key

LMDB_KEY_BYTES = 511


@pytest.mark.parametrize("word", ["a", "Ω", "x" * limits.TAG_KEY_BYTES])
def test_a_word_within_the_limit_is_its_own_key(word: str) -> None:
    assert word_key(word) == word.encode()


@pytest.mark.parametrize("word", ["", "x" * (limits.TAG_KEY_BYTES + 1), "Ω" * limits.TAG_KEY_BYTES])
def test_a_word_beyond_the_limit_has_a_key_that_no_text_has(word: str) -> None:
    key = word_key(word)

    assert 0 < len(key) <= LMDB_KEY_BYTES
    with pytest.raises(UnicodeDecodeError):
        key.decode()


def test_long_words_with_one_beginning_have_keys_of_their_own() -> None:
    long = "x" * limits.TAG_KEY_BYTES
    assert len({word_key(long + end) for end in ("", "a", "b", "aa")}) == 4


def test_keys_of_positions_stand_in_their_order() -> None:
    positions = [1, 255, 256, 65_535, 65_536, 2**63]
    keys = [pack_position(position) for position in positions]

    assert keys == sorted(keys)
    assert [unpack_position(key) for key in keys] == positions
    assert pack_positions(254, 4) == [pack_position(position) for position in range(254, 258)]
    assert pack_positions(1, 0) == []
