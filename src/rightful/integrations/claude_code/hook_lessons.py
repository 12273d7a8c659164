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
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rightful import limits
from rightful.identity import SANITISERS
from rightful.integrations.claude_code.hook_events import AGENT
from rightful.integrations.claude_code.lesson_cursor import ReadState

if TYPE_CHECKING:
    from rightful.importers.lesson_hook.artifacts import LessonHookReader
    from rightful.importers.sources.text_files import OpenFile
    from rightful.integrations.claude_code.hook_events import Wire
    from rightful.integrations.claude_code.lesson_cursor import ReadStates

_PLAIN = re.compile(rb"[A-Za-z0-9._-]+\Z")  # unescaped in JSON by every writer
_NAME_BYTES = 255
_MARK_BYTES = 4_096
_SEEN_BYTES = 8
_WORTH_BYTES = 1 << 20  # less of other sessions' lines is read again rather than a cursor written
_DAY_S = 86_400
_WORKSPACE = ("gptme.toml", "state/lesson-trajectories", "state/lesson-dropout")
"""The names that identify a workspace: the lesson hook searches the first, and creates the others in it."""


class LessonFolders(NamedTuple):
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
    def of(cls, environment: Mapping[str, str], cwd: object, own: str) -> LessonFolders:
        """Return the folders that an environment names.

        Args:
            environment: The hook's environment variables.
            cwd: The working folder that the hook's input names.
            own: The hook's own working folder.
        """
        starts: list[str] = []
        for start in (environment.get("CLAUDE_PROJECT_DIR"), cwd, own):
            if isinstance(start, str) and os.path.isabs(start) and "\0" not in start and start not in starts:
                starts.append(start)
        temp = environment.get("TMPDIR") or "/tmp"  # noqa: S108 - where the lesson hook writes
        return cls(temp, environment.get("LESSON_DROPOUT_LOG_DIR") or None, tuple(starts))


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


def new_exposures(raw: str, folders: LessonFolders, states: ReadStates, at_us: int) -> tuple[list[Wire], ReadStates]:
    """Return this session's exposures that were not read before, and the new read state of the files.

    Args:
        raw: The session's id.
        folders: The folders to search.
        states: The read state after earlier calls.
        at_us: The time of the call; microseconds since 1970, UTC. It selects the log of a day.
    """
    events: list[Wire] = []
    states = dict(states)
    for artifact in _artifacts(raw, folders, at_us / 1_000_000):
        try:
            facts = os.lstat(artifact.path)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(facts.st_mode) and os.geteuid() == facts.st_uid:
            events += _read_artifact(artifact, raw, states, limits.HOOK_EXPOSURES - len(events))
        if len(events) >= limits.HOOK_EXPOSURES:
            break
    return events, states


def _artifacts(raw: str, folders: LessonFolders, at_s: float) -> list[_Artifact]:
    artifacts: list[_Artifact] = []
    safe = SANITISERS["hook"](raw)
    if _is_file_name(safe):
        artifacts.append(_Artifact(f"{folders.temp}/claude-lesson-match/{safe}.json", whole=True))
        artifacts.append(_Artifact(f"{folders.temp}/cc-session-{safe}-lessons.jsonl"))
    dropout = f"{raw}.jsonl" if _is_file_name(f"{raw}.jsonl") else None
    if dropout and folders.dropout is not None:
        artifacts.append(_Artifact(f"{folders.dropout}/{dropout}", shared=True))
    today = time.strftime("%Y-%m-%d", time.localtime(at_s))
    yesterday = time.strftime("%Y-%m-%d", time.localtime(at_s - _DAY_S))
    for workspace in dict.fromkeys(map(_workspace, folders.starts)):
        logs = f"{workspace}/state/lesson-trajectories"
        artifacts.append(_Artifact(f"{logs}/{yesterday}.jsonl", shared=True))
        artifacts.append(_Artifact(f"{logs}/{today}.jsonl", shared=True))
        if dropout and folders.dropout is None:
            artifacts.append(_Artifact(f"{workspace}/state/lesson-dropout/{dropout}", shared=True))
    return artifacts


def _is_file_name(name: str) -> bool:
    """Return whether a text is a plain file name, which cannot lead to another folder."""
    try:
        return "/" not in name and "\0" not in name and len(os.fsencode(name)) <= _NAME_BYTES - len(".json")
    except UnicodeEncodeError:
        return False


