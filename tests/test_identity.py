from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import identity, limits
from rightful.errors import InvalidEventError
from rightful.identity import NAMESPACE, canonical_id, composite_key, event_id, is_session, sanitised

# Golden: a producer in another language computes the same.
IDS = [
    ("claude-code-hook", '["7fbe4341","prompt",1]', "f52332eb-feab-51fb-a00d-00340a9b5b6d"),
    ("judge", "a", "cdf07612-c488-5634-a76e-493675e7fee4"),
    ("hook", "größer/文字 \U0001f600", "0baaeb01-13da-58c5-b7c1-38b5ae661c14"),
    ("a/b:c@d._-", " ", "c7c8352e-add1-5c45-b456-6763641ea58e"),
]


def test_the_namespace_is_for_ever() -> None:
    assert str(NAMESPACE) == "6f755e93-65bf-5c91-8aee-d0333c05205d"
    assert uuid.uuid5(uuid.NAMESPACE_DNS, "rightful.events") == NAMESPACE


@pytest.mark.parametrize(("producer", "key", "expected"), IDS, ids=[producer for producer, _, _ in IDS])
def test_ids_are_those_that_other_languages_compute(producer: str, key: str, expected: str) -> None:
    assert event_id(producer, key) == expected


@given(
    st.from_regex(identity.PRODUCER), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=50)
)
def test_an_id_is_the_standard_uuid5_of_producer_newline_key(producer: str, key: str) -> None:
    assert event_id(producer, key) == str(uuid.uuid5(NAMESPACE, f"{producer}\n{key}"))


def test_producer_and_key_do_not_run_into_each_other() -> None:
    assert event_id("ab", "c") != event_id("a", "bc")


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("", "Expected `key` of length >= 1"),
        ("a\nb", "Expected `key` without control characters"),
        ("\x00", "Expected `key` without control characters"),
        ("\x85", "Expected `key` without control characters"),
        ("\x7f", "Expected `key` without control characters"),
        ("\ud800", "Expected `key` without lone surrogates"),
    ],
    ids=repr,
)
def test_a_key_that_no_other_language_would_hash_alike_is_refused(key: str, what: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        event_id("p", key)
    assert (caught.value.what, caught.value.place) == (what, "$.key")


def test_key_may_reach_the_limit_in_bytes_and_not_exceed_it() -> None:
    longest = "é" * (limits.KEY_BYTES // 2)

    assert event_id("p", longest) == str(uuid.uuid5(NAMESPACE, f"p\n{longest}"))
    with pytest.raises(InvalidEventError, match="Expected `key` of at most 4096 bytes"):
        event_id("p", longest + "a")


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (("a", 1, None), '["a",1,null]'),
        ((), "[]"),
        (('a"b\\', "é文"), '["a\\"b\\\\","é文"]'),
        (("a,b",), '["a,b"]'),
        (("\n",), '["\\n"]'),
    ],
    ids=str,
)
def test_a_key_of_several_parts_is_their_compact_json(parts: tuple[str | int | None, ...], key: str) -> None:
    assert composite_key(*parts) == key


PART = st.none() | st.integers(-(2**63), 2**63) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(st.lists(PART, max_size=4), st.lists(PART, max_size=4))
def test_different_parts_never_give_the_same_key(one: list[str | int | None], other: list[str | int | None]) -> None:
    assert (composite_key(*one) == composite_key(*other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        "F52332EB-FEAB-51FB-A00D-00340A9B5B6D",
        "f52332ebfeab51fba00d00340a9b5b6d",
        "{f52332eb-feab-51fb-a00d-00340a9b5b6d}",
        "urn:uuid:f52332eb-feab-51fb-a00d-00340a9b5b6d",
    ],
)
def test_every_spelling_of_a_uuid_is_one_id(text: str) -> None:
    assert canonical_id(text) == "f52332eb-feab-51fb-a00d-00340a9b5b6d"


@pytest.mark.parametrize(
    "text", ["", "x", "f52332eb-feab-51fb-a00d-00340a9b5b6", "g52332eb-feab-51fb-a00d-00340a9b5b6d"]
)
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(InvalidEventError, match="Expected `uuid`") as caught:
        canonical_id(text)
    assert caught.value.place == "$.id"


# -- session names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["t:a", "workspace:41c2@2026-08-01T10:15:00Z", "claude-code:7fbe4341", "a.b_c-d:x y/z:w", "gptme:größer", "t: "],
)
def test_session_is_a_namespace_and_a_value_exactly_as_written(name: str) -> None:
    assert is_session(name)


@pytest.mark.parametrize(
    "name",
    ["", "a", ":a", "t:", "t:unknown", "1t:a", "t :a", "t:a\n", "t:\x00", "t:\x85", "t:\ud800", "ns" * 40 + ":a"],
)
def test_name_without_namespace_or_value_is_not_a_session(name: str) -> None:
    assert not is_session(name)


def test_a_session_may_be_as_long_as_the_limit_says_in_bytes() -> None:
    longest = "t:" + "é" * ((limits.SESSION_BYTES - 2) // 2)

    assert is_session(longest)
    assert not is_session(longest + "a")


def test_a_name_is_split_at_its_first_colon() -> None:
    assert identity.split_session("workspace:41c2@10:15:00") == ("workspace", "41c2@10:15:00")


# -- aliases -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "forms"),
    [
        ("plain", {"plain"}),
        ("a_b-c", {"a_b-c", "a-b-c"}),
        ("a/b.c", {"a_b_c", "a_b.c", "a-b-c"}),
        ("/home/é", {"_home__", "-home--"}),
    ],
)
def test_the_forms_of_a_name_are_those_of_the_known_sanitisers(value: str, forms: set[str]) -> None:
    assert sanitised(value) == forms
    assert all(form in sanitised(value) for form in forms)


def test_a_form_that_no_sanitiser_makes_is_no_alias() -> None:
    assert "ab" not in sanitised("a/b")
    assert "a.b" not in sanitised("a/b")


@given(st.text(max_size=10))
def test_sanitising_a_form_again_by_its_own_sanitiser_changes_nothing(value: str) -> None:
    assert [
        name for name, sanitise in identity.SANITISERS.items() if sanitise(sanitise(value)) != sanitise(value)
    ] == []


def test_two_names_may_meet_in_one_form() -> None:
    """Why an alias must be the only one that fits."""
    assert "a_b" in sanitised("a/b")
    assert "a_b" in sanitised("a_b")
