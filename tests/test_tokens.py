"""Tokens are written down and read again, and what is none is refused."""

from __future__ import annotations

from typing import Any

import pytest

from rightful.errors import UsageError
from rightful.tokens import Token, Wrote

ID = "21bc1535-d2f3-5772-9530-84462c5d1cbc"


def test_a_token_that_was_written_down_is_the_same() -> None:
    token = Token("t:a", 7, "l", limit=3, wrote=(Wrote(ID, 2),), without=("k", 1))

    assert Token.of(token.text()) == token
    assert token.text() == (
        f'{{"session":"t:a","position":7,"ledger":"l","limit":3,"wrote":[["{ID}",2]],"without":["k",1]}}'
    )


def test_version_2_names_the_commitment_and_version_1_is_still_read() -> None:
    token = Token("t:a", 7, "l", commitment="ab" * 32)
    first = '{"session":"t:a","position":7,"ledger":"l"}'

    assert token.text() == f'{{"session":"t:a","position":7,"ledger":"l","commitment":"{"ab" * 32}","v":2}}'
    assert Token.of(token.text()) == token
    assert (Token.of(first).commitment, Token.of(first).v) == ("", 1)
    assert token.key() == first == Token.of(first).key()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "{}",
        '{"session":"a","position":1}',
        '{"session":"t:a","position":-1}',
        '{"session":"t:a","position":1,"x":1}',
        '{"session":"t:a","position":1,"v":0}',
        '{"session":"t:a","position":1,"x":' + "[" * 100_000,
        "\ud800",
        None,
        7,
    ],
)
def test_what_is_no_token_is_refused_in_one_sentence(text: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Token.of(text)

    assert str(caught.value) == (
        "Invalid token. Pass the text that `Token.text()` returned, or read the history again to get one."
    )


def test_a_token_of_a_newer_version_is_refused() -> None:
    for more in ("", ',"new":1', ',"wrote":{}'):
        with pytest.raises(UsageError, match=r"This token has version 3, newer than this program\. Upgrade"):
            Token.of(f'{{"session":"t:a","position":1,"v":3{more}}}')
