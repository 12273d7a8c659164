"""Resolve the WHAT argument of `explain` to an event, a session or an arm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rightful.cli.support import options
from rightful.errors import UsageError

if TYPE_CHECKING:
    from rightful.ledger import Ledger
    from rightful.log.log import Log
    from rightful.policies import Policy
    from rightful.projections.facts.facts import Facts

EVENT, SESSION, ARM = "event", "session", "arm"

_POSITION = re.compile(r"#?([0-9]{1,18})\Z")
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]+)*-?\Z")
_ID_DIGITS = 32
_UUID_PARTS = (8, 12, 16, 20)
_CANDIDATES = 5


class Target(NamedTuple):
    """The event, session or arm to explain.

    Attributes:
        kind: `event`, `session` or `arm`.
        name: The session's or arm's full name, the event's id or `#` and its position.
        position: The event's position; 0 for the others.
    """

    kind: str
    name: str
    position: int = 0


def is_event(text: str) -> bool:
    """Return whether a text has the form of a position or of the beginning of an event id."""
    return bool(_POSITION.match(text) or _ID.match(text))


def resolve(ledger: Ledger, text: str, kind: str | None, policy: Policy) -> Target:
    """Return the target of WHAT.

    Args:
        ledger: The ledger to search.
        text: The argument.
        kind: The kind given by an option; None to recognise it by its form.
        policy: Its aliases name arms too.

    Raises:
        UsageError: Nothing in the ledger matches, or several targets do; the message names them.
    """
    if kind == SESSION:
        return Target(SESSION, options.session_named(ledger, text))
    facts = ledger.projected().catch_up()
    found = _targets(ledger, text, kind, policy)
    if len(found) == 1:
        if found[0].kind == SESSION:
            options.note_others(facts, text, found[0].name)
        return found[0]
    if found:
        raise UsageError(_several(text, found))
    raise UsageError(_none(facts, text, kind, ledger.log.head()))


def _targets(ledger: Ledger, text: str, kind: str | None, policy: Policy) -> list[Target]:
    """Return all matches. The beginning of a session value counts only if nothing matches as a whole."""
    facts = ledger.projected().facts
    found = events(ledger.log, text) if kind in {None, EVENT} else []
    whole = bool(found) and _POSITION.match(text) is not None
    if kind is None:
        sessions = options.sessions_with(facts, text)
        whole = whole or bool(sessions)
        found += [Target(SESSION, name) for name in sessions]
    if kind in {None, ARM}:
        arms = _arms(facts, text, policy)
        whole = whole or bool(arms)
        found += [Target(ARM, name) for name in arms]
    if kind is None and not whole:
        found += [Target(SESSION, name) for name in options.sessions_beginning(facts, text)]
    return found


def events(log: Log, text: str) -> list[Target]:
    """Return the events that match a text: a position, an id or the beginning of one."""
    from rightful.reports.explain import position_of

    if (number := _POSITION.match(text)) and 1 <= int(number[1]) <= log.head():
        return [Target(EVENT, f"#{int(number[1])}", int(number[1]))]
    if not _ID.match(text):
        return []
    digits = text.replace("-", "").lower()
    if len(digits) > _ID_DIGITS:
        return []
    starts = [at for at in _UUID_PARTS if at < len(digits)]
    start = "-".join(digits[a:b] for a, b in zip([0, *starts], [*starts, len(digits)], strict=True))
    return [Target(EVENT, event_id, position_of(log, event_id)) for event_id in log.ids_like(start, _CANDIDATES + 1)]


def _arms(facts: Facts, text: str, policy: Policy) -> list[str]:
    """Return the arms that match a text, with the aliases of the policy applied."""
    known = {*facts.arms.values, *(arm for balance in facts.balances for arm in balance.arms)}
    aliases = policy.arm_aliases
    known |= {arm for alias, arm in aliases.items() if alias in known}
    known |= {alias for alias, arm in aliases.items() if arm in known}
    if text in known:
        return [aliases.get(text, text)]
    ends = (f"/{text.lstrip('/')}", f":{text}")
    return sorted({aliases.get(arm, arm) for arm in known if arm.endswith(ends)}) if text.strip("/") else []


def _several(text: str, found: list[Target]) -> str:
    kinds = {target.kind for target in found}
    candidates = ", ".join(f"{target.kind} {target.name}" for target in found[:_CANDIDATES])
    more = f" and {len(found) - _CANDIDATES:,} more" if len(found) > _CANDIDATES else ""
    how = " or ".join(f"--{kind}" for kind in (EVENT, SESSION, ARM) if kind in kinds)
    fix = f"Choose with {how}" if len(kinds) > 1 else "Type one in full"
    return f"{text!r} is ambiguous: {candidates}{more}; nothing was explained. {fix}."


def _none(facts: Facts, text: str, kind: str | None, head: int) -> str:
    near = sorted(arm for arm in facts.arms.values if text and text in arm)
    if kind is None and text:
        near += facts.names.containing(text, facts.watermark)
    what = {EVENT: "event", ARM: "arm"}.get(kind or "", "event, session or arm")
    lists = " `rightful posteriors` lists the arms" + (
        ", `rightful status --sessions` the sessions." if not kind else "."
    )
    hint = f" Names that contain it: {options.names_text(near)}." if near else lists
    if not near and _POSITION.match(text):
        hint = f" The last position is {head}." if head else " The ledger is empty."
    return f"no {what} {text!r} is in this ledger; nothing was explained.{hint}"
