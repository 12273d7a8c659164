"""The sessions whose transcripts are searched, from a ledger and from files of session records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any

import msgspec

from rightful import limits, times
from rightful.errors import InvalidEventError
from rightful.events import SessionEnded, SessionLinked, SessionStarted, SessionUnlinked
from rightful.identity import RUN_PRODUCER, is_session, split_session
from rightful.importers.session_records import NAMESPACE, started_text
from rightful.importers.shared.foreign_fields import moment_us, session_of
from rightful.importers.shared.native_names import native_name
from rightful.locate.ranks import EVIDENCE, Rank
from rightful.log.rows import Recorded

TYPES = ("session.started", "session.ended", "session.linked", "session.unlinked")
"""The event types to read from a ledger."""

NATIVES = frozenset({"claude-code", "codex", "copilot", "gptme"})
"""The namespaces of the tools' own session names."""

_UNUSED = frozenset({"stale", "conflict"})
_JOURNAL = re.compile(r"autonomous-session-(\w+)")
_WORKSPACE = re.compile(r"\A(?P<path>/.*?)/journal/")
_TOOLS = (("claude", "claude-code"), ("codex", "codex"), ("copilot", "copilot"), ("gptme", "gptme"), ("grok", "grok"))
_SECOND_US = 1_000_000


class WantedSession(msgspec.Struct, kw_only=True):
    """What is known of a session, apart from any transcript.

    Attributes:
        name: The session's name.
        ids: The labels that launchers may use for it: its own value, its label, and the label of its journal.
        natives: The tools' own names for it, each with the rank of its evidence.
        tool: Its agent tool; None if unknown.
        start_us: When it was started; microseconds since 1970, UTC.
        end_us: When it ended.
        is_exact: Whether the start was recorded; otherwise it was computed from whole seconds.
        cwd: Its recorded working folder.
        workspace: The folder that its records belong to; it may have worked in another.
        closed_us: The end that its record states in addition to the time of the record.
        is_two: Whether records of this name describe two runs.
        paths: The transcript paths in its records.
    """

    name: str
    ids: set[str] = msgspec.field(default_factory=set)
    natives: dict[str, Rank] = msgspec.field(default_factory=dict)
    tool: str | None = None
    start_us: int | None = None
    end_us: int | None = None
    is_exact: bool = True
    cwd: str | None = None
    workspace: str | None = None
    closed_us: int | None = None
    is_two: bool = False
    paths: set[str] = msgspec.field(default_factory=set)

    @property
    def folder(self) -> str | None:
        """The folder in which its transcript may have begun."""
        return self.cwd or self.workspace

    @property
    def is_native(self) -> bool:
        """Whether the name is a tool's own."""
        return split_session(self.name)[0] in NATIVES

    def add_native(self, name: str, rank: Rank) -> None:
        """Add a tool's name for it; the strongest evidence counts."""
        self.natives[name] = min(rank, self.natives.get(name, rank))

    def add_path(self, fields: Mapping[str, Any]) -> None:
        """Add the transcript path of a record, and the tool's session name in that path."""
        path = reference_of(fields)[1]
        if path is None:
            return
        self.paths.add(path)
        native = native_name({"trajectory_path": path})
        if native is not None:
            self.add_native(native, Rank.POINTER)

    def add_fields(self, fields: Mapping[str, Any]) -> None:
        """Add the fields of a session record other than its times."""
        self.add_path(fields)
        label, journal = fields.get("session_label"), fields.get("journal_path")
        if isinstance(label, str) and label:
            self.ids.add(label)
        if isinstance(journal, str) and journal.endswith(".md"):
            self.ids.update(_JOURNAL.findall(journal)[-1:])
            if (hit := _WORKSPACE.match(journal)) is not None:
                self.workspace = hit["path"]


def session_of_name(name: str) -> WantedSession:
    """Return a session of which only the name is known."""
    space, value = split_session(name)
    found = WantedSession(name=name)
    if space in NATIVES:
        found.add_native(name, Rank.NATIVE)
        found.tool = space
        return found
    label, at, start = value.rpartition("@")
    if space == NAMESPACE and at and _moment(start) is not None:
        found.ids.add(label)
    else:
        found.ids.add(value.removesuffix("@"))
    return found


def tool_of(harness: object) -> str | None:
    """Return the tool of a harness name; None if it is unknown."""
    if not isinstance(harness, str):
        return None
    low = harness.lower()
    return next((tool for word, tool in _TOOLS if word in low), None)


