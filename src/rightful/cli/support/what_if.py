"""What-if options: each changes one field of the policy of a command.

The answer names the change: `bound, without session claude-code:7fbe4341`. The changed policy has a hash of its own,
and is not stored.
"""

from __future__ import annotations

import re
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from rightful import times
from rightful.cli.output import terminal
from rightful.cli.support import options
from rightful.cli.support.options import NamedPolicy
from rightful.errors import PolicyError, UsageError
from rightful.policies import TimeDecay, policy_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rightful.ledger import Ledger
    from rightful.policies import Policy
    from rightful.projections.facts.facts import Facts

_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")
_PAIR = re.compile(r"((?:[^=]|==)+)=(?!=)(.+)", re.DOTALL)  # `==` is a `=` of a name
_NONE = "none"
NO_BALANCES = "without opening balances"
"""What to call a policy that counts no opening balances."""

_HELP = {
    "join": "exposures to credit: the own run's (bound), the newest session's (newest)",
    "revision": "grades that count: the last of each run (last_wins), all (additive)",
    "credit": "reward per arm: all (full), 1/k (split), salience_weight, salience_split",
    "decay": "decay of evidence: none, time:7d (half-life), session:0.99, arm:0.99, events",
    "causal_order": "whether exposures after the grade count: no (strict), yes (lenient)",
    "grader": "count only this grader, a producer/rubric pattern (repeatable; order of preference)",
    "without_grader": "exclude this grader, a producer/rubric pattern (repeatable)",
    "without_session": "exclude this session and the rest of its run (repeatable)",
    "arm_alias": "count ALIAS as ARM; write = in a name as == (repeatable)",
    "balances": "count only opening balances from this source pattern, or none (repeatable)",
}
_VALUES = {
    "join": ("bound", "newest"),
    "revision": ("last_wins", "additive"),
    "credit": ("full", "split", "salience_weight", "salience_split"),
    "causal_order": ("strict", "lenient"),
}
_METAVARS = {
    "join": "JOIN", "revision": "RULE", "credit": "CREDIT", "causal_order": "ORDER",
    "decay": "DECAY", "grader": "GRADER", "without_grader": "GRADER", "without_session": "SESSION",
    "arm_alias": "ALIAS=ARM", "balances": "SOURCE",
}  # fmt: skip
_ONCE = {"join", "revision", "credit", "decay", "causal_order"}


def add(parser: argparse.ArgumentParser, **others: str) -> None:
    """Declare the options; `others` is the help of those that the command reads in its own way."""
    group = parser.add_argument_group("what if", "each option changes one field of the policy")
    for name, text in (_HELP | others).items():
        option, action = f"--{name.replace('_', '-')}", "store" if name in _ONCE else "append"
        group.add_argument(option, action=action, choices=_VALUES.get(name), metavar=_METAVARS[name], help=text)


def is_used(args: argparse.Namespace, *, but: str = "") -> bool:
    """Return whether any of the options was given, except the option `but`."""
    return any(getattr(args, name) is not None for name in _HELP if name != but)


def as_typed(args: argparse.Namespace) -> list[str]:
    """Return the options that were given, as they have to be typed."""
    typed = []
    for name in _HELP:
        given = getattr(args, name)
        for value in given if isinstance(given, list) else [] if given is None else [given]:
            typed += [f"--{name.replace('_', '-')}", value]
    return typed


def apply_options(
    args: argparse.Namespace, named: NamedPolicy, ledger: Ledger | None = None, *, but: str = ""
) -> NamedPolicy:
    """Return a policy with what the options change, and a name that says so.

    Args:
        args: The options.
        named: The policy to change.
        ledger: The ledger in which sessions are found by a part of their name; without one, names must be full.
        but: An option that changes no policy here, because the command reads it itself.

    Raises:
        PolicyError: The result is not a valid policy.
        UsageError: The value of an option is not valid, or names an unknown session.
    """
    wire, words = named.policy.as_dict(), []
    for name in _HELP:
        given = getattr(args, name)
        if given is None or name == but:
            continue
        if name == "without_session" and ledger is not None:
            given = [options.session_named(ledger, session) for session in given]
        field, value, label = _change(name, given, wire)
        if wire.get(field) != value:
            wire[field] = value
            words.append(label)
    try:
        policy = policy_of(wire)
    except PolicyError as error:
        raise PolicyError(f"{', '.join([named.label, *words])}: {error.what}") from None
    if ledger is not None:
        _note_idle(args, ledger.projected().facts)
        _note_time(args, policy, ledger)
    if policy == named.policy:
        if is_used(args, but=but):
            terminal.note_stderr(f"the options have no effect: {named.label} already has these values.")
        return named
    return NamedPolicy(", ".join([named.label, *words]), None, policy)


