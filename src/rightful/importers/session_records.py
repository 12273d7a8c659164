"""The session records of gptme-sessions: one JSON object per session, in `session-records.jsonl`.

| of a row | becomes |
|---|---|
| `session_id` and `start_time`, else `timestamp` | the session `workspace:<session_id>@<that>`, since ids are reused |
| `harness`, `model` | `session.started` |
| `trajectory_path` (in old rows `journal_path`) | `session.linked` to the tool's own name, if the path has it |
| `trajectory_grade`, else `grades.productivity`, and `outcome` | the grade `session-records/overall` |
| every other of `grades`, and `llm_judge_score` | a grade with that rubric |
| `lesson_events` | an exposure each, at its own time; the list is also in `extra` of `session.ended` |
| `exit_code` and all the rest | `session.ended`; the rest as `extra` |

The store rewrites its whole file, so a row may occur again with other grades. An id is derived from the row's content:
a grade that equals the last one, or that was imported before with the same time, is a duplicate; any other is a
regrade. The row's latest time decides which grade is newest, not the order of import: a grade older than one that the
ledger has of that rubric comes from an older copy of the file, and is not imported. Among grades of one time, and of
rows without a time, the order of import decides. A grade that returns to an earlier value without a new time cannot be
distinguished from an older copy, and is a duplicate. If a later row repeats a grade, the grade keeps its first time.

An invalid time is noted, and is not part of a name. A time without a UTC offset comes from gptme, in the local time of
its machine, and is read as local time of this machine (`gptme_times`).

The time of a grade is the end of its session: `end_time`, else the start plus `duration_seconds`, rounded up to a
second. A row without both may have been written at the start or at the end of the session. Then only an upper bound is
known: the time of the file, or the time of reading standard input (`at_basis: file`). Earlier versions used the latest
time of the row, by UTC. A grade with such a time is imported again, once, with a reference to the one it corrects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rightful import content, limits, times
from rightful.encoding import wire
from rightful.errors import InvalidEventError
from rightful.identity import event_id
from rightful.importers.engine.formats import Origin, Plan, Reader, Wire
from rightful.importers.gptme.gptme_times import local_us
from rightful.importers.lesson_hook import lesson_lines as lesson_events
from rightful.importers.shared.foreign_fields import digest, doubt_of, key_of, moment_us, session_of, shaped
from rightful.importers.shared.grade_numbers import (
    CORRECTS,
    ROW_AT,
    Grade,
    GradeContent,
    Grader,
    graded_again,
    graders_of,
)
from rightful.importers.shared.native_names import native_name
from rightful.importers.sources.text_files import Problem
from rightful.log.rows import Receipt

if TYPE_CHECKING:
    from rightful.importers.sources.text_files import Found
    from rightful.log.log import Log

PRODUCER = "session-records"
"""The producer of the events."""

NAMESPACE = "workspace"
"""The namespace of the sessions."""

_OVERALL = "overall"
_RUBRIC_FORM = f"a dimension of 1 to {limits.WORD_CHARS} characters without `/` and control characters"
_OLDER = (
    "grades of an older copy, which were not imported, since the ledger has a later grade of the same session and "
    "rubric, by the times of their rows"
)
_CORRECTED = (
    "grades that an earlier version imported with a wrong time (not that of the session's end, or local time read as "
    "UTC), which were imported again"
)
_UNNAMED = ", and is not part of the session's name"
_TIMES = ("start_time", "timestamp", "end_time")
_SECOND_US = 1_000_000  # durations have whole seconds, and a row is written within a second of its end
_TAKEN = frozenset(
    {
        "session_id",
        "harness",
        "model",
        "exit_code",
        "outcome",
        "grades",
        "trajectory_grade",
        "llm_judge_score",
        *_TIMES,
    }
)
_MARKS = frozenset({"outcome", "grades", "trajectory_grade", "harness", "trajectory_path", "journal_path"})
_OTHERS = frozenset({"lessons", "withheld"})  # the hook's logs, and lesson-thompson/sessions.jsonl


class _Row(msgspec.Struct):
    session_id: str


class _When(NamedTuple):
    """The times of a row; microseconds since 1970, UTC.

    Attributes:
        first_us: When the session began; None if the row has no time.
        end_us: When it ended; None if the row has no end.
        bound_us: An upper bound of all times of the row.
        row_us: The row's latest time, read as UTC if it has no offset; copies of a row are ordered by it.
        name: The text that makes the session's name unique; "" for none.
        last: The row's latest time, as written.
    """

    first_us: int | None
    end_us: int | None
    bound_us: int
    row_us: int | None
    name: str
    last: str

    def stamp(self, at_us: int | None) -> Wire:
        """Return the fields of a time, or of the upper bound if the time is unknown."""
        if at_us is None:
            return {"at": times.text_of(self.bound_us), "at_basis": "file"}
        return {"at": times.text_of(at_us)}

    def beside(self) -> Wire:
        """Return the `extra` of a grade with the row's time, if that is not the grade's own time."""
        if self.row_us is None or (self.end_us is not None and abs(self.end_us - self.row_us) <= _SECOND_US):
            return {}
        return {"extra": {ROW_AT: times.text_of(self.row_us)}}


class SessionRecords:
    """The kind `session-records`."""

    NAME = "session-records"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a session record."""
        return "session_id" in value and not _MARKS.isdisjoint(value) and _OTHERS.isdisjoint(value)

    def reader(self, origin: Origin) -> SessionRecordsReader:
        """Return the reader of one file."""
        return SessionRecordsReader(origin)


