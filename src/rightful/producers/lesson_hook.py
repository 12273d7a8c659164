"""The four artifacts of gptme-contrib's Claude Code lesson hook, told apart by their shape.

| artifact | shape | session | event id from |
|---|---|---|---|
| state file | `injected` | `claude-code:<file stem>`, an alias | (stem, path): one event an arm |
| trajectory log | `lessons` | `claude-code:<session_id>` | the line's content and its occurrence |
| dropout log | `withheld` | `claude-code:<session_id>` | the same |
| lesson events | `lesson_file` | `claude-code:<id in the file's name>`, an alias | the same |

Lines have no id of their own, so their id comes from their content and from how often that
content stood in the file before: the same line twice is two facts, the same file twice is not.

A state file says which lessons a session saw, never when: `last_pretool` and the file's own
time are only bounds, so `at_basis` is `file`. Its name is the sanitised form of the session's
id, so it is an alias. Dropout logs are also written by gptme (they have `matched`), whose id
is drawn at random where it knows no session; such an id names nobody.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful import times
from rightful.errors import InvalidEventError
from rightful.producers.fields import digest, epoch_us, key_of, moment_us, session_of, shaped
from rightful.producers.files import Found, Problem
from rightful.producers.importing import Origin, Reader, Wire

NAMESPACE = "claude-code"
"""The namespace of the sessions it names."""

_EVENTS_NAME = re.compile(r"cc-session-(?P<safe>.+)-lessons\.jsonl\Z")
_DRAWN_AT_RANDOM = re.compile(r"[0-9a-f]{32}\Z")  # uuid4().hex; every tool's own ids have another form


class _State(msgspec.Struct):
    injected: list[str]


class _Lesson(msgspec.Struct):
    path: str


class _Trajectory(msgspec.Struct):
    ts: float
    session_id: str
    lessons: list[_Lesson]


class _Withheld(msgspec.Struct):
    path: str
    effective_epsilon: float | None = None


class _Dropout(msgspec.Struct):
    ts: float
    session_id: str
    withheld: list[_Withheld]
    epsilon: float | None = None


class _LessonEvent(msgspec.Struct):
    lesson_file: str
    timestamp_inject: str


class LessonHook:
    """The kind `lesson-hook`."""

    NAME = "lesson-hook"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object is of one of the four artifacts."""
        return _artifact(value) is not None

    def reader(self, origin: Origin) -> LessonHookReader:
        """Return the reader of one file."""
        return LessonHookReader(origin)


def _artifact(value: Mapping[str, Any]) -> str | None:
    if "injected" in value:
        return "state"
    if "session_id" in value and "lessons" in value and ("ts" in value or "tool_seq" in value):
        return "trajectory"
    if "session_id" in value and "withheld" in value:
        return "dropout"
    if "lesson_file" in value:
        return "events"
    return None


