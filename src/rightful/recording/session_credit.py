"""One session's credit: the reads, decisions and appends of `rightful credit`.

The command accepts the arguments of an older lesson updater, which joined a grade with the newest exposure
file. Here the caller names the session, and only that session's record can be credited.

The exposure record of a session is `<safe>.json` in the hook's state folder. `<safe>` is the hook's
sanitised form of the session id. That form is lossy, so the record is refused if another session has the
same form: another file of the folder, a row of the session records, or a session in the ledger. This is the
only path that is built from an id, and it cannot contain a separator.

The grade's key is [W, E, "grade"] with the workspace id and the exposure id as passed (null if omitted). From
seq 2 on it is [W, E, "grade", seq], since a changed grade is another fact and needs another id. Repeating a
grade is a duplicate of the last one for W and E. If there is no record of what the session was shown, the
grade is not recorded either. Its name could match another session's exposure as an alias, and a replay would
then credit that exposure or find it ambiguous.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from rightful import times
from rightful.encoding import wire
from rightful.errors import ConditionFailedError, InvalidEventError, UsageError
from rightful.field_types import Unit, Word
from rightful.identity import SANITISERS, event_id, split_session
from rightful.importers.lesson_hook.artifacts import injected_of, last_pretool_us
from rightful.importers.session_records import overall, started_text
from rightful.importers.shared.foreign_fields import digest, key_of, session_of, shaped
from rightful.importers.shared.grade_numbers import Grade, GradeContent, Grader, graded_again, graders_of
from rightful.importers.shared.native_names import native_name
from rightful.importers.sources.text_files import Found, Problem, objects_of, opened

if TYPE_CHECKING:
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

PRODUCER = "credit"
"""The producer of its exposures and grades."""

_safe = SANITISERS["hook"]
_TRIES = 50  # attempts, if other writers grade the same session at the same time

Context = tuple[str | None, ...]

State = Literal["found", "missing", "empty", "malformed", "ambiguous"]


class CreditRequest(NamedTuple):
    """The session to credit.

    Attributes:
        workspace_id: The workspace's id of the session, as passed, or completed from the ledger.
        exposure_id: The lesson hook's id of the session, as passed, or completed from the ledger.
        graded_as: The ledger's name for the workspace's session; None if it is not in the ledger.
        shown_as: The ledger's name for the lesson hook's session; None if it is not in the ledger.
    """

    workspace_id: str | None
    exposure_id: str | None
    workspace_name: str | None = None
    exposure_name: str | None = None

    @property
    def id(self) -> str:
        """The id that selects the exposure record."""
        return self.exposure_id or self.workspace_id or ""

    @property
    def exposed(self) -> str:
        """The session of the exposure."""
        if self.exposure_id is not None:
            return self.exposure_name or f"claude-code:{self.exposure_id}"
        return self.workspace_name or f"workspace:{self.workspace_id}"

    @property
    def graded(self) -> str:
        """The session of the grade."""
        if self.workspace_id is None:
            return self.exposed
        return self.workspace_name or f"workspace:{self.workspace_id}"

    @property
    def new_sessions(self) -> list[str]:
        """The sessions that are not in the ledger yet."""
        shown = [] if self.exposure_id is None or self.exposure_name else [self.exposed]
        return shown if self.workspace_id is None or self.workspace_name else [self.graded, *shown]

    def with_ledger_names(self, workspace: str | None, exposure: str | None) -> CreditRequest:
        """Return a copy with the ledger's names for the sessions; None for a session that is not in the ledger."""
        workspace_id, exposure_id = self.workspace_id, self.exposure_id
        if workspace is not None and workspace_id is not None:
            workspace_id = _unqualified(split_session(workspace)[1], workspace_id)
        if exposure is not None:
            exposure_id = split_session(exposure)[1]
        return CreditRequest(workspace_id, exposure_id, workspace, exposure)

    @property
    def exposure_session(self) -> str | None:
        """The grade's `exposure_session`: the session whose exposure earns the reward."""
        return None if self.exposure_id is None else self.exposed


def credit_request(workspace_id: str | None, exposure_id: str | None) -> CreditRequest:
    """Return the session to credit.

    Raises:
        UsageError: Neither id was passed. No session is chosen by default.
        InvalidEventError: An id does not identify a session, such as `unknown` or an empty one.
    """
    if workspace_id is None and exposure_id is None:
        raise UsageError(
            "No session is named. Nothing was credited. Name it with --exposure-session-id ID (the lesson hook's id) "
            "or --workspace-session-id ID."
        )
    if workspace_id is not None:
        session_of("workspace", workspace_id, "--workspace-session-id")
    if exposure_id is not None:
        session_of("claude-code", exposure_id, "--exposure-session-id")
    return CreditRequest(workspace_id, exposure_id)