def _change(name: str, given: Any, wire: dict[str, Any]) -> tuple[str, Any, str]:  # noqa: ANN401 - by option
    """Return the field that an option changes, its new value, and what to call that."""
    match name:
        case "decay":
            return "decay", _decay(given), "without decay" if given == _NONE else f"decay {given}"
        case "grader":
            return "graders", given, f"paid by {' and '.join(given)}"
        case "without_grader":
            return (
                "without_graders",
                [*wire.get("without_graders", []), *given],
                f"without grader {' and '.join(given)}",
            )
        case "without_session":
            left_out = list(dict.fromkeys([*wire.get("without_sessions", []), *given]))
            return "without_sessions", left_out, f"without session {' and '.join(given)}"
        case "arm_alias":
            pairs = dict(_pair(text) for text in given)
            label = " and ".join(f"{alias} as {arm}" for alias, arm in pairs.items())
            return "arm_aliases", {**wire["arm_aliases"], **pairs}, f"with {label}"
        case "balances":
            sources = balances(given)
            label = f"with the opening balances of {' and '.join(sources)}" if sources else NO_BALANCES
            return "balances", sources, label
        case _:
            return name, given, f"{name.replace('_', ' ')} {given}"


def balances(given: list[str] | None) -> list[str]:
    """Return the patterns of `--balances`; none if it was omitted.

    Raises:
        UsageError: It gives `none` and patterns.
    """
    if given is None or given == [_NONE]:
        return []
    if _NONE in given:
        raise UsageError("--balances expects `none` or sources, got both; nothing was computed. Omit one of them.")
    return given


def _pair(text: str) -> tuple[str, str]:
    pair = _PAIR.fullmatch(text)
    if pair is None:
        raise UsageError(
            f"--arm-alias expects ALIAS=ARM, got {text!r}; nothing was computed. Write a = in a name as ==."
        )
    return pair[1].replace("==", "="), pair[2].replace("==", "=")


def _decay(text: str) -> dict[str, Any] | None:
    mode, _, value = text.partition(":")
    match mode:
        case "none" | "events" if not value:
            return None if mode == _NONE else {"mode": mode}
        case "time" if (span := _SPAN.fullmatch(value)) is not None:
            return {"mode": mode, "half_life": float(span[1]) * _UNITS_S[span[2]]}
        case "session" | "arm":
            with suppress(ValueError):
                return {"mode": mode, "gamma": float(value)}
        case _:
            pass
    raise UsageError(
        f"--decay expects none, time:SECONDS (or 12h, 7d, 2w), session:GAMMA, arm:GAMMA or events, got {text!r}; "
        f"nothing was computed.{_decay_hint(text)}"
    )


def _decay_hint(text: str) -> str:
    """Return a suggestion for a value without its mode: a span of time, or a factor."""
    if (span := _SPAN.fullmatch(text)) is None:
        return ""
    if span[2] or float(span[1]) > 1:
        return f" Did you mean time:{text}?"
    return f" Did you mean session:{text} or arm:{text}?"


def _note_time(args: argparse.Namespace, policy: Policy, ledger: Ledger) -> None:
    """Print the time as of which evidence decays if `--decay-at` is missing: it may come from an excluded session."""
    if not policy.without_sessions or not isinstance(policy.decay, TimeDecay) or args.decay_at is not None:
        return
    from rightful.projections.facts import log_clock

    projected = ledger.projected()
    through = projected.prefix(options.as_of(args))
    if latest_us := log_clock.latest_at_us(ledger.log, projected.facts, through):
        terminal.note_stderr(
            f"evidence is decayed as of {times.text_of(latest_us)}, the latest time in the ledger, including excluded "
            f"sessions; use --decay-at to choose another time."
        )


def _note_idle(args: argparse.Namespace, facts: Facts) -> None:
    """Print the options that match nothing in this ledger: a typing error would have no effect silently."""
    graders = ["/".join(grader) for grader in facts.graders.values]
    sources = [balance.source for balance in facts.balances]
    arms = {*facts.arms.values, *(arm for balance in facts.balances for arm in balance.arms)}
    idle = [
        *_unfit("--grader", args.grader, graders, "no grade has such a grader"),
        *_unfit("--without-grader", args.without_grader, graders, "no grade has such a grader"),
        *_unfit("--balances", args.balances, [*sources, _NONE], "no opening balance has such a source"),
        *(
            f"--arm-alias {pair}: no exposure or balance names {_pair(pair)[0]}."
            for pair in args.arm_alias or ()
            if _pair(pair)[0] not in arms
        ),
    ]
    for sentence in idle:
        terminal.note_stderr(sentence)


def _unfit(option: str, patterns: list[str] | None, known: list[str], what: str) -> Iterator[str]:
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in known):
            yield f"{option} {pattern}: {what} in this ledger."


def differences(policy: Policy, other: Policy) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two policies differ, with both values as JSON has them."""
    import msgspec

    first, second = msgspec.to_builtins(policy), msgspec.to_builtins(other)
    return {name: (value, second[name]) for name, value in first.items() if value != second[name]}