class SessionRecordsReader(Reader):
    """Reads one file.

    Args:
        origin: The file; its time is used for rows without a time.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._told_of_naive = False

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one row.

        Raises:
            InvalidEventError: It has no session id, or neither the row nor the file has a time.
        """
        row = found.value
        session_id = shaped(row, _Row).session_id
        when, notes = self._when(row)
        session = session_of(NAMESPACE, session_id, "$.session_id", suffix=f"@{when.name}" if when.name else "")
        if (doubt := doubt_of(session_id, "$.session_id")) is not None:
            notes.append(doubt)
        for note in notes:
            yield Problem(found.line, note, lost=False)
        yield from _started(row, session, when)
        yield from _linked(row, session, when)
        yield from _ended(row, session, when)
        yield from lesson_events.of_record(row, session, PRODUCER, found.line)
        for event in _graded(row, session, when):
            yield event if isinstance(event, dict) else Problem(found.line, str(event))

    def _when(self, row: Mapping[str, Any]) -> tuple[_When, list[str]]:
        """Return a row's times, and notes on them."""
        read: dict[str, int] = {}
        by_utc: list[int] = []
        notes: list[str] = []
        started = started_text(row)
        for field in _TIMES:
            if row.get(field) is None:
                continue
            text, place = str(row[field]), f"$.{field}"
            try:
                (by_utc_us, _), (at_us, zone) = moment_us(text, place), local_us(text, place)
            except InvalidEventError as error:
                is_unnamed = field != "end_time" and text != started
                notes.append(f"{error}; it was ignored{_UNNAMED * is_unnamed}")
                continue
            read[field] = at_us
            by_utc.append(by_utc_us)
            if zone is not None and not self._told_of_naive:
                self._told_of_naive = True
                what = f"such times in this file were read as local time of this machine ({zone} in this row)"
                notes.append(f"`{field}` has no UTC offset; {what}")
        mtime_us = self._origin.mtime_us
        if read:
            if not started:
                notes.append("the row has no start time, so the session's name does not include one")
            latest = max(str(row.get(field) or "") for field in _TIMES)
            bound_us = max(mtime_us or 0, *read.values())
            first_us, end_us = next(iter(read.values())), read.get("end_time", _ended_us(row, read, notes))
            return _When(first_us, end_us, bound_us, max(by_utc), started, latest), notes
        if mtime_us is None:
            raise InvalidEventError("Expected `timestamp`: the row has no time, and stdin has none", "$.timestamp")
        notes.append("the row has no time: the file's time was used, and the session's name does not include a start")
        return _When(None, None, mtime_us, None, started, ""), notes

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return the events with the `seq` of each grade, and the append condition that they depend on."""
        head = log.head()
        graders: dict[str, dict[str, Grader]] = {}
        planned: list[Wire] = []
        found: dict[_Numbered, list[str]] = {what: [] for what in _Numbered}
        older: dict[int, Receipt] = {}
        read_at = {"at": times.text_of(log.now_us())} if self._origin.mtime_us is None else {}
        for place, event in enumerate(events):
            if "at_basis" in event:
                event |= read_at  # noqa: PLW2901 - the only upper bound for rows of standard input
            if event["type"] != "grade.recorded":
                planned.append(event)
                continue
            session = event["session"]
            if session not in graders:
                graders[session] = graders_of(log, session, PRODUCER, until=head)
            grade, outcome = _numbered(event, graders[session].setdefault(event["rubric"], Grader()))
            planned.append(grade)
            found[outcome].append(session)
            if outcome is _Numbered.OLDER:
                older[place] = Receipt(grade["id"], "stale", None, None)
        notes = [Problem(None, f"{_OLDER}: {len(older)}", lost=False)] if older else []
        if corrected := found[_Numbered.CORRECTED]:
            notes.append(Problem(None, f"{_CORRECTED}: {len(corrected)}", lost=False))
        new = found[_Numbered.NEW] + corrected
        return Plan(planned, graded_again(new) if new else None, head, older, tuple(notes))


def _ended_us(row: Mapping[str, Any], read: Mapping[str, int], notes: list[str]) -> int | None:
    """Return when a session ended, from its start and duration; None if the row does not have both."""
    lasted_s = row.get("duration_seconds")
    field = next((field for field in ("start_time", "timestamp") if field in read), None)
    if field is None or lasted_s is None or lasted_s == 0:
        return None
    is_number = isinstance(lasted_s, int | float) and not isinstance(lasted_s, bool)
    if not is_number or not 0 < lasted_s <= limits.AT_MAX_US / _SECOND_US:
        notes.append(
            f"Expected a duration in seconds, got {str(lasted_s)[:32]!r} - at `$.duration_seconds`; it was ignored"
        )
        return None
    try:
        end_us, _ = local_us(str(row[field]), f"$.{field}", plus_s=lasted_s)
    except InvalidEventError as error:
        notes.append(f"{error}; with `duration_seconds` the end is out of range")
        return None
    return -(-end_us // _SECOND_US) * _SECOND_US


class _Numbered(Enum):
    NEW = "new"
    CORRECTED = "corrected"
    KNOWN = "known"
    OLDER = "older"


def _numbered(event: Wire, grader: Grader) -> tuple[Wire, _Numbered]:
    """Return a grade with its seq, and how it relates to the stored grades.

    A grade that is older than another one of its grader, by the times of their rows, is never effective: it comes
    from an older copy of the file, whichever was imported first. An effective grade with a wrong time in the ledger is
    recorded again with the next seq.
    """
    said = GradeContent(event.get("reward"), event.get("outcome"))
    at_us = None if "at_basis" in event else times.us_from(event["at"])
    own_id = event_id(PRODUCER, event["key"])
    last, newest_us, own = grader.last(), grader.newest_us(), grader.known(own_id)
    before = own or (last if last is not None and last.said == said else None)
    grade = before or Grade(own_id, grader.next_seq, said, at_us, event.get("extra"))
    outcome = _Numbered.NEW if before is None else _Numbered.KNOWN
    if own is not None and own is last and own.said == said and _is_wrong(own.at_us, at_us):
        extra = {**event.get("extra", {}), CORRECTS: own.seq}
        again_id = event_id(PRODUCER, key_of(event["key"], "again"))
        grade, outcome = Grade(again_id, grader.next_seq, said, at_us, extra), _Numbered.CORRECTED
    elif before is None and None not in (grade.row_us, newest_us) and grade.row_us < newest_us:  # type: ignore[operator]
        outcome = _Numbered.OLDER
    if outcome in {_Numbered.NEW, _Numbered.CORRECTED}:
        grader.add(grade)
    rest = {name: item for name, item in event.items() if name not in ("key", "extra")}
    beside = {} if grade.extra is None else {"extra": dict(grade.extra)}
    return rest | {"id": grade.id, "seq": grade.seq} | beside, outcome


def _is_wrong(stored_us: int | None, at_us: int | None) -> bool:
    """Return whether the time of a stored grade differs from the row's; None is an upper bound."""
    if stored_us is None or at_us is None:
        return stored_us is not at_us
    return abs(stored_us - at_us) > _SECOND_US


