"""The four artifacts of gptme-contrib's Claude Code lesson hook, distinguished by their shape.

| artifact | shape | session | event id from |
|---|---|---|---|
| state file | `injected` | `claude-code:<file stem>`, an alias | (stem, path): one event per arm |
| trajectory log | `lessons` | `claude-code:<session_id>` | the line's content and its occurrence |
| dropout log | `withheld` | `claude-code:<session_id>`; see below | the same |
| lesson events | `lesson_file` | `claude-code:<id in the file's name>`, an alias | the same |

Lines have no id, so their event id is derived from their content and from how often the same content precedes it in
the file: the same line twice is two facts, the same file twice is not.

A state file says which lessons a session saw, but not when: `last_pretool` and the file's time are only bounds, so
`at_basis` is `file`. Its name is the sanitised form of the session's id, so it is an alias. The hook saves it before it
prints the injected lessons. So a hook that is killed leaves lessons that were never shown, and concurrent hooks lose
each other's lessons: a trajectory log, or lesson events, of the same session are more complete.

gptme also writes dropout logs (with `matched`). `matched` was computed before the token budget dropped lessons, so it
is not an exposure and stays in `extra`. The id there is GPTME_SESSION_ID or CC_SESSION_ID, or else a random one:

| id | session |
|---|---|
| 32 hexadecimal digits | random; it names no session |
| a UUID of version 4, as Claude Code generates them | `claude-code:<id>` |
| a date and a name, as gptme names its conversations | `gptme:<id>` |
| anything else: a label of the workspace, or the UUID of a runner | `gptme-session:<id>` |

The last one is only gptme's own name of the run: a label such as `41c2` is reused, and without a start that
distinguishes its runs it must not match another one. A `session.linked` joins it with its run.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from rightful import times
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import Origin, Reader, Wire
from rightful.importers.lesson_hook import lesson_lines as lesson_events
from rightful.importers.shared.foreign_fields import (
    arm_of,
    below,
    digest,
    doubt_of,
    epoch_us,
    key_of,
    session_of,
    shaped,
)
from rightful.importers.sources.text_files import Found, Problem

NAMESPACE = "claude-code"
"""The namespace of the sessions."""

_EVENTS_NAME = re.compile(r"cc-session-(?P<safe>.+)-lessons\.jsonl\Z")
LABELLED = "gptme-session"
"""The namespace of an id from GPTME_SESSION_ID that has the form of no other tool's ids."""

_OF_CLAUDE_CODE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
_CONVERSATION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[^/\\]+\Z")
_DRAWN_AT_RANDOM = re.compile(r"[0-9a-f]{32}\Z")  # uuid4().hex; the ids of all tools have another form


class _State(msgspec.Struct):
    injected: list[str]


class _Injected(msgspec.Struct):
    injected: list[Any]


class _Lesson(msgspec.Struct):
    path: str


class _Trajectory(msgspec.Struct):
    ts: float
    session_id: str
    lessons: list[Any]


class _Dropout(msgspec.Struct):
    ts: float
    session_id: str
    withheld: list[Any]
    epsilon: Any = None


