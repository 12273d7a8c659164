"""`rightful locate`: one bounded search, and the owner of each transcript."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from rightful import limits
from rightful.errors import UsageError
from rightful.identity import is_session, split_session
from rightful.importers.session_records import NAMESPACE
from rightful.locate import layouts
from rightful.locate.evidence import FileEvidence, hashed
from rightful.locate.layouts import Root
from rightful.locate.ownership_claims import Index
from rightful.locate.ranks import EVIDENCE, Rank
from rightful.locate.record_lines import RecordRow
from rightful.locate.scan import Progress, Scan, scan_folders
from rightful.locate.verdicts import Answer, OwnershipResolver
from rightful.locate.wanted_sessions import NATIVES, TYPES, WantedSession, merge, session_of_name, sessions_of_ledger
from rightful.log.log import Log
from rightful.projections import bindings
from rightful.projections.bindings import Bindings

_NAMES = 5


class SearchFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders to search.

    Attributes:
        roots: The folders.
        elsewhere: Whether they replace the tools' own folders, as in a copy. Nothing outside of them is read then.
    """

    roots: tuple[Root, ...]
    elsewhere: bool = False


def search_folders(
    named: Iterable[str],
    environ: Mapping[str, str],
    home: Path,
    workspaces: Iterable[Path | str] = (),
    ledger: Path | None = None,
) -> SearchFolders:
    """Return the folders to search: those that the user named, or else those that the tools use here.

    Raises:
        UsageError: A folder that is named does not exist.
    """
    paths = tuple(named)
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112 - an empty name is the working folder for pathlib
            raise UsageError(f"--root {path!r} is not a folder; nothing was searched. Name an existing folder.")
    if paths:
        return SearchFolders(roots=tuple(Root(path, limits.LOCATE_DEPTH) for path in paths), elsewhere=True)
    return SearchFolders(roots=layouts.roots(environ, home, tuple(Path(folder) for folder in workspaces), ledger))


class LedgerSessions(msgspec.Struct, kw_only=True):
    """The sessions and bindings of a ledger.

    Attributes:
        sessions: Its sessions, by name.
        bindings: The bound transcripts of each session.
    """

    sessions: dict[str, WantedSession] = msgspec.field(default_factory=dict)
    bindings: Bindings = msgspec.field(default_factory=Bindings)


def ledger_sessions(log: Log | None) -> LedgerSessions:
    """Return the sessions and bindings of a ledger; empty without one.

    Raises:
        UpgradeError: A row was written by a newer program.
    """
    if log is None:
        return LedgerSessions()
    return LedgerSessions(
        sessions=sessions_of_ledger(log.read(types=list(TYPES))),
        bindings=bindings.bindings(log.read(types=list(bindings.TYPES))),
    )


def resolve_name(known: LedgerSessions, text: str) -> str:
    """Return the session of a user's argument: a full name, or a value over all namespaces.

    A tool's own name need not be in the ledger: its transcript names the session.

    Raises:
        UsageError: No session has that name, or several have that value.
    """
    if text in known.sessions:
        return text
    fitting = sorted(name for name in known.sessions if _fits(name, text))
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(fitting[:_NAMES]) + (" …" if len(fitting) > _NAMES else "")
        raise UsageError(f"{text!r} is the value of {len(fitting)} sessions: {shown}. Name one in full.")
    if is_session(text) and split_session(text)[0] in NATIVES | {NAMESPACE}:
        return text
    raise UsageError(
        f"no session is named {text!r} in this ledger, and it is not a tool's own session name, such as "
        f"claude-code:<id>; nothing was searched. `rightful status --sessions` lists them."
    )


def _fits(name: str, text: str) -> bool:
    value = split_session(name)[1]
    return text in {value, value.rpartition("@")[0]}


def locate(
    known: LedgerSessions, name: str, folders: SearchFolders, on_progress: Progress = int
) -> tuple[Answer, Scan]:
    """Search for one session's transcript.

    Args:
        known: The ledger's sessions. Their claims compete with those of this session.
        name: The session.
        folders: The folders.
        on_progress: Called with the number of files read since the last call.
    """
    sessions = {name: session_of_name(name)} | known.sessions
    scan = _scan(sessions.values(), folders, on_progress)
    return _resolver(known, sessions, scan).answer(name), scan


class MissingTranscripts(msgspec.Struct, frozen=True, kw_only=True):
    """The result for records without a transcript.

    Attributes:
        rows: The records whose transcript is missing.
        answers: The answer for each session, by name.
        scan: The search.
    """

    rows: tuple[RecordRow, ...]
    answers: dict[str, Answer]
    scan: Scan


def find_missing(
    known: LedgerSessions, rows: Iterable[RecordRow], folders: SearchFolders, on_progress: Progress = int
) -> MissingTranscripts:
    """Search for the missing transcripts of all records at once.

    A transcript that another record has belongs to that record's session.

    Args:
        known: The ledger's sessions.
        rows: The records of a file.
        folders: The folders.
        on_progress: Called with the number of files read since the last call.
    """
    every = tuple(rows)
    sessions = dict(known.sessions)
    for row in every:
        if (session := row.session) is not None:
            before = sessions.get(session.name)
            sessions[session.name] = session if before is None else merge(session, before)
    scan = _scan(sessions.values(), folders, on_progress)
    resolver = _resolver(known, sessions, scan)
    gone = tuple(row for row in every if row.is_missing)
    names = sorted({row.session.name for row in gone if row.session is not None})
    return MissingTranscripts(rows=gone, answers={name: resolver.answer(name) for name in names}, scan=scan)


def _scan(sessions: Iterable[WantedSession], folders: SearchFolders, on_progress: Progress) -> Scan:
    paths = sorted({path for session in sessions for path in session.paths})
    return scan_folders(folders.roots, extra=paths, elsewhere=folders.elsewhere, on_progress=on_progress)


def _resolver(known: LedgerSessions, sessions: Mapping[str, WantedSession], scan: Scan) -> OwnershipResolver:
    bound: dict[str, list[tuple[str, Rank]]] = {}
    for binding in known.bindings.all():
        if (path := path_of(binding.uri)) is not None:
            bound.setdefault(layouts.real_path(path), []).append((binding.session, EVIDENCE[binding.evidence]))
    return OwnershipResolver(Index(scan, sessions.values()), sessions, bound, _have_equal_bytes)


def path_of(uri: str) -> str | None:
    """Return the path of a `file:` URI; None for other URIs."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return None if "\0" in path else path


def _have_equal_bytes(file: FileEvidence, other: FileEvidence) -> bool:
    """Return whether two files have the same bytes."""
    if file.size != other.size:
        return False
    try:
        return hashed(file.path) == hashed(other.path)
    except OSError:
        return False
