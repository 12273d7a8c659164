"""The evidence for its session in a transcript file of any tool, from a bounded read.

| form | native id | start, working folder, first turn |
|---|---|---|
| Claude Code `transcript` | the file's stem | `timestamp`, `cwd`; the first `user` record that is typed |
| Claude Code `subagent` | none; `parent` started it | as above |
| Claude Code `stream` (stream-json) | first `session_id` | `init` has the folder, and no line a time |
| Codex `rollout` | first `session_meta` | `session_meta`; the first message that was not injected |
| Copilot CLI `events` | `sessionId` | `startTime`, `context.cwd`; the first `user.message` |
| gptme `conversation`, `branch`, `view` | its folder | first message; `config.toml`; first `user` message |
| Grok `stream` | none: the path alone binds it | none |

A file's modification time is never used: a copy, a backup and a late append change it.

The *sentinel* is a marker that a launcher writes before the prompt, `<!-- BOB_SESSION_SENTINEL=<uuid>
session_id=<id> backend=<tool> ts=<time> -->`. Only the first marker in the user's first turn counts.
A session that reads a log, or its own process list, contains other markers, which prove nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from rightful import limits
from rightful.importers.sources.text_files import Found, objects_of, opened
from rightful.locate.evidence_by_tool import PartialEvidence, add_line

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MARK = "BOB_SESSION_SENTINEL="
_SENTINEL = re.compile(
    r"<!--\s*BOB_SESSION_SENTINEL=(?P<id>[0-9a-fA-F][0-9a-fA-F-]{7,63})\s+session_id=(?P<session>\S+)"
    r"(?:\s+backend=(?P<backend>\S+))?(?:\s+ts=(?P<ts>\S+))?\s*-->"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CHUNK = 1 << 20


class Sentinel(msgspec.Struct, frozen=True, kw_only=True):
    """The launcher's marker in the user's first turn.

    Attributes:
        id: The marker's own UUID, different in each run.
        session: The launcher's name for the session; often a label that is used again.
        backend: The tool that it launched.
        ts: When it launched it, as the text in the marker.
        leads: Whether no text precedes it. A launcher puts it first; a user who asks about one does not.
    """

    id: str
    session: str
    backend: str | None = None
    ts: str | None = None
    leads: bool = True


class FileEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence in a transcript file.

    Attributes:
        path: The file, as it was named.
        tool: `claude-code`, `codex`, `copilot`, `gptme` or `grok`.
        form: `transcript`, `stream`, `rollout`, `events`, `conversation`, `branch`, `view` or `subagent`.
        native_id: The tool's own id of the session; None where the file has none.
        ids: Every session id found inside, each once, in order.
        agrees: The file's lines say the native id too; None where lines of this tool name no session.
        inherits: The session whose lines stand copied at its beginning (a fork, a resumed file).
        parent: The session that started this subagent.
        cwd: The working folder.
        started_at_us: The first time that stands inside; microseconds since 1970, UTC. Never the file's.
        is_local: That time has no offset, and was read as the local time of this machine.
        sentinel: The first marker in the first user turn, also where that turn was copied.
        is_stub: It contains no message.
        size: Its length; bytes.
        is_foreign: Another user wrote it into a folder that every user may write to, so it may say anything.
    """

    path: str
    tool: str
    form: str
    native_id: str | None = None
    ids: tuple[str, ...] = ()
    agrees: bool | None = None
    inherits: str | None = None
    parent: str | None = None
    cwd: str | None = None
    started_at_us: int | None = None
    is_local: bool = False
    sentinel: Sentinel | None = None
    is_stub: bool = False
    size: int = 0
    is_foreign: bool = False


class Hashed(NamedTuple):
    """A file's first bytes.

    Attributes:
        bytes: How many were read.
        sha256: Their SHA-256, in hexadecimal.
    """

    bytes: int
    sha256: str


def hashed(path: str | os.PathLike[str], first: int | None = None) -> Hashed:
    """Return the hash of a regular file.

    Args:
        path: The file.
        first: Only of so many first bytes; a shorter file gives fewer. None: as long as it was when it was opened.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    digest, done = hashlib.sha256(), 0
    with opened(os.fspath(path)) as file:
        wanted = file.size if first is None else first
        while done < wanted and (chunk := file.stream.read(min(_CHUNK, wanted - done))):
            digest.update(chunk)
            done += len(chunk)
    return Hashed(done, digest.hexdigest())


def evidence_of(path: str | os.PathLike[str], *, follow: bool = True) -> FileEvidence | None:
    """Return the evidence in a transcript file; None if it is not one, or cannot be read.

    At most `limits.EVIDENCE_BYTES` are read. Incomplete, glued and invalid lines are skipped; what is
    no regular file is not waited for.

    Args:
        path: The file.
        follow: Whether its last part may be a symbolic link.
    """
    named = os.fspath(path)
    try:
        with opened(named, follow=follow) as file:
            seen, is_whole = _read(file.stream, file.size)
            if seen.tool is None:
                return None
            if seen.tool == "claude-code" and not is_whole:
                _read_tail(file.stream, file.size, seen)
            found = _evidence(named, seen, file.size, is_whole=is_whole)
            return msgspec.structs.replace(found, is_foreign=_is_foreign(named, file.stream.fileno()))
    except (OSError, ValueError):  # a NUL in a path is a ValueError
        return None


def _is_foreign(path: str, fd: int) -> bool:
    """Return whether another user wrote an open file, in a folder that every user may write to."""
    if os.fstat(fd).st_uid in {0, os.geteuid()}:
        return False
    return bool(os.stat(os.path.dirname(path) or ".").st_mode & stat.S_IWOTH)  # noqa: PTH116, PTH120 - text


def sentinel_in(text: str | None) -> Sentinel | None:
    """Return the first marker in a turn's text, if it is complete."""
    at = -1 if text is None else text.find(_MARK)
    if text is None or at < 0 or (hit := _SENTINEL.search(text)) is None or hit.start("id") != at + len(_MARK):
        return None
    leads = not text[: hit.start()].strip(" \t\r\n\ufeff")
    return Sentinel(id=hit["id"], session=hit["session"], backend=hit["backend"], ts=hit["ts"], leads=leads)


