"""What the lesson hook left of one session, as a hook finds it at each call: only what is new.

The files, their events and the ids are those of `rightful import lesson-hook`, and its reader reads
them, so that an import of the same files afterwards, or before, adds nothing. What differs is how
little is read: only lines that hold the session's id are decoded, and a cursor says which of them
were taken before. The cursor only saves work. Without it all lines are taken again, and answer
`duplicate`.

Claude Code runs its hooks in parallel, so the lesson hook may write after we looked. What is
missed at one call is taken at the next; the last two are `Stop` and `SessionEnd`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from rightful import limits
from rightful.identity import SANITISERS
from rightful.producers.claude_hook import AGENT

if TYPE_CHECKING:
    from rightful.producers.claude_hook import Wire

Taken = dict[str, tuple[int, str]]
"""By file: how many bytes of this session's were taken, and their SHA-256."""

_PLAIN = re.compile(rb"[A-Za-z0-9._-]+\Z")  # stands in JSON as it is, whoever wrote it
_NAME_BYTES = 255
_DAY_S = 86_400
_WORKSPACE = ("gptme.toml", "state/lesson-trajectories", "state/lesson-dropout")
"""What tells a workspace: the lesson hook looks for the first, and makes the others in it."""


class Places(NamedTuple):
    """Where the lesson hook of this machine writes.

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
        found = dict.fromkeys(one for one in starts if isinstance(one, str) and os.path.isabs(one) and "\0" not in one)
        return cls(environment.get("TMPDIR") or "/tmp", environment.get("LESSON_DROPOUT_LOG_DIR") or None, tuple(found))  # noqa: S108 - where the lesson hook writes


class _Artifact(NamedTuple):
    """A file of the lesson hook.

    Attributes:
        path: Where it is.
        shared: Lines of other sessions stand in it too.
        whole: It is one document, not lines.
    """

    path: str
    shared: bool = False
    whole: bool = False


def fresh(raw: str, places: Places, taken: Taken, at_us: int) -> tuple[list[Wire], Taken]:
    """Return this session's exposures that were not taken before, and what is taken with them.

    Args:
        raw: The session's id.
        places: Where to look.
        taken: What earlier calls took.
        at_us: The time of the call; microseconds since 1970, UTC. It says which day's log is meant.
    """
    events: list[Wire] = []
    now = dict(taken)
    for artifact in _artifacts(raw, places, at_us / 1_000_000):
        try:
            facts = os.lstat(artifact.path)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(facts.st_mode) and os.geteuid() in {0, facts.st_uid}:
            events += _of_artifact(artifact, raw, now)
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
    """Say whether a text is the name of a file in a folder, and leads nowhere else."""
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


def _of_artifact(artifact: _Artifact, raw: str, taken: Taken) -> Iterator[Wire]:
    from rightful.producers.files import opened

    try:
        with opened(artifact.path, follow=False) as file:
            own = _own(file.stream, raw, artifact)
            mtime_us = file.mtime_us
    except OSError:
        return
    size, seen = taken.get(artifact.path, (0, ""))
    known = size if 0 < size <= len(own) and hashlib.sha256(own[:size]).hexdigest() == seen else 0
    if not own or known == len(own):
        return
    taken[artifact.path] = (len(own), hashlib.sha256(own).hexdigest())
    skip = 0 if artifact.whole else own[:known].count(b"\n")
    yield from _exposures(artifact.path, mtime_us, own, skip, raw)


def _own(stream: BinaryIO, raw: str, artifact: _Artifact) -> bytes:
    """Return the whole lines that are this session's, or may be; of one document, all of it."""
    data = stream.read(limits.HOOK_READ_BYTES + 1)
    if len(data) > limits.HOOK_READ_BYTES:
        return b""
    if artifact.whole:
        return data
    needle = raw.encode("utf-8", "surrogatepass")
    if not artifact.shared or not _PLAIN.match(needle):
        return data[: data.rfind(b"\n") + 1]
    lines = []
    at = data.find(needle)
    while at >= 0 and (end := data.find(b"\n", at)) >= 0:
        lines.append(data[data.rfind(b"\n", 0, at) + 1 : end + 1])
        at = data.find(needle, end)
    return b"".join(lines)


def _exposures(path: str, mtime_us: int, own: bytes, skip: int, raw: str) -> Iterator[Wire]:
    """Yield the events of lines behind the first `skip`; all are read, for a line's id counts those before it."""
    import io

    from rightful.errors import InvalidEventError
    from rightful.producers.files import Found, objects_of
    from rightful.producers.importing import Origin
    from rightful.producers.lesson_hook import LessonHookReader

    ours = {(f"{AGENT}:{raw}", False), (f"{AGENT}:{SANITISERS['hook'](raw)}", True)}
    reader = LessonHookReader(Origin(path, mtime_us))
    for item in objects_of(io.BytesIO(own)):
        if not isinstance(item, Found):
            continue
        try:
            found: list[Any] = list(reader.events(item))
        except InvalidEventError:
            continue
        if item.line > skip:
            yield from (one for one in found if isinstance(one, dict) and _named(one) in ours)


def _named(event: Wire) -> tuple[Any, bool]:
    return event.get("session"), event.get("alias", False)
