"""Read the lesson hook's new exposures of one session at each hook call.

The files are read by the reader of `rightful import lesson-hook`, with the same events and ids. So an import of
the same files, before or after, adds nothing. Here much less is read: a cursor stores how far each file was read,
and of the rest only lines that contain the session's id are decoded. The cursor only saves work. Without it all
lines are read again, and their events are `duplicate`. One call reads a limited number of exposures, and the next
call continues.

The id of a line contains the number of equal lines before it. So the cursor stores a few bytes of each line's
digest. A line with unknown bytes is the first of its kind. Only for other lines all lines are decoded again.

Claude Code runs its hooks in parallel, so the lesson hook may write after this read. The next call reads what one
call missed; the last two calls are `Stop` and `SessionEnd`.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rightful import limits
from rightful.identity import SANITISERS
from rightful.integrations.claude_code.hook_events import AGENT
from rightful.integrations.claude_code.lesson_cursor import Known

if TYPE_CHECKING:
    from rightful.importers.lesson_hook.artifacts import LessonHookReader
    from rightful.importers.sources.text_files import OpenFile
    from rightful.integrations.claude_code.hook_events import Wire
    from rightful.integrations.claude_code.lesson_cursor import Taken

_PLAIN = re.compile(rb"[A-Za-z0-9._-]+\Z")  # unescaped in JSON by every writer
_NAME_BYTES = 255
_MARK_BYTES = 4_096
_SEEN_BYTES = 8
_WORTH_BYTES = 1 << 20  # less of other sessions' lines is read again rather than a cursor written
_DAY_S = 86_400
_WORKSPACE = ("gptme.toml", "state/lesson-trajectories", "state/lesson-dropout")
"""The names that identify a workspace: the lesson hook searches the first, and creates the others in it."""


class Places(NamedTuple):
    """The folders that the lesson hook of this machine writes to.

    Attributes:
        temp: The folder for temporary files.
        dropout: The folder of dropout logs, if it is named.
        starts: Folders from which a workspace is searched upwards.
    """

    temp: str
    dropout: str | None
    starts: tuple[str, ...]

    @classmethod
    def of(cls, environment: Mapping[str, str], cwd: object, own: str) -> Places:
        """Return the places that an environment names.

        Args:
            environment: The hook's environment variables.
            cwd: The working folder that the hook's input names.
            own: The hook's own working folder.
        """
        starts = (environment.get("CLAUDE_PROJECT_DIR"), cwd, own)
        found = dict.fromkeys(
            start for start in starts if isinstance(start, str) and os.path.isabs(start) and "\0" not in start
        )
        return cls(environment.get("TMPDIR") or "/tmp", environment.get("LESSON_DROPOUT_LOG_DIR") or None, tuple(found))  # noqa: S108 - where the lesson hook writes


class _Artifact(NamedTuple):
    """A file of the lesson hook.

    Attributes:
        path: Its path.
        shared: Whether it also contains lines of other sessions.
        whole: Whether it is one document, and not lines.
    """

    path: str
    shared: bool = False
    whole: bool = False


def fresh(raw: str, places: Places, taken: Taken, at_us: int) -> tuple[list[Wire], Taken]:
    """Return this session's exposures that were not read before, and the new read state of the files.

    Args:
        raw: The session's id.
        places: The folders to search.
        taken: The read state after earlier calls.
        at_us: The time of the call; microseconds since 1970, UTC. It selects the log of a day.
    """
    events: list[Wire] = []
    now = dict(taken)
    for artifact in _artifacts(raw, places, at_us / 1_000_000):
        try:
            facts = os.lstat(artifact.path)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(facts.st_mode) and os.geteuid() == facts.st_uid:
            events += _of_artifact(artifact, raw, now, limits.HOOK_EXPOSURES - len(events))
        if len(events) >= limits.HOOK_EXPOSURES:
            break
    return events, now


def _artifacts(raw: str, places: Places, at_s: float) -> Iterator[_Artifact]:
    safe = SANITISERS["hook"](raw)
    if _is_plain(safe):
        yield _Artifact(f"{places.temp}/claude-lesson-match/{safe}.json", whole=True)
        yield _Artifact(f"{places.temp}/cc-session-{safe}-lessons.jsonl")
    named = _is_plain(f"{raw}.jsonl")
    if named and places.dropout is not None:
        yield _Artifact(f"{places.dropout}/{raw}.jsonl", shared=True)
    days = [time.strftime("%Y-%m-%d", time.localtime(at_s - before)) for before in (_DAY_S, 0)]
    for workspace in dict.fromkeys(_workspace(start) for start in places.starts):
        for day in dict.fromkeys(days):
            yield _Artifact(f"{workspace}/state/lesson-trajectories/{day}.jsonl", shared=True)
        if named and places.dropout is None:
            yield _Artifact(f"{workspace}/state/lesson-dropout/{raw}.jsonl", shared=True)


def _is_plain(name: str) -> bool:
    """Return whether a text is a plain file name, which cannot lead to another folder."""
    try:
        return "/" not in name and "\0" not in name and len(os.fsencode(name)) <= _NAME_BYTES - len(".json")
    except UnicodeEncodeError:
        return False


def _workspace(start: str) -> str:
    folder = start
    while True:
        if any(os.path.exists(f"{folder}/{mark}") for mark in _WORKSPACE):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return start
        folder = above


def _of_artifact(artifact: _Artifact, raw: str, taken: Taken, most: int) -> list[Wire]:
    from rightful.importers.sources.text_files import opened

    known = taken.get(artifact.path, Known())
    try:
        with opened(artifact.path, follow=False) as file:
            of = _of_document if artifact.whole else _of_lines
            events, now = of(file, artifact, raw, known, most)
    except OSError:
        return []
    if now != known:
        taken[artifact.path] = now
    return events


def _of_document(file: OpenFile, artifact: _Artifact, raw: str, known: Known, most: int) -> tuple[list[Wire], Known]:
    """Return the exposures of a document after those already read, if these are still its first ones."""
    del artifact
    data = file.stream.read(limits.HOOK_READ_BYTES + 1)
    mark = hashlib.sha256(data).hexdigest()
    if len(data) > limits.HOOK_READ_BYTES or mark == known.mark:
        return [], known
    events = _exposures(_reader(file), data, raw)
    start = known.size if _digest(events[: known.size]) == known.seen else 0
    end = min(start + most, len(events))
    return events[start:end], Known(end, mark if end == len(events) else "", _digest(events[:end]))


def _digest(events: list[Wire]) -> str:
    return hashlib.sha256("\n".join(event["key"] for event in events).encode("utf-8", "surrogatepass")).hexdigest()


def _of_lines(file: OpenFile, artifact: _Artifact, raw: str, known: Known, most: int) -> tuple[list[Wire], Known]:
    """Return the exposures of the lines after those already read."""
    stream = file.stream
    start = known.size if known.size and _mark(stream, known.size) == known.mark else 0
    if file.size - start > limits.HOOK_READ_BYTES:
        return [], known
    stream.seek(start)
    own, size = _own(stream.read(file.size - start), raw, artifact, most)
    if not own and size < _WORTH_BYTES:
        return [], known
    reader = _reader(file)
    events = _exposures(reader, own, raw)
    seen = binascii.a2b_base64(known.seen) if start else b""
    digests = [bytes.fromhex(digest)[:_SEEN_BYTES] for digest in reader.seen]
    if seen and any(digest in seen for digest in digests):
        events = _counted(file, artifact, raw, start, own)
    end = start + size
    kept = binascii.b2a_base64(seen + b"".join(digests), newline=False).decode()
    return events, Known(end, _mark(stream, end), kept)


def _counted(file: OpenFile, artifact: _Artifact, raw: str, start: int, own: bytes) -> list[Wire]:
    """Return the exposures of lines that may repeat earlier lines of the file; all are decoded."""
    if start > limits.HOOK_READ_BYTES:
        return []
    reader = _reader(file)
    file.stream.seek(0)
    before, _ = _own(file.stream.read(start), raw, artifact, start)
    _exposures(reader, before, raw)
    return _exposures(reader, own, raw)


def _mark(stream: BinaryIO, size: int) -> str:
    """Return a digest of the start of a file, and of the bytes before a position."""
    stream.seek(0)
    head = stream.read(min(size, _MARK_BYTES))
    stream.seek(max(size - _MARK_BYTES, 0))
    return hashlib.sha256(head + stream.read(min(size, _MARK_BYTES))).hexdigest()


def _own(data: bytes, raw: str, artifact: _Artifact, most: int) -> tuple[bytes, int]:
    """Return the complete lines that may belong to this session, and the number of bytes searched."""
    needle = raw.encode("utf-8", "surrogatepass")
    if not artifact.shared or not _PLAIN.match(needle):
        needle = b"\n"
    lines: list[bytes] = []
    at, end = data.find(needle), 0
    while at >= 0 and (end := data.find(b"\n", at)) >= 0:
        lines.append(data[data.rfind(b"\n", 0, at) + 1 : end + 1])
        if len(lines) == most:
            return b"".join(lines), end + 1
        at = data.find(needle, end + 1)
    return b"".join(lines), data.rfind(b"\n") + 1


def _reader(file: OpenFile) -> LessonHookReader:
    from rightful.importers.engine.formats import Origin
    from rightful.importers.lesson_hook.artifacts import LessonHookReader

    return LessonHookReader(Origin(file.path, file.mtime_us))


def _exposures(reader: LessonHookReader, own: bytes, raw: str) -> list[Wire]:
    """Return the events of lines; the reader counts those that are equal."""
    import io

    from rightful.errors import InvalidEventError
    from rightful.importers.sources.text_files import Found, objects_of

    ours = {(f"{AGENT}:{raw}", False), (f"{AGENT}:{SANITISERS['hook'](raw)}", True)}
    events: list[Wire] = []
    for item in objects_of(io.BytesIO(own)):
        if not isinstance(item, Found):
            continue
        try:
            found: list[Any] = list(reader.events(item))
        except InvalidEventError:
            continue
        events += [event for event in found if isinstance(event, dict) and _named(event) in ours]
    return events


def _named(event: Wire) -> tuple[Any, bool]:
    return event.get("session"), event.get("alias", False)