def reference_of(row: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the field with the transcript path of a session record, and the path; None if there is no path.

    Old records have it in `journal_path`. A path there that ends in `.md` is a journal.
    """
    path = row.get("trajectory_path")
    if isinstance(path, str) and path:
        return "trajectory_path", path
    old = row.get("journal_path")
    if isinstance(old, str) and old and not old.endswith(".md"):
        return "journal_path", old
    return "trajectory_path", None


def session_of_record(row: Mapping[str, Any], workspace: str | None = None) -> WantedSession:
    """Return the session of a session record.

    Args:
        row: The record.
        workspace: The folder that the file of records belongs to.

    Raises:
        InvalidEventError: It names no session.
    """
    session_id = row.get("session_id")
    if not isinstance(session_id, str):
        raise InvalidEventError("Expected a session id, got none", "$.session_id")
    start = started_text(row)
    found = session_of_name(session_of(NAMESPACE, session_id, "$.session_id", suffix=f"@{start}" if start else ""))
    found.ids = {session_id}
    found.tool = tool_of(row.get("harness"))
    found.start_us, found.closed_us = _moment(row.get("start_time")), _moment(row.get("end_time"))
    ends = [at for field in ("end_time", "timestamp") if (at := _moment(row.get(field))) is not None]
    found.end_us = max(ends, default=None)
    _compute_start(found, row.get("duration_seconds"))
    found.add_fields(row)
    found.workspace = found.workspace or workspace
    return found


def sessions_of_ledger(rows: Iterable[Recorded]) -> dict[str, WantedSession]:
    """Return the sessions in rows of `TYPES`, by name."""
    found: dict[str, WantedSession] = {}
    durations: dict[str, Any] = {}
    for row in rows:
        if row.outcome in _UNUSED or row.session is None:
            continue
        match row.event:
            case SessionStarted() as event:
                _add_start(_session_in(found, event.session), event)
            case SessionEnded() as event:
                session, extra = _session_in(found, event.session), event.extra or {}
                if event.at_basis != "file":
                    session.end_us = max(times.us_of(event.at), session.end_us or 0)
                durations.setdefault(event.session, extra.get("duration_seconds"))
                session.add_fields(extra)
            case SessionLinked(as_="native") as event:
                _session_in(found, event.session).add_native(event.other, EVIDENCE[event.evidence])
            case SessionUnlinked() as event:
                _session_in(found, event.session).natives.pop(event.other, None)
            case _:
                pass
    for session in found.values():
        if split_session(session.name)[0] == NAMESPACE and session.start_us == session.end_us:
            session.start_us = None  # a record without a start is named by the time at which it was written
        _compute_start(session, durations.get(session.name))
    return found


def merge(session: WantedSession, other: WantedSession) -> WantedSession:
    """Add the facts of another source to a session; known facts are kept."""
    for native, rank in other.natives.items():
        session.add_native(native, rank)
    differs = _differ(session.tool, other.tool) or _differ(session.closed_us, other.closed_us)
    session.is_two = session.is_two or other.is_two or differs
    session.closed_us = session.closed_us or other.closed_us
    session.ids |= other.ids
    session.paths |= other.paths
    session.tool, session.cwd = session.tool or other.tool, session.cwd or other.cwd
    session.workspace = session.workspace or other.workspace
    if session.start_us is None:
        session.start_us, session.is_exact = other.start_us, other.is_exact
    if session.end_us is None or (other.end_us is not None and other.end_us > session.end_us):
        session.end_us = other.end_us
    return session


def _differ(first: object, other: object) -> bool:
    return first is not None and other is not None and first != other


def _session_in(found: dict[str, WantedSession], name: str) -> WantedSession:
    if name not in found:
        found[name] = session_of_name(name)
    return found[name]


def _add_start(session: WantedSession, event: SessionStarted) -> None:
    session.tool = session.tool or tool_of(event.harness)
    session.cwd = event.cwd or session.cwd
    if event.producer == RUN_PRODUCER:
        _add_start_of_run(session, event.extra or {})
    if event.at_basis != "file":
        at_us = times.us_of(event.at)
        session.start_us = at_us if session.start_us is None else min(session.start_us, at_us)


def _add_start_of_run(session: WantedSession, extra: Mapping[str, Any]) -> None:
    """Add what a run passed to its tool; a killed run could not record the result."""
    native, logs = extra.get("native_id"), extra.get("logs")
    if session.tool is not None and isinstance(native, str) and is_session(f"{session.tool}:{native}"):
        session.add_native(f"{session.tool}:{native}", Rank.NATIVE)
    if isinstance(logs, str):
        session.ids.update(PurePath(logs).parts[-3:-2])  # the run's mark


def _compute_start(session: WantedSession, duration_s: object) -> None:
    if session.start_us is not None or session.end_us is None or isinstance(duration_s, bool):
        return
    if isinstance(duration_s, int | float) and 0 <= duration_s * _SECOND_US <= session.end_us:
        session.start_us, session.is_exact = session.end_us - round(duration_s * _SECOND_US), False


def _moment(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        return moment_us(value, "$")[0]
    except InvalidEventError:
        return None


def time_text(at_us: int | None) -> str:
    """Return a time for people, to the millisecond; `-` if there is none."""
    if at_us is None or not limits.AT_MIN_US <= at_us <= limits.AT_MAX_US:
        return "-"
    at: datetime = times.EPOCH + timedelta(microseconds=at_us)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
