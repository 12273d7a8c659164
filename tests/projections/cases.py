"""The published replay cases, read as wire events."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.strategies import Wire

from rightful.times import EPOCH, text_of, us_of

HERE = Path(__file__).parents[1] / "golden" / "posterior_cases.json"
SHARED = Path(__file__).parents[3] / "shared" / "cases" / "posterior_cases.json"

ALL: dict[str, Any] = json.loads(HERE.read_text("utf-8"))
REPLAYS: list[dict[str, Any]] = ALL["replay_cases"]

SAID = frozenset({"seq", "reward", "per_arm", "salience", "outcome"})

OWN_CONFIG = {"two_graders": {"graders": ["*/overall"]}}
"""The case is about graders without an order between them; the default policy has one."""


def number(said: Any) -> float:
    return float(Fraction(said["exact"]))


def wire_of(event: dict[str, Any]) -> Wire:
    """A case's event as it is sent: session "A" is `t:A`, its id a producer key, its `ts` seconds since 1970."""
    at = text_of(us_of(EPOCH) + round(event["ts"] * 1_000_000))
    wire: Wire = {"producer": event["producer"], "key": event["id"], "session": f"t:{event['session']}", "at": at}
    if event["kind"] == "exposure":
        return {**wire, "type": "exposure.recorded", **_shown(event)}
    if event["kind"] == "grade_retracted":
        return {**wire, "type": "grade.retracted", "seq": event["seq"]}
    said: Wire = {name: _plain(value) for name, value in event.items() if name in SAID}
    if "exposure_session" in event:
        said["exposure_session"] = f"t:{event['exposure_session']}"
    return {**wire, "type": "grade.recorded", **said}


def _shown(event: dict[str, Any]) -> Wire:
    def arms(named: Any) -> Any:
        p_inject = event.get("p_inject", {})
        if not isinstance(named, list):
            return named
        return [{"arm": arm, **({"p_inject": p_inject[arm]} if arm in p_inject else {})} for arm in named]

    context = {} if event.get("context") is None else {"context": event["context"]}
    return {"arms": arms(event["injected"]), "withheld": arms(event.get("withheld", [])), **context}


def _plain(value: Any) -> Any:
    """NaN and infinity, which JSON cannot write."""
    if isinstance(value, dict) and "$float" in value:
        return float(value["$float"])
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def policy_and_time(case: str, config: dict[str, Any]) -> tuple[Wire, float | None]:
    """The policy of a run, and the time of its decay, which is an argument of the question."""
    policy = {**config, **OWN_CONFIG.get(case, {})}
    decay = dict(policy.get("decay") or {})
    decay_at = decay.pop("as_of", None)
    return {**policy, "decay": decay or None}, decay_at
