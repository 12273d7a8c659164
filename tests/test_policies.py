from __future__ import annotations

from typing import Any

import pytest

from rightful.errors import PolicyError
from rightful.policies import PRESETS, ArmDecay, EventDecay, Policy, SessionDecay, TimeDecay, policy_of

# Golden: a posterior that was published says which policy made it, for ever.
HASHES = {
    "bound": "d9db8dfd61ec1629484424d10ffabcfec3b1c7332de12ce1d1151dc57210e6ed",
    "historical-newest": "b86bc1b34203a808d9390b323e2c04c8be2e21b77f2a2bcbc17a135df2af69af",
    "gptme": "17dc5c618f306b690a87c6d30e4aca588a8f61799ef2dd242bdf9c46cbf9ac9c",
}


def test_the_hashes_of_the_presets_are_for_ever() -> None:
    assert {name: policy.hash for name, policy in PRESETS.items()} == HASHES


def test_nothing_said_is_the_preset_bound() -> None:
    assert policy_of({}) == policy_of("bound") == Policy()
    assert policy_of({}).hash == HASHES["bound"]


def test_the_presets_are_what_they_are_said_to_be() -> None:
    newest, gptme = PRESETS["historical-newest"], PRESETS["gptme"]

    assert (newest.join, newest.revision, newest.causal_order) == ("newest", "additive", "strict")
    assert (gptme.join, gptme.revision, gptme.causal_order) == ("bound", "additive", "lenient")
    assert (gptme.arithmetic, gptme.decay) == ("sequential", EventDecay())


def test_the_defaults_are_those_of_the_design() -> None:
    assert Policy().as_dict() == {
        "join": "bound",
        "revision": "last_wins",
        "credit": "full",
        "decay": None,
        "prior": (1.0, 1.0),
        "causal_order": "strict",
        "skew_s": 0.0,
        "marginals": False,
        "graders": ("human/overall", "credit/overall", "session-records/overall", "*/overall"),
        "outcomes": {"productive": 1.0, "noop": 0.0, "failed": 0.0, "violated_policy": 0.0},
        "arm_aliases": {},
        "arithmetic": "exact",
    }


@pytest.mark.parametrize(
    ("wire", "decay"),
    [
        ({"mode": "time", "half_life": 3600}, TimeDecay(3600.0)),
        ({"mode": "session", "gamma": 0.9}, SessionDecay(0.9)),
        ({"mode": "arm", "gamma": 1}, ArmDecay(1.0)),
        (None, None),
        ("none", None),
    ],
    ids=str,
)
def test_each_decay_can_be_asked_for(wire: Any, decay: Any) -> None:
    assert policy_of({"decay": wire}).decay == decay


def test_numbers_hash_as_floats_and_keys_in_any_order() -> None:
    one = policy_of({"prior": [1, 2], "outcomes": {"a": 1, "b": 0}})
    other = policy_of({"outcomes": {"b": 0.0, "a": 1.0}, "prior": [1.0, 2.0]})

    assert one == other
    assert one.hash == other.hash
    assert one.hash != policy_of({"prior": [1, 3], "outcomes": {"a": 1, "b": 0}}).hash


def test_a_policy_comes_back_from_its_own_json() -> None:
    policy = policy_of({"join": "newest", "decay": {"mode": "time", "half_life": 5}, "arm_aliases": {"a": "b"}})

    assert policy_of(policy.as_dict()) == policy


def test_a_policy_that_was_made_in_python_is_checked_too() -> None:
    with pytest.raises(PolicyError, match=r"Expected `float` > 0\.0 - at `\$\.prior\[0\]`"):
        policy_of(Policy(prior=(0.0, 1.0)))


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ("newest", "unknown preset 'newest'; the presets are bound, historical-newest, gptme"),
        (5, "Expected a name or an object, got `int`"),
        ({"joins": "bound"}, "Object contains unknown field `joins`"),
        ({"join": "nearest"}, "Invalid enum value 'nearest'; there are `bound`, `newest` - at `$.join`"),
        ({"prior": [1]}, "Expected `array` of length 2, got 1 - at `$.prior`"),
        ({"prior": [1, float("nan")]}, "Expected `float` > 0.0 - at `$.prior[1]`"),
        ({"prior": [True, 1]}, "Expected `float`, got `bool` - at `$.prior[0]`"),
        ({"decay": {"mode": "time", "half_life": 0}}, "Expected `float` > 0.0 - at `$.decay.half_life`"),
        ({"decay": {"mode": "arm", "gamma": 1.1}}, "Expected `float` <= 1.0 - at `$.decay.gamma`"),
        (
            {"decay": {"mode": "weekly"}},
            "Invalid value 'weekly'; there are `time`, `session`, `arm`, `events` - at `$.decay.mode`",
        ),
        ({"skew_s": -1}, "Expected `float` >= 0.0 - at `$.skew_s`"),
        ({"outcomes": {"good": 2}}, "Expected `float` <= 1.0 - at `$.outcomes[...]`"),
        (
            {"arm_aliases": {"a": "b", "b": "c"}},
            "'a' is an alias of 'b', which is itself an alias - at `$.arm_aliases`",
        ),
        (
            {"arithmetic": "sequential", "decay": {"mode": "arm", "gamma": 0.5}},
            "`sequential` arithmetic allows only the decay `events` - at `$.decay`",
        ),
        (
            {"decay": {"mode": "events"}},
            "decay `events` depends on the order of the log; it needs `sequential` - at `$.arithmetic`",
        ),
    ],
    ids=str,
)
def test_what_is_no_policy_says_what_and_where(asked: Any, what: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(asked)
    assert caught.value.what == what
    assert (
        str(caught.value) == f"Invalid policy: {what}. Nothing was computed. Fix the policy and run the command again."
    )


def test_grader_without_a_rubric_is_refused_as_it_would_match_nothing() -> None:
    with pytest.raises(PolicyError, match=r"Expected `producer/rubric`, got 'human' - at `\$\.graders\[1\]`"):
        policy_of({"graders": ["*/overall", "human"]})


def test_exclusions_are_in_a_policy_and_its_hash_only_if_not_empty() -> None:
    assert {"without_sessions", "without_graders", "balances"}.isdisjoint(Policy().as_dict())
    assert policy_of({"without_sessions": [], "without_graders": [], "balances": None}).hash == HASHES["bound"]

    left_out = policy_of({"without_sessions": ["t:a"], "balances": []})

    assert left_out.as_dict() == Policy().as_dict() | {"without_sessions": ("t:a",), "balances": ()}
    assert left_out.hash != HASHES["bound"]
    assert policy_of(left_out.as_dict()) == left_out


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("without_graders", ["judge"], "Expected `producer/rubric`, got 'judge' - at `$.without_graders[0]`"),
        (
            "without_sessions",
            ["t:a", "a"],
            "Expected a session `namespace:value`, got 'a' - at `$.without_sessions[1]`",
        ),
    ],
)
def test_what_is_left_out_is_named_in_full(field: str, value: list[str], said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        policy_of({field: value})

    assert said in str(refused.value)
