"""`rightful locate`: one bounded search, and whose each transcript is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from rightful import limits
from rightful.errors import UsageError
from rightful.identity import is_session, split_session
from rightful.importers.session_records import NAMESPACE
from rightful.locate import layouts
from rightful.locate import scan as scanning
from rightful.locate import wanted_sessions as sessions_
from rightful.locate.evidence import FileEvidence, hashed
from rightful.locate.layouts import Root
from rightful.locate.ownership_claims import Index
from rightful.locate.ranks import EVIDENCE, Rank
from rightful.locate.record_lines import Row
from rightful.locate.scan import Scan
from rightful.locate.verdicts import Answer, OwnershipResolver
from rightful.locate.wanted_sessions import NATIVES, Wanted
from rightful.log.log import Log
from rightful.projections import bindings
from rightful.projections.bindings import Bindings

_NAMES = 5


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where to search.

    Attributes:
        roots: The folders.
        elsewhere: They replace the tools' own folders, as in a copy; nothing outside of them is read.
    """

    roots: tuple[Root, ...]
    elsewhere: bool = False


def places(
    named: Iterable[str],
    environ: Mapping[str, str],
    home: Path,
    workspaces: Iterable[Path | str] = (),
    ledger: Path | None = None,
) -> Places:
    """Return where to search: the folders that are named, else those that the tools use here.

    Raises:
        UsageError: A folder that is named does not exist.
    """
    asked = tuple(named)
    for path in asked:
        if not os.path.isdir(path):  # noqa: PTH112 - an empty name is the working folder for pathlib
            raise UsageError(f"--root {path!r} is not a folder; nothing was searched. Name an existing folder.")
    if asked:
        return Places(roots=tuple(Root(path, limits.LOCATE_DEPTH) for path in asked), elsewhere=True)
    return Places(roots=layouts.roots(environ, home, tuple(Path(folder) for folder in workspaces), ledger))


class Known(msgspec.Struct, kw_only=True):
    """The sessions and bindings of a ledger.

    Attributes:
        sessions: Its sessions, by name.
        bindings: The bound transcripts of each session.
    """

    sessions: dict[str, Wanted] = msgspec.field(default_factory=dict)
    bindings: Bindings = msgspec.field(default_factory=Bindings)


def known(log: Log | None) -> Known:
    """Return the sessions and bindings of a ledger; empty without one.

    Raises:
        UpgradeError: A row was written by a newer program.
    """
    if log is None:
        return Known()
    return Known(
        sessions=sessions_.of_ledger(log.read(types=list(sessions_.TYPES))),
        bindings=bindings.bindings(log.read(types=list(bindings.TYPES))),
    )


def named(of: Known, asked: str) -> str:
    """Return the session of a user's argument: a full name, or a value over all namespaces.

    A tool's own name need not be in the ledger: its transcript names the session.

    Raises:
        UsageError: No session has that name, or several have that value.
    """
    if asked in of.sessions:
        return asked
    fitting = sorted(name for name in of.sessions if _fits(name, asked))
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(fitting[:_NAMES]) + (" …" if len(fitting) > _NAMES else "")
        raise UsageError(f"{asked!r} is the value of {len(fitting)} sessions: {shown}. Name one in full.")
    if is_session(asked) and split_session(asked)[0] in NATIVES | {NAMESPACE}:
        return asked
    raise UsageError(
        f"no session is named {asked!r} in this ledger, and it is not a tool's own session name, such as "
        f"claude-code:<id>; nothing was searched. `rightful status --sessions` lists them."
    )


def _fits(name: str, asked: str) -> bool:
    value = split_session(name)[1]
    return asked in {value, value.rpartition("@")[0]}


def locate(of: Known, name: str, where: Places, on_progress: Callable[[int], object] = int) -> tuple[Answer, Scan]:
    """Search for one session's transcript.

    Args:
        of: What the ledger knows; every other session's claims are held against this one's.
        name: The session.
        where: The folders.
        on_progress: Called with the number of files read since the last call.
    """
    sessions = dict(of.sessions)
    if name not in sessions:
        sessions[name] = sessions_.wanted(name)
    scan = _scan(sessions.values(), where, on_progress)
    return _resolver(of, sessions, scan).answer(name), scan


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for records without a transcript.

    Attributes:
        rows: The records whose transcript is missing.
        answers: What was found for each session, by name.
        scan: The search.
    """

    rows: tuple[Row, ...]
    answers: dict[str, Answer]
    scan: Scan


def missing(of: Known, rows: Iterable[Row], where: Places, on_progress: Callable[[int], object] = int) -> Missing:
    """Search for the transcripts of all records that miss theirs, in one go.

    The records that have one say whose that is, so it is given to no other.

    Args:
        of: What the ledger knows.
        rows: The records of a file.
        where: The folders.
        on_progress: Called with the number of files read since the last call.
    """
    every = tuple(rows)
    sessions = dict(of.sessions)
    for row in every:
        if (wanted := row.wanted) is not None:
            before = sessions.get(wanted.name)
            sessions[wanted.name] = wanted if before is None else sessions_.merged(wanted, before)
    scan = _scan(sessions.values(), where, on_progress)
    resolver = _resolver(of, sessions, scan)
    gone = tuple(row for row in every if row.is_missing)
    names = sorted({row.wanted.name for row in gone if row.wanted is not None})
    return Missing(rows=gone, answers={name: resolver.answer(name) for name in names}, scan=scan)


def _scan(sessions: Iterable[Wanted], where: Places, on_progress: Callable[[int], object]) -> Scan:
    paths = sorted({path for session in sessions for path in session.paths})
    return scanning.scan(where.roots, extra=paths, elsewhere=where.elsewhere, on_progress=on_progress)


def _resolver(of: Known, sessions: Mapping[str, Wanted], scan: Scan) -> OwnershipResolver:
    bound: dict[str, list[tuple[str, Rank]]] = {}
    for binding in of.bindings.all():
        if (path := path_of(binding.uri)) is not None:
            bound.setdefault(layouts.settled(path), []).append((binding.session, EVIDENCE[binding.evidence]))
    return OwnershipResolver(Index(scan, sessions.values()), sessions, bound, _same)


def path_of(uri: str) -> str | None:
    """Return the path of a `file:` URI; None where it is another one."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return None if "\0" in path else path


def _same(file: FileEvidence, other: FileEvidence) -> bool:
    """Return whether two files have the same bytes."""
    if file.size != other.size:
        return False
    try:
        return hashed(file.path) == hashed(other.path)
    except OSError:
        return False
