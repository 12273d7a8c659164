"""Policies: the immutable, hashed rules that turn exposures and grades into credits.

A policy is a JSON object. Omitted fields have their default, so `{}` is the preset `bound`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from rightful.allowed_values import explained
from rightful.content import json_type
from rightful.errors import PolicyError
from rightful.identity import has_control, is_session

RULES = 2
"""Version of the rules of attribution, which are not part of a policy's hash. It is raised if they change a result
under an unchanged policy. Rules 2 rank graders in the run that they apply to, restrict a decay to its producer, decide
by the arms whether a balance contains a grade, and prefer an arm's exact time to a file's upper bound."""

Positive = Annotated[float, Meta(gt=0.0, le=1e15)]
Gamma = Annotated[float, Meta(gt=0.0, le=1.0)]
Unit = Annotated[float, Meta(ge=0.0, le=1.0)]


class TimeDecay(Struct, frozen=True, tag_field="mode", tag="time", forbid_unknown_fields=True):
    """Evidence halves with its age at `decay_at`; independent of order.

    Attributes:
        half_life: Seconds.
    """

    half_life: Positive


class SessionDecay(Struct, frozen=True, tag_field="mode", tag="session", forbid_unknown_fields=True):
    """Every arm decays once for each credited run, by the position of the run's first grade."""

    gamma: Gamma


class ArmDecay(Struct, frozen=True, tag_field="mode", tag="arm", forbid_unknown_fields=True):
    """An arm decays with each of its own credits only."""

    gamma: Gamma


class EventDecay(Struct, frozen=True, tag_field="mode", tag="events", forbid_unknown_fields=True):
    """Decay as recorded in the log: `bandit.decayed`, `bandit.pruned`, `decay_rate` of grades."""


Decay = TimeDecay | SessionDecay | ArmDecay | EventDecay


LATER = ("without_sessions", "without_graders", "balances")
"""Fields that are omitted from a policy's JSON, and so from its hash, if they have the default."""


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rule that turns exposures and grades into credits and posteriors.

    Attributes:
        join: `bound`: a grade pays the exposures of its own run. `newest`: it pays the newest
            session with exposures at the time of the grade, as the historical updater did.
        revision: `last_wins`: one effective grade a run. `additive`: every grade event pays and
            retractions are ignored.
        credit: `full`: each arm gets the whole observation. `split`: 1/k of it.
            `salience_weight`: weighted by the grade's salience. `salience_split`: that, normalised.
        decay: None, or how evidence loses weight.
        prior: (alpha, beta) of an arm without evidence; never decayed.
        causal_order: `strict`: an exposure after the grade does not count.
        skew_s: How much later than the grade an exposure's time may be; seconds.
        marginals: Compute a posterior for each single dimension of a context too.
        graders: Which graders pay, in order; patterns of `producer/rubric`.
        outcomes: The reward of an outcome word, 0 to 1.
        arm_aliases: Other names of an arm: {alias: arm}.
        arithmetic: `exact`: sums are exact and rounded once. `sequential`: float operations in log order.
        without_sessions: Excluded sessions, named in full, each with its whole run, as if they had never existed.
        without_graders: Excluded graders; patterns of `producer/rubric`.
        balances: Sources whose opening balances count; patterns. None: all of them.
    """

    join: Literal["bound", "newest"] = "bound"
    revision: Literal["last_wins", "additive"] = "last_wins"
    credit: Literal["full", "split", "salience_weight", "salience_split"] = "full"
    decay: Decay | None = None
    prior: tuple[Positive, Positive] = (1.0, 1.0)
    causal_order: Literal["strict", "lenient"] = "strict"
    skew_s: Annotated[float, Meta(ge=0.0, le=1e9)] = 0.0
    marginals: bool = False
    graders: tuple[str, ...] = ("human/overall", "credit/overall", "session-records/overall", "*/overall")
    outcomes: dict[str, Unit] = field(
        default_factory=lambda: {"productive": 1.0, "noop": 0.0, "failed": 0.0, "violated_policy": 0.0}
    )
    arm_aliases: dict[str, str] = field(default_factory=dict)
    arithmetic: Literal["exact", "sequential"] = "exact"
    without_sessions: tuple[str, ...] = ()
    without_graders: tuple[str, ...] = ()
    balances: tuple[str, ...] | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of the completed policy's deterministic JSON (keys sorted, numbers as floats), in hexadecimal."""
        return hashlib.sha256(msgspec.json.encode(self.as_dict(), order="deterministic")).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Return the completed policy as a JSON object.

        A field that was added to the format later (`LATER`) is only included if it is not the default,
        so the hash of every earlier policy is unchanged.
        """
        wire: dict[str, Any] = msgspec.to_builtins(self)
        for name in LATER:
            if getattr(self, name) == getattr(PRESETS["bound"], name):
                del wire[name]
        return wire


PRESETS: dict[str, Policy] = {
    "bound": Policy(),
    "historical-newest": Policy(join="newest", revision="additive"),
    "gptme": Policy(revision="additive", causal_order="lenient", arithmetic="sequential", decay=EventDecay()),
}
"""The named policies."""


def policy_of(asked: str | Mapping[str, Any] | Policy) -> Policy:
    """Return a policy from a preset's name, a JSON object or a policy.

    Raises:
        PolicyError: No preset has that name, or the object is not a valid policy.
    """
    match asked:
        case Policy():
            return _checked(msgspec.to_builtins(asked))
        case str():
            if asked not in PRESETS:
                raise PolicyError(f"unknown preset {asked!r}; the presets are {', '.join(PRESETS)}")
            return PRESETS[asked]
        case Mapping():
            return _checked(asked)
        case _:
            raise PolicyError(f"Expected a name or an object, got `{json_type(asked)}`")


def _checked(asked: Mapping[str, Any]) -> Policy:
    wire = dict(asked)
    if wire.get("decay") == "none":
        wire["decay"] = None
    try:
        policy = msgspec.convert(wire, Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(explained(str(error), Policy)) from None
    except UnicodeEncodeError as error:
        raise PolicyError(f"it contains a lone surrogate ({error})") from None
    if policy.arithmetic == "sequential" and not (policy.decay is None or isinstance(policy.decay, EventDecay)):
        raise PolicyError("`sequential` arithmetic allows only the decay `events` - at `$.decay`")
    if isinstance(policy.decay, EventDecay) and policy.arithmetic != "sequential":
        raise PolicyError("decay `events` depends on the order of the log; it needs `sequential` - at `$.arithmetic`")
    _check_names(policy)
    for alias, arm in policy.arm_aliases.items():
        if arm in policy.arm_aliases:
            raise PolicyError(f"{alias!r} is an alias of {arm!r}, which is itself an alias - at `$.arm_aliases`")
    return policy


def _check_names(policy: Policy) -> None:
    for name in ("graders", "without_graders"):
        for place, pattern in enumerate(getattr(policy, name)):
            if "/" not in pattern:
                raise PolicyError(f"Expected `producer/rubric`, got {pattern!r} - at `$.{name}[{place}]`")
            if has_control(pattern):
                what = f"Expected a grader without control characters, got {pattern!r}"
                raise PolicyError(f"{what} - at `$.{name}[{place}]`")
    for place, session in enumerate(policy.without_sessions):
        if not is_session(session):
            what = f"Expected a session `namespace:value`, got {session[:64]!r}"
            raise PolicyError(f"{what} - at `$.without_sessions[{place}]`")
