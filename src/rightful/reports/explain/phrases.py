"""Phrases of an explanation: why a bin pays no arm, time spans, and events that would settle it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rightful import times
from rightful.identity import composite_key
from rightful.projections.credit.inputs import BINS

Wire = dict[str, Any]

WHY: Mapping[str, str] = {
    "credited": "it paid the arms that its target was shown",
    "unmatched": "no exposure of that session is recorded",
    "empty": "its exposure lists no lesson",
    "retracted": "the grade was retracted",
    "late_only": "every exposure is later than the grade",
    "unmapped": "the policy assigns no value to its outcome word",
    "in_balance": "an opening balance covers its run",
    "erased": "its exposure was erased",
}
"""Why the grades of a bin end there, as a clause, for bins with one cause; `bin_reasons.why` adds the others."""

SESSION_EXCLUDED = "The policy excludes its session (`without_sessions`) and the rest of its run."

REWARD = "<reward, 0 to 1>"
"""Placeholder for a reward that only a grader knows; the wire check refuses it, since it is not a number."""

ARMS = "<the arms that were shown, an array of objects with `arm`>"
"""Placeholder for arms that only the showing tool knows; the wire check refuses it, since it is not an array."""

OTHER_NAME = "<the run's name in the tool that showed the arms>"
"""Placeholder for another name of the run that only a person knows; not a valid session name."""

PRODUCER = "<producer>"
"""Placeholder for the producer of a grade that does not exist yet; not a valid producer."""

DESK = "manual"
"""The producer of events that a person adds by hand."""

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000))


class Remedy(msgspec.Struct, frozen=True):
    """A condition under which a grade would count.

    Attributes:
        what: A sentence.
        events: Wire objects to append; text in angle brackets is a placeholder for what only a
            person knows, and the wire check refuses it.
        policy: A policy to use instead, if nothing needs to be recorded: the fields of the given policy that
            are not defaults, with the necessary changes.
    """

    what: str
    events: list[Wire] = []
    policy: Wire | None = None


def bin_name(number: int) -> str:
    """Return the display name of a bin: `late-only`."""
    return BINS[number].replace("_", "-")


def span(us: int) -> str:
    """Return a time span in its two largest units: `3 m 5 s`, `2 d 4 h`, `0.2 s`."""
    rest, resolves_run = abs(us), list[str]()
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or resolves_run:
            resolves_run.append(f"{count} {unit}")
    resolves_run.append(f"{rest / 1_000_000:.6f}".rstrip("0").rstrip(".") + " s")
    return " ".join([part for part in resolves_run[:2] if not part.startswith("0 ")] or resolves_run[:1])


def listed(names: list[str], most: int = 5) -> str:
    """Return names as a phrase: `a, b and 3 more`."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def count(number: int, what: str) -> str:
    """Return a count with its noun: `1 grade`, `2 grades`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def exposure_event(session: str, at_us: int, arms: list[str]) -> Wire:
    """Return an exposure that a person could add; its key makes a second append a duplicate."""
    return {
        "type": "exposure.recorded", "producer": DESK, "key": composite_key("explain", "exposure", session, at_us),
        "session": session, "at": times.text_of(at_us), "arms": [{"arm": arm} for arm in arms] or ARMS,
    }  # fmt: skip


def link_event(kind: str, session: str, other: str, at_us: int) -> Wire:
    """Return a link or an unlink by hand."""
    fields = {"as": "native", "evidence": "manual"} if kind == "session.linked" else {}
    named = () if other == OTHER_NAME else (other,)
    return {
        "type": kind, "producer": DESK, "key": composite_key("explain", kind, session, *named, at_us),
        "session": session, "at": times.text_of(at_us), "other": other, **fields,
    }  # fmt: skip


def withdrawal_event(session: str, event_id: str, revision: int, at_us: int) -> Wire:
    """Return the withdrawal of one revision of an event."""
    return {
        "type": "event.withdrawn", "producer": DESK, "key": composite_key("explain", "withdrawn", event_id, revision),
        "session": session, "at": times.text_of(at_us), "id": event_id, "revision": revision,
    }  # fmt: skip


def grade_event(session: str, grader: tuple[str, str], seq: int, at_us: int, **fields: object) -> Wire:
    """Return a grade of a grader, or with `kind` its retraction."""
    producer, rubric = grader
    kind = str(fields.pop("kind", "grade.recorded"))
    return {
        "type": kind, "producer": producer, "key": composite_key("explain", kind, session, rubric, seq),
        "session": session, "at": times.text_of(at_us), "seq": seq,
        **({} if rubric == "overall" else {"rubric": rubric}), **fields,
    }  # fmt: skip
