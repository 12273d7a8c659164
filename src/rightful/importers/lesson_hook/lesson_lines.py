"""Lesson events: one object for each lesson that a hook showed to a session.

The Claude Code hook writes them into a file per session, and gptme-sessions copies them into the session's record as
`lesson_events` (gptme-contrib#1471).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful import times
from rightful.content import json_type
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import Wire
from rightful.importers.shared.foreign_fields import arm_of, below, digest, key_of, moment_us, shaped
from rightful.importers.sources.text_files import Problem

FIELD = "lesson_events"
"""The field of a session record that has them."""

KEPT = 500
"""How many of them gptme-sessions stores per session: the earliest ones."""


class _LessonEvent(msgspec.Struct):
    lesson_file: str
    timestamp_inject: str


def exposed(value: Mapping[str, Any]) -> tuple[int, Wire]:
    """Return when a lesson was shown, microseconds since 1970, UTC, and the fields of that exposure.

    Raises:
        InvalidEventError: It does not have the shape of one.
    """
    line: _LessonEvent = shaped(value, _LessonEvent)
    at_us, _ = moment_us(line.timestamp_inject, "$.timestamp_inject")
    arm = arm_of(line.lesson_file, "$.lesson_file")
    rest = {name: item for name, item in value.items() if name not in _LessonEvent.__struct_fields__}
    return at_us, {"arms": [{"arm": arm}], "extra": rest}


def of_record(row: Mapping[str, Any], session: str, producer: str, line: int) -> Iterator[Wire | Problem]:
    """Yield the exposures of a session record's lesson events, and their problems.

    An id is derived from the event's content and from how often the same content precedes it in the record, so a
    record that is imported again adds only new events.
    """
    values = row.get(FIELD)
    if values is None:
        return
    if not isinstance(values, list):
        yield Problem(line, str(InvalidEventError(f"Expected `array`, got `{json_type(values)}`", f"$.{FIELD}")))
        return
    if len(values) >= KEPT:
        what = (
            f"`{FIELD}` has {len(values)} entries: gptme-sessions stores the first {KEPT}, so later ones may be missing"
        )
        yield Problem(line, what, lost=False)
    seen: Counter[str] = Counter()
    for at, value in enumerate(values):
        try:
            at_us, facts = exposed(value)
        except InvalidEventError as error:
            yield Problem(line, str(below(f"$.{FIELD}[{at}]", error)))
            continue
        content = digest(value)
        seen[content] += 1
        key = key_of(session, "exposure.recorded", content, seen[content])
        stamped = {"producer": producer, "key": key, "session": session, "at": times.text_of(at_us)}
        yield {"type": "exposure.recorded"} | stamped | facts
