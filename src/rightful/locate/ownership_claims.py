"""The evidence for and against each transcript of a session.

A claim is found through an index, so a search for twenty thousand sessions reads each file once.
A claim with *doubts* cannot make its session the owner. A claim is *contradicted* if the file or
another record is incompatible with it.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rightful import limits
from rightful.locate import layouts
from rightful.locate.evidence import FileEvidence
from rightful.locate.ranks import Rank
from rightful.locate.scan import Pointer, Scan
from rightful.locate.wanted_sessions import WantedSession, time_text, tool_of

_SECOND_US = 1_000_000
_WINDOW_US = limits.LOCATE_WINDOW_S * _SECOND_US
_UNIQUE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\S{16,}")
_REUSED = "is a reused label, and no time shows that this use of it is the right one"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Why a transcript may be a session's.

    Attributes:
        file: The evidence in the transcript.
        rank: The kind of evidence for the claim.
        words: The same for people.
        doubts: The reasons why it cannot make its session the owner.
        against: The contradictions.
    """

    file: FileEvidence
    rank: Rank
    words: str
    doubts: tuple[str, ...] = ()
    against: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The tool's name for the transcript's session, or the path if it has none."""
        return group_of(self.file)


def group_of(file: FileEvidence) -> str:
    """Return a name that all files of one session share: the tool's session name, or else the path."""
    return f"{file.tool}:{file.native_id}" if file.native_id is not None else file.path