def _workspace(start: str) -> str:
    """Return the nearest workspace at or above a folder; the folder itself if there is none."""
    folder = start
    while True:
        for mark in _WORKSPACE:
            if os.path.exists(f"{folder}/{mark}"):
                return folder
        if (above := os.path.dirname(folder)) == folder:
            return start
        folder = above


def _read_artifact(artifact: _Artifact, raw: str, states: ReadStates, limit: int) -> list[Wire]:
    from rightful.importers.sources.text_files import opened

    before = states.get(artifact.path, ReadState())
    try:
        with opened(artifact.path, follow=False) as file:
            read = _read_document if artifact.whole else _read_lines
            events, now = read(file, artifact, raw, before, limit)
    except OSError:
        return []
    if now != before:
        states[artifact.path] = now
    return events


def _read_document(
    file: OpenFile, artifact: _Artifact, raw: str, before: ReadState, limit: int
) -> tuple[list[Wire], ReadState]:
    """Return the exposures of a document after those already read, if these are still its first ones."""
    del artifact
    data = file.stream.read(limits.HOOK_READ_BYTES + 1)
    mark = hashlib.sha256(data).hexdigest()
    if len(data) > limits.HOOK_READ_BYTES or mark == before.mark:
        return [], before
    events = _exposures(_reader(file), data, raw)
    start = before.size if _digest(events[: before.size]) == before.seen else 0
    end = min(start + limit, len(events))
    return events[start:end], ReadState(end, mark if end == len(events) else "", _digest(events[:end]))


def _digest(events: list[Wire]) -> str:
    return hashlib.sha256("\n".join(event["key"] for event in events).encode("utf-8", "surrogatepass")).hexdigest()


def _read_lines(
    file: OpenFile, artifact: _Artifact, raw: str, before: ReadState, limit: int
) -> tuple[list[Wire], ReadState]:
    """Return the exposures of the lines after those already read."""
    stream = file.stream
    start = before.size if before.size and _mark_at(stream, before.size) == before.mark else 0
    if file.size - start > limits.HOOK_READ_BYTES:
        return [], before
    stream.seek(start)
    own, size = _session_lines(stream.read(file.size - start), raw, artifact, limit)
    if not own and size < _WORTH_BYTES:
        return [], before
    reader = _reader(file)
    events = _exposures(reader, own, raw)
    seen = binascii.a2b_base64(before.seen) if start else b""
    digests = [bytes.fromhex(digest)[:_SEEN_BYTES] for digest in reader.seen]
    if seen and any(digest in seen for digest in digests):
        events = _read_repeated_lines(file, artifact, raw, start, own)
    end = start + size
    digests_text = binascii.b2a_base64(seen + b"".join(digests), newline=False).decode()
    return events, ReadState(end, _mark_at(stream, end), digests_text)


def _read_repeated_lines(file: OpenFile, artifact: _Artifact, raw: str, start: int, own: bytes) -> list[Wire]:
    """Return the exposures of lines that may repeat earlier lines of the file; all are decoded."""
    if start > limits.HOOK_READ_BYTES:
        return []
    reader = _reader(file)
    file.stream.seek(0)
    earlier, _ = _session_lines(file.stream.read(start), raw, artifact, start)
    _exposures(reader, earlier, raw)
    return _exposures(reader, own, raw)


def _mark_at(stream: BinaryIO, size: int) -> str:
    """Return a digest of the start of a file, and of the bytes before a position."""
    stream.seek(0)
    head = stream.read(min(size, _MARK_BYTES))
    stream.seek(max(size - _MARK_BYTES, 0))
    return hashlib.sha256(head + stream.read(min(size, _MARK_BYTES))).hexdigest()


def _session_lines(data: bytes, raw: str, artifact: _Artifact, limit: int) -> tuple[bytes, int]:
    """Return the complete lines that may belong to this session, and the number of bytes searched."""
    needle = raw.encode("utf-8", "surrogatepass")
    if not artifact.shared or not _PLAIN.match(needle):
        needle = b"\n"
    lines: list[bytes] = []
    at, end = data.find(needle), 0
    while at >= 0 and (end := data.find(b"\n", at)) >= 0:
        lines.append(data[data.rfind(b"\n", 0, at) + 1 : end + 1])
        if len(lines) == limit:
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
        events += [event for event in found if isinstance(event, dict) and _session_and_alias(event) in ours]
    return events


def _session_and_alias(event: Wire) -> tuple[Any, bool]:
    return event.get("session"), event.get("alias", False)