class Exposure(NamedTuple):
    """The content of the exposure record.

    Attributes:
        state: `found`, or why no session is credited.
        why: The reason, for people.
        arms: The lessons in the record, without duplicates, in its order.
        at_us: The record's own time, or else the file's; microseconds since 1970, UTC.
    """

    state: State
    why: str = ""
    arms: tuple[str, ...] = ()
    at_us: int = 0

    @property
    def is_recorded(self) -> bool:
        """Whether there is an exposure to record, possibly without lessons."""
        return self.state == "found" or (self.state == "empty" and self.at_us > 0)


def record_path(folder: str, session_id: str) -> str:
    """Return the path of a session's exposure record."""
    return os.path.join(folder, f"{_safe(session_id)}.json")  # noqa: PTH118 - messages show the path as the user passed it


def read_exposure(folder: str, request: CreditRequest, others: Iterable[str]) -> Exposure:
    """Read the exposure record of a session.

    Args:
        folder: The lesson hook's state folder.
        request: The session to credit.
        others: Ids of sessions from other sources; iterated after the record was read.
    """
    path = record_path(folder, request.id)
    name = os.path.basename(path)  # noqa: PTH119 - the path is text
    try:
        with opened(path, follow=False) as file:
            found = list(objects_of(file.stream))
            mtime_us = file.mtime_us
        alike = (other for other in others if other != request.id and _safe(other) == _safe(request.id))
        rivals = sorted({*_files_with_same_form(folder, request.id), *alike})
    except FileNotFoundError:
        return Exposure("missing", f"{name} is not in {folder}")
    except NotADirectoryError:
        return Exposure("missing", f"{folder} is not a folder")
    except OSError as error:
        return Exposure("malformed", f"{path} could not be read: {error.strerror}")
    if rivals:
        return Exposure("ambiguous", f"{name} could also be the record of {', '.join(map(repr, rivals))}")
    return _exposure_in(path, found, mtime_us)


def _files_with_same_form(folder: str, session_id: str) -> Iterator[str]:
    safe = _safe(session_id)
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, dot, suffix = entry.name.rpartition(".")
            if dot and suffix == "json" and stem != safe and _safe(stem) == safe:
                yield stem


def _exposure_in(path: str, found: list[Found | Problem], mtime_us: int) -> Exposure:
    match found:
        case [Found(value=value)]:
            pass
        case [Problem(line=None, lost=False)]:
            return Exposure("empty", f"{path} is empty")
        case [Problem(what=what), *_]:
            return Exposure("malformed", f"{path}: {what}")
        case _:
            return Exposure("malformed", f"{path} contains more than one object")
    try:
        arms = injected_of(value)
        at_us = last_pretool_us(value) or mtime_us
        exposure = Exposure("found" if arms else "empty", "" if arms else f"{path} lists no lesson", arms, at_us)
        wire.check(_exposure_event("check:form", exposure))
    except InvalidEventError as error:
        return Exposure("malformed", f"{path}: {error}")
    return exposure


