"""What-if from a loaded projection is the same answer as a replay; a session left out is a log without it."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import strategies
from tests.amounts import examples
from tests.oracle_facts import Told
from tests.projections.fake import FakeLog
from tests.strategies import START_S, Wire

from rightful.policies import policy_of
from rightful.projections.credit.posteriors import Posteriors
from rightful.projections.projected import Projected

MANY = settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES_APART = ("t:one", "t:two", "t:three", "u:four", "u:five", "t:six", "u:seven", "claude-code:eight")
APART = dict(zip(strategies.SESSIONS, NAMES_APART, strict=True))
"""The same sessions under names that no sanitiser makes of each other."""

NAMES = ("session", "other", "exposure_session")
TAKEN = ("exposure.recorded", "grade.recorded", "grade.retracted")


def without_aliases(events: list[Wire]) -> list[Wire]:
    """The log with names that meet nobody, and keys that meet none."""
    apart = []
    for place, event in enumerate(events):
        named = {key: APART.get(value, value) if key in NAMES else value for key, value in event.items()}
        named.pop("alias", None)
        apart.append({**named, "key": f"key {place}"})
    return apart


def projected(events: list[Wire]) -> Projected:
    log = FakeLog(page=5)
    assert "invalid" not in log.append(events)
    return Projected(log)  # type: ignore[arg-type]


def said(found: Posteriors) -> bytes:
    answer = found.as_dict()
    return msgspec.json.encode({name: answer[name] for name in ("arms", "contexts", "counters")})


def run_of(events: list[Wire], session: str) -> set[str]:
    """All names of a session's run."""
    log = FakeLog()
    log.append(events)
    told = Told(log.lines, policy_of({}))
    return {name for name in APART.values() if told.run((name, False)) == told.run((session, False))}


def mentioned(event: Wire) -> Wire:
    """A row in the place of one that is taken away: who is in the ledger, and where, stays."""
    kept = {name: event[name] for name in ("session", "producer", "key", "at")}
    return {**kept, "type": "message.recorded", "role": "user"}


@MANY
@given(
    strategies.logs().map(without_aliases),
    strategies.exact_policies | strategies.sequential_policies,
    st.sampled_from(sorted(APART.values())),
)
def test_leaving_a_session_out_is_a_log_without_its_exposures_and_grades(
    events: list[Wire], wire: Wire, session: str
) -> None:
    gone = run_of(events, session)
    taken = [
        event["type"] in TAKEN and bool({event["session"], event.get("exposure_session")} & gone) for event in events
    ]
    fewer = [mentioned(event) if away else event for event, away in zip(events, taken, strict=True)]
    sessions = [one for one in wire.get("without_sessions", []) if one in APART.values()]
    wire = {**wire, "without_sessions": sessions}
    without = policy_of({**wire, "without_sessions": [*sessions, session]})

    got = projected(events).posteriors(without, decay_at=START_S + 9)

    assert said(got) == said(projected(fewer).posteriors(policy_of(wire), decay_at=START_S + 9))


changes: st.SearchStrategy[dict[str, Any]] = strategies.weighed(
    (
        3,
        st.lists(st.sampled_from(strategies.SESSIONS), min_size=1, max_size=2).map(lambda of: {"without_sessions": of}),
    ),
    (1, st.sampled_from([["human/*"], ["judge/overall"]]).map(lambda of: {"without_graders": of})),
    (1, st.sampled_from([[], ["one.json"]]).map(lambda of: {"balances": of})),
    (1, st.sampled_from([{"x": "y"}, {"x-old": "x"}]).map(lambda of: {"arm_aliases": of})),
    (1, st.sampled_from(["split", "salience_split"]).map(lambda of: {"credit": of})),
    (1, st.sampled_from([{"join": "newest"}, {"revision": "additive"}, {"causal_order": "lenient"}])),
    (1, strategies.time_decays.map(lambda of: {"decay": of})),
)


@MANY
@given(strategies.logs(), strategies.kept_up_policies, st.lists(changes, min_size=1, max_size=4), st.integers(0, 24))
def test_what_if_from_a_loaded_projection_equals_a_fresh_replay(
    events: list[Wire], wire: Wire, asked: list[dict[str, Any]], cut: int
) -> None:
    """Whatever was asked before, and though rows came in between."""
    log = FakeLog(page=5)
    log.append(events[:cut])
    loaded = Projected(log)  # type: ignore[arg-type]
    rules = [policy_of({**wire, **change}) for change in [{}, *asked]]
    for rule in rules:
        loaded.posteriors(rule)
    log.append(events[cut:])

    for rule in rules:
        fresh = Projected(log).posteriors(rule)  # type: ignore[arg-type]
        assert loaded.posteriors(rule) == fresh
        assert loaded.posteriors(rule, as_of=fresh.through) == fresh