def _event(kind: str, session: str, when: _When, at_us: int | None, *key: str) -> Wire:
    stamp = when.stamp(at_us)
    return {"type": kind, "producer": PRODUCER, "key": key_of(session, kind, *key), "session": session} | stamp


def _started(row: Mapping[str, Any], session: str, when: _When) -> Iterator[Wire]:
    facts = {name: row[name] for name in ("harness", "model") if row.get(name) is not None}
    yield _event("session.started", session, when, when.first_us, digest(facts)) | facts


def _linked(row: Mapping[str, Any], session: str, when: _When) -> Iterator[Wire]:
    native = native_name(row)
    if native is not None:
        link = {"other": native, "as": "native", "evidence": "pointer"}
        yield _event("session.linked", session, when, when.first_us, native) | link


def _ended(row: Mapping[str, Any], session: str, when: _When) -> Iterator[Wire]:
    rest = {name: item for name, item in row.items() if name not in _TAKEN and item is not None}
    exit_code = row.get("exit_code")
    if not rest and exit_code is None and row.get("end_time") is None:
        return
    facts: Wire = {} if exit_code is None else {"exit_code": exit_code}
    if rest:
        facts["extra"] = rest
    yield _event("session.ended", session, when, when.end_us, digest(facts)) | facts


def _graded(row: Mapping[str, Any], session: str, when: _When) -> Iterator[Wire | InvalidEventError]:
    """Yield a row's grades without their seq, and errors of invalid ones."""
    dimensions = row.get("grades")
    if dimensions is not None and not isinstance(dimensions, dict):
        yield InvalidEventError(f"Expected `object`, got `{content.json_type(dimensions)}`", "$.grades")
        dimensions = None
    others = {name: value for name, value in (dimensions or {}).items() if value is not None}
    if row.get("llm_judge_score") is not None:
        others.setdefault("alignment", row["llm_judge_score"])
    if len(others) > limits.ARMS_COUNT:
        yield InvalidEventError(f"Expected at most {limits.ARMS_COUNT} dimensions", "$.grades")
        others = {}
    reward, outcome, place = overall(row)
    if row.get("trajectory_grade") is None:
        others.pop("productivity", None)
    if reward is not None or outcome is not None:
        grade = _grade(session, when, _OVERALL, reward, outcome, place)
        yield grade
        if isinstance(grade, InvalidEventError) and grade.place == "$.outcome" and reward is not None:
            yield _grade(session, when, _OVERALL, reward, None, place)
    for rubric, value in others.items():
        if rubric == _OVERALL:
            what = "Expected a dimension other than `overall`, which names the overall grade"
            yield InvalidEventError(what, "$.grades.overall")
        else:
            yield _grade(session, when, rubric, value, None, f"$.grades.{rubric}")