class Records(NamedTuple):
    """The session records.

    Attributes:
        rows: The rows, in file order.
        problem: Why the file could not be read.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    problem: str | None = None

    def ids(self, request: CreditRequest) -> Iterator[str]:
        """Yield the session ids of the requested kind: the lesson hook's, or else the workspace's."""
        for row in self.rows:
            if request.exposure_id is None:
                yield str(row["session_id"])
            elif (native := native_name(row)) is not None and native.startswith("claude-code:"):
                yield split_session(native)[1]

    def last_grade(self, workspace_id: str | None) -> GradeContent:
        """Return the last overall grade of a workspace session.

        Raises:
            UsageError: There is no grade, or several sessions have that id.
        """
        names = {f"{row['session_id']}@{started_text(row)}": row for row in self.rows}
        matches = {name: row for name, row in names.items() if workspace_id in (name, row["session_id"])}
        if len(matches) > 1:
            listed = ", ".join(sorted(matches))
            raise UsageError(
                f"The session records contain {len(matches)} sessions with the id {workspace_id!r}: {listed}. "
                "Nothing was credited. Pass one of these names as --workspace-session-id, or pass --grade or --outcome."
            )
        for row in matches.values():
            reward, outcome, place = overall(row)
            if reward is not None or outcome is not None:
                return _checked_grade(reward, outcome, place)
        reason = f" ({self.problem})" if self.problem else ""
        raise UsageError(
            f"No grade found for {workspace_id!r}{reason}. Nothing was credited. Pass --grade or --outcome."
        )


class _Grade(msgspec.Struct):
    reward: Unit | None
    outcome: Word | None


def _checked_grade(reward: object, outcome: object, place: str) -> GradeContent:
    try:
        grade = shaped({"reward": reward, "outcome": outcome}, _Grade)
    except InvalidEventError as error:
        raise InvalidEventError(error.what, place if error.place == "$.reward" else error.place) from None
    return GradeContent(grade.reward, grade.outcome)


def read_records(path: str | None) -> Records:
    """Read a session records file. Rows that cannot be read are skipped."""
    if path is None:
        return Records()
    try:
        with opened(path) as file:
            found = [item.value for item in objects_of(file.stream) if isinstance(item, Found)]
    except OSError as error:
        return Records(problem=f"{path} could not be read: {error.strerror}")
    return Records(tuple(row for row in found if isinstance(row.get("session_id"), str)))


def known_ids(request: CreditRequest, names: Iterable[str]) -> Iterator[str]:
    """Yield the ids in session names of the requested kind."""
    wanted = split_session(request.exposed)[0]
    for name in names:
        namespace, value = split_session(name)
        if namespace == wanted:
            yield value if request.exposure_id is not None else _unqualified(value, request.id)


def _unqualified(value: str, request: str) -> str:
    """Remove the start time from a workspace session's name, unless the user passed it."""
    return value if value == request or "@" not in value else value.rpartition("@")[0]


def events_of(
    request: CreditRequest, exposure: Exposure, graded: GradeContent, at_us: int, context: Context | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the exposure and the grade of a credit; the grade has no seq and no key yet.

    Args:
        request: The session to credit.
        exposure: The content of its exposure record.
        graded: The grade.
        at_us: The time of the grade; microseconds since 1970, UTC.
        context: The dimensions of a contextual bandit; None without a context.
    """
    grade: dict[str, Any] = {
        "type": "grade.recorded",
        "producer": PRODUCER,
        "session": request.graded,
        "at": times.text_of(at_us),
    }
    grade |= {name: value for name, value in graded._asdict().items() if value is not None}
    return _exposure_event(request.exposed, exposure, context), grade


def _exposure_event(session: str, exposure: Exposure, context: Context | None = None) -> dict[str, Any]:
    arms = sorted(exposure.arms)  # the hook writes a set, whose order varies
    event = {
        "type": "exposure.recorded",
        "producer": PRODUCER,
        "key": key_of(session, "exposure", digest(arms if context is None else [arms, list(context)])),
        "session": session,
        "at": times.text_of(exposure.at_us),
        "at_basis": "file",
        "arms": [{"arm": arm} for arm in arms],
    }
    return event if context is None else event | {"context": list(context)}


def append(log: Log, request: CreditRequest, exposure: dict[str, Any], grade: dict[str, Any]) -> list[Receipt]:
    """Append a credit's exposure and grade. The grade's seq follows from this grader's last grade.

    Raises:
        ConditionFailedError: Other writers graded the session during each attempt. Nothing was written.
    """
    graded = GradeContent(**{name: grade.get(name) for name in GradeContent._fields})
    for tries_left in reversed(range(_TRIES)):
        head = log.head()
        grader = graders_of(log, request.graded, PRODUCER, until=head).get("overall", Grader())
        numbered = _with_seq(request, graded, grader)
        whole = grade | {"id": numbered.id, "seq": numbered.seq}
        try:
            return log.append([exposure, whole], unless=graded_again([request.graded]), after=head)
        except ConditionFailedError:
            if not tries_left:
                raise
    raise AssertionError


def _with_seq(request: CreditRequest, graded: GradeContent, grader: Grader) -> Grade:
    newest, last = grader.last(), grader.last_of(graded.exposure_session)
    if newest is not None and newest.said is not None and last is not None and last.said == graded:
        return last
    seq = grader.next_seq
    parts: list[str | int | None] = [request.workspace_id, request.exposure_id, "grade"]
    key = key_of(*parts) if seq == 1 else key_of(*parts, seq)
    return Grade(event_id(PRODUCER, key), seq, graded)
