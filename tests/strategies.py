"""Hypothesis strategies of attribution events: few names, arms and keys, so that they meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rightful.identity import event_id
from rightful.times import text_of

Wire = dict[str, Any]

SESSIONS = ("t:a/b", "t:a_b", "t:a:b", "t:a.b", "t:a-b", "u:a_b", "u:x", "claude-code:c")
ARMS = ("x", "y", "z", "x-old")
STRAY = "/p/5d1c0a52-3b1e-4c1f-9a44-0b6f3a9c7e11.jsonl"
PRODUCERS = ("human", "credit", "judge", "hook")
SHARED_KEYS = ("shared-1", "shared-2")
START_S = 1_000

sessions = st.sampled_from([SESSIONS[0]] * 4 + list(SESSIONS))
arms = st.sampled_from(ARMS)
seconds = st.integers(0, 12)
later = st.integers(6, 16)
rewards = st.sampled_from([0.0, 1.0, 0.1, 0.3, 0.123456789012345, 5e-324]) | st.floats(0.0, 1.0)
rarely = st.sampled_from([False] * 7 + [True])
values = st.sampled_from(["code", "opus", None])
contexts = st.none() | st.lists(values, max_size=3) | st.just(["code", "opus"])


def shown(sizes: tuple[int, ...] = (0, 1, 1, 2, 3)) -> st.SearchStrategy[list[Wire]]:
    one = st.builds(lambda arm: {"arm": arm}, arms)
    return st.sampled_from(sizes).flatmap(lambda size: st.lists(one, min_size=size, max_size=size))


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Wire]:
    return st.fixed_dictionaries({}, optional=fields)


def weighed(*parts: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of several strategies, so often; `one_of` drops repeated ones."""
    turns = [place for place, (weight, _) in enumerate(parts) for _ in range(weight)]
    return st.sampled_from(turns).flatmap(lambda place: parts[place][1])


def merged(*parts: st.SearchStrategy[Wire]) -> st.SearchStrategy[Wire]:
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


exposures = merged(
    st.fixed_dictionaries({"type": st.just("exposure.recorded"), "session": sessions, "arms": shown()}),
    some(withheld=shown((1, 2)), context=contexts.filter(lambda found: found is not None)),
    st.sampled_from([{}] * 5 + [{"at_basis": "file"}]),
    st.sampled_from([{}] * 5 + [{"alias": True}]),
    st.sampled_from([{}] * 5 + [{"extra": {"epsilon": 0.3, "withheld": []}}]),
)

rubrics = st.sampled_from([{}] * 6 + [{"rubric": "tone"}])
seqs = st.sampled_from(range(1, 9))

judgements = weighed(
    (5, rewards.map(lambda reward: {"reward": reward})),
    (1, rewards.map(lambda reward: {"reward": reward, "outcome": "failed"})),
    (1, st.sampled_from(["productive", "noop", "odd", "unknown"]).map(lambda outcome: {"outcome": outcome})),
)

asides = weighed(
    (2, st.just({})),
    (
        1,
        some(
            per_arm=st.dictionaries(arms, rewards, max_size=3),
            salience=st.dictionaries(arms, st.sampled_from([0.0, 0.4, 0.8, 1.0]), max_size=3),
            exposure_session=sessions,
            decay_rate=st.sampled_from([0.5, 0.9, 1.0]),
        ),
    ),
)

grades = merged(
    st.fixed_dictionaries({"type": st.just("grade.recorded"), "session": sessions, "seq": seqs}),
    judgements,
    asides,
    rubrics,
    st.sampled_from([{}] * 7 + [{"alias": True}]),
)

retractions = merged(
    st.fixed_dictionaries({"type": st.just("grade.retracted"), "session": sessions, "seq": seqs}), rubrics
)

pairs = st.tuples(sessions, st.sampled_from(SESSIONS)).filter(lambda pair: pair[0] != pair[1])
relations = st.sampled_from(["native", "native", "resume", "retry", "subagent"])
evidence = st.sampled_from(["native-id", "pointer", "manual", "cwd-window", "cwd-window"])