class Index:
    """The transcripts of a search, by each name and place that identifies a session.

    Args:
        scan: The search.
        sessions: Every known session. They show to which session a marker belongs.
    """

    def __init__(self, scan: Scan, sessions: Iterable[WantedSession]) -> None:
        self.scan = scan
        self._files = scan.files
        self._by_native: dict[str, list[FileEvidence]] = defaultdict(list)
        self._by_id: dict[str, list[FileEvidence]] = defaultdict(list)
        self._by_mark: dict[str, list[FileEvidence]] = defaultdict(list)
        self._by_place: dict[str, list[FileEvidence]] = defaultdict(list)
        self._by_folder: dict[tuple[str, str | None], list[tuple[int, str]]] = defaultdict(list)
        self._by_pointer: dict[str, list[Pointer]] = defaultdict(list)
        runs = [session for session in sessions if not session.is_native]
        self._known = Counter(label for run in runs for label in run.ids)
        self._runs = sorted((run.start_us, run.name, run) for run in runs if run.start_us is not None)
        for file in scan.files.values():
            self._add(file)
        self._pointing: dict[str, list[str]] = defaultdict(list)
        for pointer in scan.pointers:
            self._by_pointer[pointer.session].append(pointer)
            if pointer.found is not None and pointer.is_ours:
                self._pointing[pointer.found].append(pointer.session)
        for starts in self._by_folder.values():
            starts.sort()

    def _add(self, file: FileEvidence) -> None:
        if file.native_id is not None:
            self._by_native[f"{file.tool}:{file.native_id}"].append(file)
            self._by_id[file.native_id].append(file)
        if file.sentinel is not None:
            self._by_mark[file.sentinel.session].append(file)
        if (place := layouts.own_session(file.path)) is not None:
            self._by_place[place].append(file)
        if file.started_at_us is not None:
            self._by_folder[file.tool, file.cwd].append((file.started_at_us, file.path))

    def of(self, session: WantedSession) -> tuple[Claim, ...]:
        """Return the claims of a session, the best of each transcript, the strongest first."""
        best: dict[str, Claim] = {}
        for claim in self._claims(session):
            last = best.get(claim.file.path)
            if last is None or (claim.rank < Rank.WEAK and _order(claim) < _order(last)):
                best[claim.file.path] = claim
        return tuple(sorted(best.values(), key=lambda claim: (*_order(claim), claim.file.path)))

    def lost(self, session: WantedSession) -> tuple[str, ...]:
        """Return sentences about pointers and recorded paths whose file no longer exists."""
        lost_pointers = [
            f"{pointer.path} points at {pointer.target}, which no longer exists"
            if pointer.target is not None
            else f"{pointer.path} contains no path"
            for label in sorted(session.ids)
            for pointer in self._by_pointer.get(label, ())
            if pointer.found is None
        ]
        gone = [path for path in sorted(session.paths) if layouts.real_path(path) not in self._files]
        return (*lost_pointers, *(f"its record names {path}, which is not a transcript" for path in gone))

    def _claims(self, session: WantedSession) -> Iterator[Claim]:
        yield from self._claims_by_id(session)
        for label in sorted(session.ids):
            for file in self._by_mark.get(label, ()):
                yield self._claim_by_marker(session, label, file)
            for pointer in self._by_pointer.get(label, ()):
                yield from self._claims_by_pointer(session, label, pointer)
            for file in self._by_place.get(label, ()):
                yield self._claim_by_folder(session, label, file)
        for path in sorted(session.paths):
            if (named := self._files.get(layouts.real_path(path))) is not None:
                yield self._claim(session, named, Rank.POINTER, "its record names this path", [])
        yield from self._in_window(session)

    def _claims_by_id(self, session: WantedSession) -> Iterator[Claim]:
        for native, rank in sorted(session.natives.items()):
            for file in self._by_native.get(native, ()):
                known = "" if native == session.name else f", which is joined to {session.name} by {_JOINED[rank]}"
                yield self._claim(session, file, rank, f"{_embedded(file)} {native}{known}", [])
        if session.is_native:
            return
        for label in sorted(session.ids):
            for file in self._by_id.get(label, ()) if _UNIQUE.fullmatch(label) else ():
                yield self._claim(session, file, Rank.NATIVE, f"{_embedded(file)} {label}, the run's own id", [])

    def _claim_by_marker(self, session: WantedSession, label: str, file: FileEvidence) -> Claim:
        """Return the claim by a marker. A marker that was copied or quoted is only weak evidence."""
        mark, doubts = file.sentinel, []
        if mark is not None and not mark.leads:
            doubts.append("text precedes the marker, as in a quotation")
        rank = Rank.WEAK if doubts or file.inherits is not None else Rank.SENTINEL
        claim = self._claim(session, file, rank, f"its first turn is marked for session {label}", doubts, label)
        backend = None if mark is None else mark.backend
        if backend is not None and tool_of(backend) not in {None, file.tool}:
            return _contradicted(claim, f"the marker was given to {backend}, and this is a transcript of {file.tool}")
        return claim

    def _claims_by_pointer(self, session: WantedSession, label: str, pointer: Pointer) -> Iterator[Claim]:
        """Yield claims on the transcript that a pointer names, and on the tool's own file if that is a printed log."""
        named = None if pointer.found is None else self._files.get(pointer.found)
        if named is None:
            return
        words = f"{Path(pointer.path).name} points at it"
        doubts = [f"{pointer.target}, which it names, is missing, and this file has the same name"] * pointer.moved
        doubts += ["another user wrote the pointer"] * (not pointer.is_ours)
        doubts += self._shared_folder(label) or self._other_starts(session, label, named)
        for file in self._siblings(named):
            via = words if file is named else f"{Path(pointer.path).name} points at a log of its session"
            claim = self._claim(session, file, Rank.POINTER, via, doubts, label)
            if file.tool != pointer.tool:
                why = f"the pointer is one of {pointer.tool}, and this is a transcript of {file.tool}"
                claim = _contradicted(claim, why)
            yield claim

    def _siblings(self, file: FileEvidence) -> list[FileEvidence]:
        return self._by_native[group_of(file)] if file.native_id is not None else [file]

    def _claim_by_folder(self, session: WantedSession, label: str, file: FileEvidence) -> Claim:
        doubts = [*self._shared_folder(label), *_not_after(session, file)]
        words = f"it is stored under the name of session {label}"
        return self._claim(session, file, Rank.DIRECTORY, words, doubts, label)

    def _shared_folder(self, label: str) -> list[str]:
        """Return a doubt if two runs had the same label; only the pointer of the last one remains."""
        groups = {group_of(file) for file in self._by_place.get(label, ())}
        return [f"the folder of session {label} holds {len(groups)} transcripts"] if len(groups) > 1 else []

    def _other_starts(self, session: WantedSession, label: str, named: FileEvidence) -> list[str]:
        """Return a doubt if another transcript began together with the run, in the folder of the pointer's transcript.

        Two runs that start in one second share a short label and one pointer, which the later one wrote. The
        next use of a label also replaces the pointer of a run that has not ended.
        """
        if _UNIQUE.fullmatch(label) or session.start_us is None or named.cwd is None:
            return []
        alone = {group_of(named)} | {
            group_of(file)
            for file in self._started(session, (named.tool, named.cwd))
            if not file.is_stub
            and file.inherits is None
            and not _other_marked_session(session, file)
            and not self._is_pointed(file, label)
        }
        what = "another transcript" if len(alone) == 2 else f"{len(alone) - 1} other transcripts"  # noqa: PLR2004 - it and one
        return [f"{what} that no other pointer names began there with the run"] if len(alone) > 1 else []

    def _is_pointed(self, file: FileEvidence, label: str) -> bool:
        """Return whether another label's pointer leads to a transcript, or to a log of its session."""
        return any(other != label for sibling in self._siblings(file) for other in self._pointing.get(sibling.path, ()))

    def _in_window(self, session: WantedSession) -> Iterator[Claim]:
        """Yield claims by working folder and start alone."""
        if session.start_us is None or session.is_native:
            return
        fitting = [file for file in self._started(session) if session.tool in {None, file.tool}]
        there = [file for file in fitting if session.folder is not None and file.cwd == session.folder]
        rivals = {group_of(file) for file in there if not _other_marked_session(session, file)}
        for file in there:
            doubts = _not_after(session, file)
            if session.tool is None:
                doubts.append("which tool the run used is not known")
            if len(rivals) > 1:
                doubts.append(f"{len(rivals)} transcripts began in that folder at that time")
            doubts += self._runs_between(session, file)
            words = f"it began in {session.folder}, {_delay_text(session, file)} after the run's start"
            yield self._claim(session, file, Rank.CWD, words, doubts)
        for file in [file for file in fitting if file not in there][: limits.LOCATE_CLAIMS]:
            if (claim := self._weak(session, file)) is not None:
                yield claim

    def _runs_between(self, session: WantedSession, file: FileEvidence) -> list[str]:
        """Return a doubt if another run started there before the transcript began: it may be that run's."""
        first = (session.start_us or 0) // _SECOND_US * _SECOND_US
        for at_us, name, other in self._runs[bisect_left(self._runs, (first,)) :]:
            if at_us // _SECOND_US > (file.started_at_us or 0) // _SECOND_US:
                break
            is_there = other.tool in {None, file.tool} and other.folder in {None, session.folder}
            if is_there and name != session.name and name not in session.natives and session.name not in other.natives:
                return [f"{name} started there before it began"]
        return []

    def _weak(self, session: WantedSession, file: FileEvidence) -> Claim | None:
        words = f"it began {_delay_text(session, file)} after the run's start"
        slug, folder = Path(file.path).parent.name, session.folder
        if file.cwd is None and folder is not None and file.form == "transcript" and layouts.slug_fits(slug, folder):
            doubt = f"only the name of its folder fits {folder}, and those of other folders look the same"
        elif file.cwd is None or folder is None:
            doubt = "only the time fits"
        else:
            return None
        return self._claim(session, file, Rank.WEAK, words, [doubt])

    def _started(self, session: WantedSession, place: tuple[str, str | None] | None = None) -> Iterator[FileEvidence]:
        """Yield transcripts that began soon after a run's start and before its end, of one tool and folder if given."""
        first = (session.start_us or 0) // _SECOND_US * _SECOND_US
        last = first + _WINDOW_US
        if session.end_us is not None:
            last = min(last, session.end_us // _SECOND_US * _SECOND_US + _SECOND_US - 1)  # ends are often whole seconds
        for starts in self._by_folder.values() if place is None else [self._by_folder.get(place, [])]:
            for at_us, path in starts[bisect_left(starts, (first, "")) :]:
                if at_us > last:
                    break
                yield self._files[path]

    def _claim(
        self, session: WantedSession, file: FileEvidence, rank: Rank, words: str, doubts: list[str], label: str = ""
    ) -> Claim:
        against = list(_against(session, file, rank))
        other = _other_marked_session(session, file) if rank > Rank.SENTINEL else None
        if other is not None and (label or rank >= Rank.DIRECTORY or self._known[other]):
            against.append(f"its first turn is marked for session {other}")
        more = list(doubts)
        if label and not _UNIQUE.fullmatch(label) and not self._times_fit(session, file):
            more.append(f"{label} {_REUSED}")
        if session.is_two:
            more.append("records of that name describe two runs")
        if file.is_stub:
            more.append("it contains no message")
        if file.is_foreign:
            more.append("another user wrote it, into a folder that every user may write to")
        if file.inherits is not None and rank is not Rank.NATIVE and group_of(file) not in session.natives:
            more.append(f"its beginning was copied from {file.inherits}")
        if self.scan.is_partial and rank > Rank.NATIVE:
            more.append("the search was cut off, so another file may fit as well")
        elif self.scan.problems and rank >= Rank.DIRECTORY:
            more.append("not all could be read, so another file may fit as well")
        return Claim(file=file, rank=rank, words=words, doubts=tuple(more), against=tuple(against))

    def _times_fit(self, session: WantedSession, file: FileEvidence) -> bool:
        """Return whether the times of run and transcript show that a reused label means this run.

        A transcript before the start or after the end is contradicted anyway. If the end is unknown, as after a
        kill, a transcript that began long after the start may belong to the next run with that label.
        """
        times = [other.started_at_us for other in self._siblings(file) if other.started_at_us is not None]
        if session.start_us is None or not times:
            return False
        return session.end_us is not None or min(times) <= session.start_us + _WINDOW_US


_JOINED = {
    Rank.NATIVE: "a link, or the id that it was given",
    Rank.SENTINEL: "a marker",
    Rank.POINTER: "a path in its record",
    Rank.DIRECTORY: "its folder",
    Rank.CWD: "folder and time",
}


def _contradicted(claim: Claim, why: str) -> Claim:
    return msgspec.structs.replace(claim, against=(*claim.against, why))


def _order(claim: Claim) -> tuple[bool, bool, Rank]:
    return bool(claim.against), bool(claim.doubts), claim.rank


def _embedded(file: FileEvidence) -> str:
    return "its folder is" if file.tool == "gptme" else "inside it is"


def _other_marked_session(session: WantedSession, file: FileEvidence) -> str | None:
    """Return the session of the marker in a file's first turn, if it is another session."""
    mark = file.sentinel
    if mark is None or not mark.leads or file.inherits is not None or mark.session in session.ids:
        return None
    return mark.session


def _against(session: WantedSession, file: FileEvidence, rank: Rank) -> Iterator[str]:
    """Yield the contradictions of a claim: in the file itself, by tool, by folder and by time."""
    if file.agrees is False:
        yield f"its name says {file.native_id}, and its lines say {', '.join(file.ids[:2])}"
    if rank is Rank.NATIVE:
        return
    if session.tool is not None and session.tool != file.tool:
        yield f"the run used {session.tool}, and this is a transcript of {file.tool}"
    if rank in {Rank.POINTER, Rank.DIRECTORY} and not _related(session.cwd, file.cwd):
        yield f"it ran in {file.cwd}, and the run in {session.cwd}"
    at_us = file.started_at_us
    if at_us is None or file.inherits is not None:
        return
    if session.start_us is not None and at_us // _SECOND_US < session.start_us // _SECOND_US - (not session.is_exact):
        yield f"it began at {time_text(at_us)}, before the run's start at {time_text(session.start_us)}"
    if session.end_us is not None and at_us // _SECOND_US > session.end_us // _SECOND_US:
        yield f"it began at {time_text(at_us)}, after the run's end at {time_text(session.end_us)}"


def _related(folder: str | None, other: str | None) -> bool:
    """Return whether two working folders can be those of one run: they are equal, or one lies in the other."""
    if folder is None or other is None or folder.startswith("~") or other.startswith("~"):
        return True
    first, second = Path(os.path.normpath(folder)), Path(os.path.normpath(other))
    return first.is_relative_to(second) or second.is_relative_to(first)


def _not_after(session: WantedSession, file: FileEvidence) -> list[str]:
    """Return a doubt if a transcript may have begun before its run, or in the same second."""
    if file.started_at_us is None:
        return ["it contains no time"]
    if session.start_us is None:
        return ["when the run started is not known"]
    if file.started_at_us // _SECOND_US <= session.start_us // _SECOND_US + (not session.is_exact):
        return ["it began in the run's first second, as the transcript of another run may have"]
    return []


def _delay_text(session: WantedSession, file: FileEvidence) -> str:
    return f"{((file.started_at_us or 0) - (session.start_us or 0)) / _SECOND_US:.1f} s"