class LessonHook:
    """The kind `lesson-hook`."""

    NAME = "lesson-hook"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is of one of the four artifacts."""
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
    """Reads one file.

    Args:
        origin: The file; for some artifacts only its name has the session's id.

    Attributes:
        seen: How often each line occurred, by the digest of its content.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.seen: Counter[str] = Counter()

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the exposures of one object.

        Raises:
            InvalidEventError: It does not have the form of an artifact, or its session is unknown.
        """
        match _artifact(found.value):
            case "state":
                yield from self._state_exposures(found.value, found.line)
            case "trajectory":
                yield from self._trajectory_exposures(found.value, found.line)
            case "dropout":
                yield from self._dropout_exposures(found.value, found.line)
            case "events":
                yield self._lesson_exposure(found.value)
            case _:
                keys = ", ".join(sorted(found.value)[:5])
                raise InvalidEventError(f"Expected an artifact of the lesson hook, got an object with {keys[:160]!r}")

    def _state_exposures(self, value: Mapping[str, Any], line: int) -> Iterator[Wire | Problem]:
        injected = shaped(value, _Injected).injected
        safe, dot, suffix = self._origin.name.rpartition(".")
        if not dot or suffix != "json":
            raise InvalidEventError("Expected a file named <session>.json: a state file does not name its session")
        session = session_of(NAMESPACE, safe, "$")
        at_us = self._origin.mtime_us or 0
        try:
            at_us = last_pretool_us(value) or at_us
        except InvalidEventError as error:
            yield Problem(line, f"{error}; it was ignored, and the file's time was used", lost=False)
        seen: set[str] = set()
        for place, lesson in enumerate(injected):
            try:
                path = arm_of(lesson, f"$.injected[{place}]")
            except InvalidEventError as error:
                yield Problem(line, str(error))
                continue
            if path not in seen:
                seen.add(path)
                shown = {"alias": True, "at_basis": "file", "arms": [{"arm": path}]}
                yield _exposure("state", session, key_of(safe, path), at_us) | shown

    def _trajectory_exposures(self, value: Mapping[str, Any], line_number: int) -> Iterator[Wire | Problem]:
        line: _Trajectory = shaped(value, _Trajectory)
        session = session_of(NAMESPACE, line.session_id, "$.session_id")
        yield from self._log_exposures("trajectory", session, "lessons", line, value, line_number, _shown_arm)

    def _dropout_exposures(self, value: Mapping[str, Any], line_number: int) -> Iterator[Wire | Problem]:
        line: _Dropout = shaped(value, _Dropout)
        namespace = _namespace_of(line.session_id) if "matched" in value else NAMESPACE
        session = session_of(namespace, line.session_id, "$.session_id")
        arm = functools.partial(_withheld_arm, epsilon=line.epsilon)
        yield from self._log_exposures("dropout", session, "withheld", line, value, line_number, arm)

    def _log_exposures(
        self, artifact: str, session: str, field: str, line: _Trajectory | _Dropout, value: Mapping[str, Any],
        line_number: int, arm: Callable[[Any, str], dict[str, Any]],
    ) -> Iterator[Wire | Problem]:  # fmt: skip
        if (doubt := doubt_of(line.session_id, "$.session_id")) is not None:
            yield Problem(line_number, doubt, lost=False)
        stamped = self._line_exposure(artifact, session, epoch_us(line.ts, "$.ts"), value)
        arms, details, problems = _arms_and_details(value[field], f"$.{field}", arm)
        yield from (Problem(line_number, what) for what in problems)
        if arms or not problems:
            listed = {"arms": arms} if field == "lessons" else {"arms": [], "withheld": arms}
            extra = _other_fields(value, "ts", "session_id") | {field: details}  # in the order of the arms
            yield stamped | listed | {"extra": extra}

    def _lesson_exposure(self, value: Mapping[str, Any]) -> Wire:
        at_us, facts = lesson_events.exposed(value)
        named = _EVENTS_NAME.match(self._origin.name)
        if named is None:
            what = "Expected a file named cc-session-<session>-lessons.jsonl: its lines do not name their session"
            raise InvalidEventError(what)
        session = session_of(NAMESPACE, named["safe"], "$")
        return self._line_exposure("events", session, at_us, value) | {"alias": True} | facts

    def _line_exposure(self, artifact: str, session: str, at_us: int, value: Mapping[str, Any]) -> Wire:
        content = digest([artifact, session, value])
        self.seen[content] += 1
        return _exposure(artifact, session, key_of(session, content, self.seen[content]), at_us)


def injected_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the lessons of a state file, each once, in its order.

    Raises:
        InvalidEventError: It does not have the shape of a state file.
    """
    return tuple(dict.fromkeys(shaped(value, _State).injected))


def last_pretool_us(value: Mapping[str, Any]) -> int | None:
    """Return a state file's own time; microseconds since 1970, UTC; None if it gives none.

    Raises:
        InvalidEventError: It is out of range.
    """
    last = value.get("last_pretool")
    if isinstance(last, int | float) and not isinstance(last, bool) and math.isfinite(last) and last > 0:
        return epoch_us(last, "$.last_pretool")
    return None


def _namespace_of(session_id: str) -> str:
    """Return the namespace of an id in a dropout log of gptme.

    Raises:
        InvalidEventError: The id is random, so it names no session.
    """
    if _DRAWN_AT_RANDOM.match(session_id):
        what = (
            f"Expected a session id, got {session_id!r}: gptme generates such an id if it knows "
            f"no session, so it does not identify a session"
        )
        raise InvalidEventError(what, "$.session_id")
    if _OF_CLAUDE_CODE.match(session_id):
        return NAMESPACE
    return "gptme" if _CONVERSATION.match(session_id) else LABELLED


def _exposure(artifact: str, session: str, key: str, at_us: int) -> Wire:
    return {
        "type": "exposure.recorded",
        "producer": f"{LessonHook.NAME}-{artifact}",
        "key": key,
        "session": session,
        "at": times.text_of(at_us),
    }


def _arms_and_details(
    values: list[Any], place: str, arm: Callable[[Any, str], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Return the arms of a line's list, the other fields of each, and the problems of invalid entries."""
    arms: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    problems: list[str] = []
    for at, lesson in enumerate(values):
        try:
            arms.append(arm(lesson, f"{place}[{at}]"))
        except InvalidEventError as error:
            problems.append(str(error))
        else:
            details.append(_other_fields(lesson, "path"))
    return arms, details, list(dict.fromkeys(problems))


def _shown_arm(value: Any, place: str) -> dict[str, Any]:  # noqa: ANN401 - a JSON value, checked here
    try:
        return {"arm": arm_of(shaped(value, _Lesson).path, "$.path")}
    except InvalidEventError as error:
        raise below(place, error) from None


def _withheld_arm(value: Any, place: str, epsilon: object) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return a withheld lesson with its probability of injection; an unreadable probability is omitted."""
    arm = _shown_arm(value, place)
    own = value.get("effective_epsilon")
    dropped, where = (epsilon, "$.epsilon") if own is None else (own, f"{place}.effective_epsilon")
    if dropped is None:
        return arm
    if isinstance(dropped, bool) or not isinstance(dropped, int | float) or not 0 <= dropped <= 1:
        raise InvalidEventError(f"Expected a probability from 0 to 1, got {json.dumps(dropped)[:32]}", where)
    return arm | {"p_inject": 1.0 - dropped}


def _other_fields(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in names}
