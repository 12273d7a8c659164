"""The session records of gptme-sessions: one JSON object a session, in `session-records.jsonl`.

| of a row | becomes |
|---|---|
| `session_id` and `start_time`, else `timestamp` | the session `workspace:<session_id>@<that>`, since ids are reused |
| `harness`, `model` | `session.started` |
| `trajectory_path` (in old rows `journal_path`) | `session.linked` to the tool's own name, if it shows |
| `trajectory_grade`, else `grades.productivity`, and `outcome` | the grade `session-records/overall` |
| every other of `grades`, and `llm_judge_score` | a grade with that rubric |
| `lesson_events` | an exposure each, at its own time; the list stands in `extra` of `session.ended` too |
| `exit_code` and all the rest | `session.ended`; the rest as `extra` |

The store rewrites its whole file, so a row may come again with other grades. An id comes from
what the row says: a grade that equals the last one, or that stood there before with the same
time, is a duplicate; any other is a regrade. The row's own latest time decides which is newest,
whatever was imported first: a grade that is older than one that the ledger has of that rubric
stands in an older copy of the file, and is not imported. Among grades of one time, and of rows
that give none, the order of arrival decides. A grade that goes back to an earlier value without a
new time cannot be told from an older copy, and stays a duplicate. A later row that only says the
same again leaves the grade its first time.

What is no time is noted, and is no part of a name. A time without offset is read as UTC. A
grade's time is the latest that the row gives, since it was given after all the row tells of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rightful import limits, times, wire
from rightful.errors import InvalidEventError
from rightful.identity import event_id
from rightful.ledger.recorded import Receipt
from rightful.producers.fields import digest, doubt_of, key_of, moment_us, session_of, shaped
from rightful.producers.importing.files import Problem
from rightful.producers.importing.readers import Origin, Plan, Reader, Wire
from rightful.producers.lesson_hook import lines as lesson_events
from rightful.producers.native_names import native_name
from rightful.producers.sequences import Grade, Grader, Said, graded_again, graders_of

if TYPE_CHECKING:
    from rightful.ledger.log import Log
    from rightful.producers.importing.files import Found

PRODUCER = "session-records"
"""The producer of what a row says."""

NAMESPACE = "workspace"
"""The namespace of the sessions it names."""

_OVERALL = "overall"
_RUBRIC_FORM = f"a dimension of 1 to {limits.WORD_CHARS} characters without `/` and control characters"
_OLDER = (
    "grades of an older copy, which were not imported, since the ledger has a later grade of the same session and "
    "rubric, by the times of their rows"
)
_UNNAMED = ", and is no part of the session's name"
_TIMES = ("start_time", "timestamp", "end_time")
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
    """The times of a row; microseconds since 1970, UTC."""

    first_us: int
    last_us: int
    basis: str | None
    name: str
    last: str

    def stamp(self, at_us: int) -> Wire:
        stamp: Wire = {"at": times.text_of(at_us)}
        return stamp if self.basis is None else stamp | {"at_basis": self.basis}


class SessionRecords:
    """The kind `session-records`."""

    NAME = "session-records"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object is a session record."""
        return "session_id" in value and not _MARKS.isdisjoint(value) and _OTHERS.isdisjoint(value)

    def reader(self, origin: Origin) -> SessionRecordsReader:
        """Return the reader of one file."""
        return SessionRecordsReader(origin)