def overall(row: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """Return the reward and the outcome of a row's overall grade, unchecked, and the place of the reward."""
    place, reward = "$.trajectory_grade", row.get("trajectory_grade")
    grades = row.get("grades")
    if reward is None and isinstance(grades, dict):
        place, reward = "$.grades.productivity", grades.get("productivity")
    outcome = row.get("outcome")
    return reward, None if outcome == "unknown" else outcome, place


def started_text(row: Mapping[str, Any]) -> str:
    """Return the text that makes a row's reusable id unique: its `start_time`, else its `timestamp`, as written.

    A text that is not a valid time is skipped; "" if neither is valid.
    """
    for field in ("start_time", "timestamp"):
        if row.get(field) is not None and _is_time(text := str(row[field])):
            return text
    return ""


def _is_time(text: str) -> bool:
    """Return whether a text is a time of any year: a name may contain a time that is out of range for events."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _grade(
    session: str,
    when: _When,
    rubric: str,
    reward: Any,  # noqa: ANN401 - checked below
    outcome: Any,  # noqa: ANN401 - checked below
    place: str,
) -> Wire | InvalidEventError:
    """Return one grade without its seq, or an error: an invalid grade must not use up a seq."""
    reward = float(reward) if reward in (0, 1) and not isinstance(reward, bool) else reward
    said = {name: value for name, value in (("reward", reward), ("outcome", outcome)) if value is not None}
    try:
        key = _event("grade.recorded", session, when, when.end_us, rubric, digest([said, when.last]))
        grade = key | {"rubric": rubric} | said | when.beside()
        wire.check(grade | {"seq": 1})
    except InvalidEventError as error:
        if error.place == "$.rubric":
            return InvalidEventError(f"Expected {_RUBRIC_FORM}, got {rubric[:64]!r}", "$.grades")
        return InvalidEventError(error.what, place if error.place == "$.reward" else error.place)
    return grade