def _read(stream: BinaryIO, size: int) -> tuple[PartialEvidence, bool]:
    """Read the beginning of a file, and return whether that is the whole file."""
    seen, broken, behind = PartialEvidence(), 0, 0
    head = _Head(stream, limits.EVIDENCE_BYTES)
    for item in objects_of(io.BufferedReader(head), limit=limits.EVIDENCE_BYTES):
        if not isinstance(item, Found):
            broken += 1
            if broken > limits.EVIDENCE_BROKEN and seen.tool is None:
                return seen, False
            continue
        add_line(seen, item.value)
        behind += seen.is_known
        if behind > limits.EVIDENCE_OBJECTS:
            return seen, False
    return seen, size <= limits.EVIDENCE_BYTES


def _read_tail(stream: BinaryIO, size: int, seen: PartialEvidence) -> None:
    """Read ids from a file's end: a file that copies its ancestor has its own lines there."""
    stream.seek(max(0, size - limits.EVIDENCE_TAIL_BYTES))
    lines = stream.read(limits.EVIDENCE_TAIL_BYTES).split(b"\n")[1:]
    for item in objects_of(io.BytesIO(b"\n".join(lines))):
        if isinstance(item, Found):
            seen.add_id(item.value.get("sessionId"))


def _evidence(named: str, seen: PartialEvidence, size: int, *, is_whole: bool) -> FileEvidence:
    form, native = _identity(named, seen)
    cwd, own = seen.cwd, seen.ids[0] if seen.ids else None
    if seen.tool == "gptme":
        cwd = _workspace(Path(named)) if form == "conversation" else None
    inherits = seen.forked_from
    if form == "transcript" and own is not None and own != native:
        inherits = own
    return FileEvidence(
        path=named, tool=seen.tool or "", form=form, native_id=native, ids=tuple(seen.ids),
        agrees=_agrees(named, form, native, seen), inherits=inherits, parent=own if form == "subagent" else None,
        cwd=cwd, started_at_us=seen.started_us, is_local=seen.is_local, sentinel=sentinel_in(seen.prompt),
        is_stub=is_whole and not seen.has_spoken, size=size,
    )  # fmt: skip


def _identity(named: str, seen: PartialEvidence) -> tuple[str, str | None]:
    """Return a file's form and its native id."""
    path = Path(os.path.abspath(named))  # noqa: PTH100 - `resolve` would follow links
    first = seen.ids[0] if seen.ids else None
    match seen.tool:
        case "claude-code" if seen.is_stream:
            return "stream", first
        case "claude-code":
            is_sub = path.stem.startswith("agent-") or seen.is_sidechain
            return ("subagent", None) if is_sub else ("transcript", path.stem)
        case "codex":
            return "rollout", first
        case "copilot":
            return "events", first
        case "gptme" if path.parent.name in {"branches", "views"}:
            return {"branches": "branch", "views": "view"}[path.parent.name], path.parent.parent.name
        case "gptme":
            return "conversation", path.parent.name if path.name == "conversation.jsonl" else None
        case _:
            return "stream", None


def _agrees(named: str, form: str, native: str | None, seen: PartialEvidence) -> bool | None:
    """Return whether a file's lines and its name agree on one session."""
    if form == "transcript":
        return native in seen.ids if seen.ids else None
    if native is None or form not in {"rollout", "events"}:
        return None
    path = Path(named)
    hits = _UUID.findall(path.stem[-36:] if form == "rollout" else path.absolute().parent.name)
    return native.lower() == hits[0].lower() if hits else None


def _workspace(conversation: Path) -> str | None:
    """Return the working folder in a gptme conversation's `config.toml`, or else the target of its link."""
    try:
        with opened(str(conversation.parent / "config.toml")) as file:
            data = file.stream.read(limits.EVIDENCE_TAIL_BYTES + 1)
        chat: Any = tomllib.loads(data.decode()).get("chat")
        workspace = chat.get("workspace") if isinstance(chat, dict) else None
        if isinstance(workspace, str) and workspace and workspace != "@log":
            return os.path.expanduser(workspace)  # noqa: PTH111 - the path of another machine is text
    except (OSError, ValueError, RecursionError):
        pass
    try:
        return os.readlink(conversation.parent / "workspace")  # noqa: PTH115 - as above
    except (OSError, ValueError):
        return None


class _Head(io.RawIOBase):
    """The first bytes of a stream."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        space = memoryview(buffer).cast("B")
        chunk = self._stream.read(min(len(space), self._left))
        self._left -= len(chunk)
        space[: len(chunk)] = chunk
        return len(chunk)