class SessionRecordsReader(Reader):
    """Reads one file.

    Args:
        origin: The file; its time stands for that of a row that gives none.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._told_of_naive = False

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield what one row says.

        Raises:
            InvalidEventError: It does not say whose it is, or when it was and no file does.
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
        """Return a row's times, and what was odd about them."""
        read: list[int] = []
        notes: list[str] = []
        started = started_text(row)
        for field in _TIMES:
            if row.get(field) is None:
                continue
            try:
                at_us, aware = moment_us(str(row[field]), f"$.{field}")
            except InvalidEventError as error:
                is_unnamed = field != "end_time" and str(row[field]) != started
                notes.append(f"{error}; it was not used{_UNNAMED * is_unnamed}")
                continue
            read.append(at_us)
            if not aware and not self._told_of_naive:
                self._told_of_naive = True
                notes.append(f"`{field}` has no offset; such times of this file were read as UTC")
        if read:
            if not started:
                notes.append("the row gives no start: the session's name has none in it")
            latest = max(str(row.get(field) or "") for field in _TIMES)
            return _When(read[0], max(read), None, started, latest), notes
        if self._origin.mtime_us is None:
            raise InvalidEventError("Expected `timestamp`: the row gives no time, and a pipe has none", "$.timestamp")
        notes.append("the row gives no time: the file's was taken, and the session's name has no start in it")
        return _When(self._origin.mtime_us, self._origin.mtime_us, "file", started, ""), notes

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return the events with the `seq` of each grade, and the condition that they rest on."""
        head = log.head()
        graders: dict[str, dict[str, Grader]] = {}
        planned: list[Wire] = []
        new: list[str] = []
        older: dict[int, Receipt] = {}
        for place, event in enumerate(events):
            if event["type"] != "grade.recorded":
                planned.append(event)
                continue
            session = event["session"]
            if session not in graders:
                graders[session] = graders_of(log, session, PRODUCER, until=head)
            grade, outcome = _numbered(event, graders[session].setdefault(event["rubric"], Grader()))
            planned.append(grade)
            if outcome is _Numbered.NEW:
                new.append(session)
            elif outcome is _Numbered.OLDER:
                older[place] = Receipt(grade["id"], "stale", None, None)
        notes = (Problem(None, f"{_OLDER}: {len(older)}", lost=False),) if older else ()
        return Plan(planned, graded_again(new) if new else None, head, older, notes)


class _Numbered(Enum):
    NEW = "new"
    KNOWN = "known"
    OLDER = "older"


def _numbered(event: Wire, grader: Grader) -> tuple[Wire, _Numbered]:
    """Return a grade with its seq, and what is so of it.

    One that is older than another of its grader, by the times that both give, is never effective:
    it stands in an older copy of the file, whichever was imported first.
    """
    said = Said(event.get("reward"), event.get("outcome"))
    at_us = None if "at_basis" in event else times.us_from(event["at"])
    own_id = event_id(PRODUCER, event["key"])
    last, newest_us = grader.last(), grader.newest_us()
    before = grader.known(own_id) or (last if last is not None and last.said == said else None)
    grade = before or Grade(own_id, grader.next_seq, said, at_us)
    rest = {name: item for name, item in event.items() if name != "key"}
    numbered = rest | {"id": grade.id, "seq": grade.seq}
    if before is not None:
        return numbered, _Numbered.KNOWN
    if at_us is not None and newest_us is not None and at_us < newest_us:
        return numbered, _Numbered.OLDER
    grader.add(grade)
    return numbered, _Numbered.NEW


def _event(kind: str, session: str, when: _When, at_us: int, *key: str) -> Wire:
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
    yield _event("session.ended", session, when, when.last_us, digest(facts)) | facts


def _graded(row: Mapping[str, Any], session: str, when: _When) -> Iterator[Wire | InvalidEventError]:
    """Yield a row's grades without their seq, and what cannot be one."""
    dimensions = row.get("grades")
    if dimensions is not None and not isinstance(dimensions, dict):
        yield InvalidEventError(f"Expected `object`, got `{type(dimensions).__name__}`", "$.grades")
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
            what = "Expected another dimension than `overall`, which would pass for the overall grade"
            yield InvalidEventError(what, "$.grades.overall")
        else:
            yield _grade(session, when, rubric, value, None, f"$.grades.{rubric}")


def overall(row: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """Return the reward and the outcome of a row's overall grade, unchecked, and where the reward stands."""
    place, reward = "$.trajectory_grade", row.get("trajectory_grade")
    grades = row.get("grades")
    if reward is None and isinstance(grades, dict):
        place, reward = "$.grades.productivity", grades.get("productivity")
    outcome = row.get("outcome")
    return reward, None if outcome == "unknown" else outcome, place


def started_text(row: Mapping[str, Any]) -> str:
    """Return what makes a row's reusable id unique: its `start_time`, else its `timestamp`, as it is written.

    What cannot be read as a time makes nothing unique: it is passed over; "" where neither can.
    """
    for field in ("start_time", "timestamp"):
        if row.get(field) is not None and _is_time(text := str(row[field])):
            return text
    return ""


def _is_time(text: str) -> bool:
    """Say whether a text is a time of any year: what makes a name unique need not be one that an event may have."""
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
    """Return one grade without its seq, if it is one: what is no grade must not take a seq."""
    reward = float(reward) if reward in (0, 1) and not isinstance(reward, bool) else reward
    said = {name: value for name, value in (("reward", reward), ("outcome", outcome)) if value is not None}
    try:
        key = _event("grade.recorded", session, when, when.last_us, rubric, digest([said, when.last]))
        grade = key | {"rubric": rubric} | said
        wire.check(grade | {"seq": 1})
    except InvalidEventError as error:
        if error.place == "$.rubric":
            return InvalidEventError(f"Expected {_RUBRIC_FORM}, got {rubric[:64]!r}", "$.grades")
        return InvalidEventError(error.what, place if error.place == "$.reward" else error.place)
    return grade