links = st.builds(
    lambda pair, relation, rests_on, alias: {
        "type": "session.linked",
        "session": pair[0],
        "other": pair[1],
        "as": relation,
        "evidence": rests_on,
        **({"alias": True} if alias else {}),
    },
    pairs,
    relations,
    evidence,
    rarely,
)

unlinks = st.builds(lambda pair: {"type": "session.unlinked", "session": pair[0], "other": pair[1]}, pairs)

starts = st.builds(
    lambda session, nonce: {"type": "session.started", "session": session, "run_nonce": nonce},
    sessions,
    st.sampled_from(["n1", "n1", "n1", "n2"]),
)

messages = st.builds(
    lambda session, alias, is_stray: {
        "type": "message.recorded",
        "session": session,
        "role": "user",
        **({"alias": True} if alias else {}),
        **({"extra": {"transcript_path": STRAY}} if is_stray else {}),
    },
    sessions,
    rarely,
    st.booleans(),
)

withdrawals = st.builds(
    lambda session, producer, key, revision: {
        "type": "event.withdrawn",
        "session": session,
        "id": event_id(producer, key),
        "revision": revision,
    },
    sessions,
    st.sampled_from(PRODUCERS),
    st.sampled_from(SHARED_KEYS),
    st.integers(1, 3),
)

own_withdrawals = st.builds(
    lambda session, place, writer, revision: {
        "type": "event.withdrawn",
        "session": session,
        "of": place,
        "by": writer,
        "revision": revision,
    },
    sessions,
    st.integers(0, 23),
    st.sampled_from([None] * 4 + ["stranger"]),
    st.sampled_from([1] * 8 + [2]),
)
"""Withdrawals of the event that was drawn at a place, mostly by its own producer; `logs` makes them whole."""

decays = st.builds(
    lambda session, gamma: {"type": "bandit.decayed", "session": session, "gamma": gamma},
    sessions,
    st.sampled_from([0.5, 0.9]),
)

prunes = st.builds(
    lambda session, pruned: {
        "type": "bandit.pruned",
        "session": session,
        "arms": pruned,
        "contexts": [{"arm": arm, "context": ["code", "opus"]} for arm in pruned[:1]],
    },
    sessions,
    st.lists(arms, max_size=2),
)

states = st.builds(
    lambda alpha, beta, n: {"alpha": alpha, "beta": beta, "n": n},
    st.sampled_from([1.0, 1.7, 4.3]),
    st.sampled_from([1.0, 2.25]),
    st.integers(0, 9),
)

sha256s = st.sampled_from(["a" * 64, "b" * 64, "c" * 64])

balances = merged(
    st.fixed_dictionaries(
        {
            "type": st.just("balance.opened"),
            "arms": st.dictionaries(arms, states, max_size=2),
            "contexts": st.lists(
                st.builds(lambda arm, state: {"arm": arm, "context": ["code", "opus"], **state}, arms, states),
                max_size=1,
            ),
            "source": st.sampled_from(["one.json", "two.json"]),
            "sha256": sha256s,
        }
    ),
    some(through=st.integers(0, 6).map(lambda second: text_of((START_S + second) * 1_000_000))),
)

event_ids = st.builds(
    lambda producer, place: event_id(producer, f"key-{place}"), st.sampled_from(PRODUCERS), st.integers(0, 15)
)

publications = merged(
    st.fixed_dictionaries(
        {
            "type": st.just("posterior.published"),
            "policy": st.just("0" * 64),
            "through": st.just(1),
            "digest": st.just("0" * 64),
            "target": st.just("one.json"),
            "new_sha256": sha256s,
        }
    ),
    some(
        extra=weighed(
            (2, st.sampled_from(["rollback", "opened", "forced"]).map(lambda name: {name: True})),
            (2, st.lists(event_ids, max_size=8).map(lambda found: {"retires": found})),
            (1, event_ids.map(lambda found: {"rollback": True, "rolled_back": found})),
        )
    ),
)

facts = weighed(
    (20, exposures),
    (20, grades),
    (8, links),
    (2, retractions),
    (1, unlinks),
    (1, starts),
    (2, messages),
    (2, withdrawals),
    (6, own_withdrawals),
    (1, decays),
    (1, prunes),
    (1, balances),
    (1, publications),
)