class LessonHookReader(Reader):
    """Reads one file; holds how often each line stood in it.

    Args:
        origin: The file; its name is the only place where some artifacts say whose they are.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._seen: Counter[str] = Counter()

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the exposures of one object.

        Raises:
            InvalidEventError: It has the form of none of the four, or does not say whose it is.
        """
        match _artifact(found.value):
            case "state":
                yield from self._of_state(found.value, found.line)
            case "trajectory":
                yield self._of_trajectory(found.value)
            case "dropout":
                yield self._of_dropout(found.value)
            case "events":
                yield self._of_lesson_event(found.value)
            case _:
                keys = ", ".join(sorted(found.value)[:5])
                raise InvalidEventError(f"Expected an artifact of the lesson hook, got an object with {keys[:160]!r}")

    def _of_state(self, value: Mapping[str, Any], line: int) -> Iterator[Wire | Problem]:
        injected = injected_of(value)
        safe, dot, suffix = self._origin.name.rpartition(".")
        if not dot or suffix != "json":
            raise InvalidEventError("Expected a file named <session>.json: a state file does not say whose it is")
        session = session_of(NAMESPACE, safe, "$")
        at_us = last_pretool_us(value) or self._origin.mtime_us or 0
        for path in injected:
            try:
                key = key_of(safe, path)
            except InvalidEventError as error:
                yield Problem(line, str(error))
                continue
            yield _exposure("state", session, key, at_us) | {
                "alias": True,
                "at_basis": "file",
                "arms": [{"arm": path}],
            }

    def _of_trajectory(self, value: Mapping[str, Any]) -> Wire:
        line = shaped(value, _Trajectory)
        session = session_of(NAMESPACE, line.session_id, "$.session_id")
        return self._of_line("trajectory", session, epoch_us(line.ts, "$.ts"), value) | {
            "arms": [{"arm": lesson.path} for lesson in line.lessons],
            "extra": _extra(value, "lessons"),
        }

    def _of_dropout(self, value: Mapping[str, Any]) -> Wire:
        line = shaped(value, _Dropout)
        if "matched" in value and _DRAWN_AT_RANDOM.match(line.session_id):
            what = (
                f"Expected a session id, got {line.session_id!r}: gptme makes up such a one where it knows "
                f"no session, so it names nobody"
            )
            raise InvalidEventError(what, "$.session_id")
        session = session_of(NAMESPACE, line.session_id, "$.session_id")
        return self._of_line("dropout", session, epoch_us(line.ts, "$.ts"), value) | {
            "arms": [],
            "withheld": [_withheld(one, line.epsilon) for one in line.withheld],
            "extra": _extra(value, "withheld"),
        }

    def _of_lesson_event(self, value: Mapping[str, Any]) -> Wire:
        line = shaped(value, _LessonEvent)
        named = _EVENTS_NAME.match(self._origin.name)
        if named is None:
            what = "Expected a file named cc-session-<session>-lessons.jsonl: its lines do not say whose they are"
            raise InvalidEventError(what)
        session = session_of(NAMESPACE, named["safe"], "$")
        at_us, _ = moment_us(line.timestamp_inject, "$.timestamp_inject")
        return self._of_line("events", session, at_us, value) | {
            "alias": True,
            "arms": [{"arm": line.lesson_file}],
            "extra": _without(value, "lesson_file", "timestamp_inject"),
        }

    def _of_line(self, artifact: str, session: str, at_us: int, value: Mapping[str, Any]) -> Wire:
        content = digest([artifact, session, value])
        self._seen[content] += 1
        return _exposure(artifact, session, key_of(session, content, self._seen[content]), at_us)


def injected_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the lessons of a state file, each once, in its order.

    Raises:
        InvalidEventError: It has not the shape of a state file.
    """
    return tuple(dict.fromkeys(shaped(value, _State).injected))


def last_pretool_us(value: Mapping[str, Any]) -> int | None:
    """Return a state file's own time; microseconds since 1970, UTC; None if it gives none.

    Raises:
        InvalidEventError: It is beyond all time.
    """
    last = value.get("last_pretool")
    if isinstance(last, int | float) and not isinstance(last, bool) and math.isfinite(last) and last > 0:
        return epoch_us(last, "$.last_pretool")
    return None


def _exposure(artifact: str, session: str, key: str, at_us: int) -> Wire:
    return {
        "type": "exposure.recorded",
        "producer": f"{LessonHook.NAME}-{artifact}",
        "key": key,
        "session": session,
        "at": times.text_of(at_us),
    }


def _withheld(lesson: _Withheld, epsilon: float | None) -> dict[str, Any]:
    dropped = lesson.effective_epsilon if lesson.effective_epsilon is not None else epsilon
    return {"arm": lesson.path} if dropped is None else {"arm": lesson.path, "p_inject": 1.0 - dropped}


def _extra(value: Mapping[str, Any], lessons: str) -> dict[str, Any]:
    """What a line says beside its arms; the details of each lesson stand in the order of the arms."""
    return _without(value, "ts", "session_id") | {lessons: [_without(one, "path") for one in value[lessons]]}


def _without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in names}