def stamped(
    event: Wire, place: int, producer: str, seconds: tuple[int, int], shared: tuple[str | None, str | None]
) -> Wire:
    """An event made whole: who wrote it, under which key, when; grades mostly later than exposures."""
    key, turn = shared
    second = seconds[event["type"] == "grade.recorded"]
    at = text_of((START_S + second) * 1_000_000)
    whole = {**event, "producer": producer, "key": key or f"key-{place}", "at": at}
    return whole if turn is None else {**whole, "turn": turn}


producers = st.sampled_from([PRODUCERS[0]] * 3 + list(PRODUCERS))

shared = st.sampled_from([(None, None)] * 20 + [(key, turn) for key in SHARED_KEYS for turn in (None, "t1")])


@st.composite
def logs(draw: st.DrawFn, of: st.SearchStrategy[Wire] = facts, max_size: int = 24) -> list[Wire]:
    """A log's events in the order in which they are appended."""
    size = draw(st.integers(0, max_size))  # a list alone has about five elements
    one = st.tuples(of, producers, st.tuples(seconds, later), shared)
    drawn = draw(st.lists(one, min_size=size, max_size=size))
    found = [stamped(event, place, who, when, key) for place, (event, who, when, key) in enumerate(drawn)]
    return [aimed(event, found) if "of" in event else event for event in found]


def aimed(event: Wire, among: list[Wire]) -> Wire:
    """A withdrawal of one of some events, with the id that it names and who writes it."""
    target = among[event["of"] % len(among)]
    whole = {name: value for name, value in event.items() if name not in {"of", "by"}}
    return {**whole, "producer": writer(event, among), "id": event_id(writer(target, among), target["key"])}


def writer(event: Wire, among: list[Wire], depth: int = 4) -> str:
    """Who writes an event: a withdrawal mostly who wrote what it names."""
    if "of" not in event or not depth:
        return str(event["producer"])
    return str(event["by"] or writer(among[event["of"] % len(among)], among, depth - 1))


gammas = st.sampled_from([0.5, 0.9, 1.0])

time_decays = st.sampled_from([{"mode": "time", "half_life": 3.0}, {"mode": "time", "half_life": 1e-3}])

decay_modes = st.one_of(
    st.none(),
    time_decays,
    st.builds(lambda mode, gamma: {"mode": mode, "gamma": gamma}, st.sampled_from(["session", "arm"]), gammas),
)

of_joins = some(
    join=st.sampled_from(["bound", "newest"]),
    revision=st.sampled_from(["last_wins", "additive"]),
    credit=st.sampled_from(["full", "split", "salience_weight", "salience_split"]),
    prior=st.sampled_from([[1.0, 1.0], [2.0, 5.0], [0.5, 0.5]]),
    causal_order=st.sampled_from(["strict", "lenient"]),
    skew_s=st.sampled_from([0.0, 1.0, 2.5]),
    marginals=st.booleans(),
    graders=st.sampled_from([["*/overall"], ["judge/*", "human/*", "*/*"], ["human/overall", "judge/overall"], []]),
    outcomes=st.sampled_from([{"productive": 1.0}, {"odd": 0.25, "noop": 0.5}]),
    arm_aliases=st.sampled_from([{"x-old": "x"}, {"x-old": "new"}, {"x": "y", "z": "y"}]),
)

left_out = some(
    without_sessions=st.lists(st.sampled_from(SESSIONS), min_size=1, max_size=2),
    without_graders=st.sampled_from([["human/*"], ["judge/overall", "hook/tone"], ["*/*"]]),
    balances=st.sampled_from([[], ["one.json"], ["*.json"]]),
)

joined = merged(of_joins, weighed((3, st.just({})), (2, left_out)))

exact_policies = merged(joined, some(decay=decay_modes))

sequential_policies = merged(
    joined, st.sampled_from([{"arithmetic": "sequential"}, {"arithmetic": "sequential", "decay": {"mode": "events"}}])
)

policies = exact_policies | sequential_policies

kept_up_policies = joined.map(lambda policy: {**policy, "join": "bound"})
"""Those whose sums are kept up row by row."""
