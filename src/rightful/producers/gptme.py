r"""The conversations of gptme: which lessons a session was shown, and that it began.

| file | read |
|---|---|
| `<dir>/conversation.jsonl` | its start, and every lessons message |
| `<dir>/branches/*.jsonl`, `<dir>/views/*.jsonl` | every lessons message |

The session is `gptme:<dir>`: nothing in the file says whose it is, so its folder must. A fork is
a copy of the folder under another name, and another session that was shown the same lessons.

A message has no id of its own. Its key is the folder, the digest of its role, time and content,
and how often that stood in the file before: the same message in a view or a branch is the same
fact, and twice in one file it is two. A message's time has no offset; gptme writes the local
time of its machine, so it is read as that of this one.

A lessons message is what gptme injects: of the system, hidden, and beginning `# Relevant
Lessons`. What quotes one is none. In it, a lesson is its header: `## title`, then the lines
`*Path: …*`, `*Category: …*` and, where the matcher said so, `*Matched by: …*`, each with a blank
line before (gptme's tools/lessons.py and lessons/auto_include.py). A single such line in a
lesson's text is a quotation, and so is a header in a code fence that is closed; a fence that a
lesson leaves open ends with it.
"""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from rightful import times
from rightful.errors import InvalidEventError
from rightful.producers.fields import digest, key_of, session_of, shaped, unfit, within
from rightful.producers.file_reports import PASSED_OVER
from rightful.producers.files import Found, Problem
from rightful.producers.importing import STDIN, End, Origin, Reader, Wire

NAMESPACE = "gptme"
"""The namespace of the sessions it names."""

MAIN = "conversation.jsonl"
"""The file that holds a conversation; its copies stand in `branches` and `views`."""

_COPIES = frozenset({"branches", "views"})
_ROLES = frozenset({"system", "user", "assistant", "tool"})
_BEGINS = "# Relevant Lessons"
_HEADER = re.compile(
    r"^## (?P<title>[^\n]+)\n\n\*Path:[ \t]+(?P<path>[^\n]+)\*\n\n\*Category:[ \t]*(?P<category>[^\n]*)\*\n"
    r"(?:\n\*Matched by:[ \t]*(?P<matched_by>[^\n]*)\*\n)?(?=\n|\Z)",
    re.MULTILINE,
)
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)


class _Message(msgspec.Struct):
    role: str


class _Lessons(_Message):
    timestamp: str
    content: str


class _Metadata(msgspec.Struct):
    model: str | None = None
    resolved_model: str | None = None


class _Lesson(NamedTuple):
    """A lesson's header in a message."""

    path: str
    rest: dict[str, str]


class Gptme:
    """The kind `gptme`."""

    NAME = "gptme"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object is a message of a conversation."""
        role = value.get("role")
        return "content" in value and "timestamp" in value and isinstance(role, str) and role in _ROLES

    def reader(self, origin: Origin) -> Reader:
        """Return the reader of one file.

        Raises:
            InvalidEventError: Its path does not say whose conversation it is; of a file that nobody
                named, only where it must be a conversation's.
        """
        try:
            folder, is_main = _place_of(origin)
        except InvalidEventError as error:
            if origin.is_named:
                raise
            return _ReaderOfNobodys(error.what)
        return GptmeReader(folder, is_main=is_main)


class GptmeReader(Reader):
    """Reads one file; holds how often each lessons message stood in it.

    Args:
        folder: The name of the conversation's folder, which is the only place that says whose it is.
        is_main: Whether the file is the conversation itself.

    Raises:
        InvalidEventError: The folder's name cannot be that of a session.
    """

    def __init__(self, folder: str, *, is_main: bool) -> None:
        self._folder, self._is_main = folder, is_main
        self._session = session_of(NAMESPACE, self._folder, "$")
        self._seen: Counter[str] = Counter()
        self._messages = 0
        self._shown = 0
        self._began_us: int | None = None
        self._model: str | None = None

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield what one message says.

        Raises:
            InvalidEventError: It is no message, or lessons that give no time or are not in their form.
        """
        shaped(found.value, _Message)
        self._messages += 1
        self._model = self._model or _model_of(found.value)
        if self._began_us is None and isinstance(text := found.value.get("timestamp"), str):
            with suppress(InvalidEventError):
                self._began_us, zone = _local_us(text)
                if zone is not None:
                    what = f"the times have no offset; they were read as the local time of this machine ({zone})"
                    yield Problem(None, what, lost=False)
        if is_lessons(found.value):
            yield from self._lessons(found)

    def _lessons(self, found: Found) -> Iterator[Wire | Problem]:
        message: _Lessons = shaped(found.value, _Lessons)
        at_us, _ = _local_us(message.timestamp)
        lessons, quoted = lessons_in(message.content)
        if quoted:
            what = f"headers in a code fence were taken as quoted, and not as shown: {quoted}"
            yield Problem(found.line, what, lost=False)
        if not lessons:
            raise InvalidEventError("Expected lessons, each with `## title` and `*Path: …*`; found none", "$.content")
        shown: list[_Lesson] = []
        for lesson in lessons:
            if (why := unfit(lesson.path)) is None:
                shown.append(lesson)
            else:
                what = f"{why}, of the lesson {lesson.rest['title'][:64]!r}"
                yield Problem(found.line, str(InvalidEventError(what, "$.content")))
        self._shown += 1
        content = digest([message.role, message.timestamp, message.content])
        self._seen[content] += 1
        if not shown:
            return
        yield {
            "type": "exposure.recorded",
            "producer": f"{Gptme.NAME}-lessons",
            "key": key_of(self._folder, content, self._seen[content]),
            "session": self._session,
            "at": times.text_of(at_us),
            "arms": [{"arm": lesson.path} for lesson in shown],
            "extra": {"lessons": [lesson.rest for lesson in shown]},
        }

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield that the session began, and how much of the file was not for this import."""
        del end
        if self._began_us is not None and self._is_main:
            facts = {"harness": "gptme"} | ({} if self._model is None else {"model": self._model})
            yield {
                "type": "session.started",
                "producer": Gptme.NAME,
                "key": key_of(self._folder, "session.started", digest(facts)),
                "session": self._session,
                "at": times.text_of(self._began_us),
                **facts,
            }
        if rest := self._messages - self._shown:
            yield Problem(None, f"messages that show no lessons: {rest}; not imported by this version", lost=False)


class _ReaderOfNobodys(Reader):
    """Reads a file in a folder that is no conversation: other tools' messages, unless they show lessons."""

    def __init__(self, why: str) -> None:
        self._why = why
        self._first: int | None = None
        self._shown = 0

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield nothing; count what shows lessons."""
        if is_lessons(found.value):
            self._first = self._first or found.line
            self._shown += 1
        return iter(())

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield why the file is passed over, or that it holds lessons that were shown to nobody known."""
        del end
        if self._shown:
            yield Problem(self._first, f"{self._why}; messages that show lessons, and were not imported: {self._shown}")
        else:
            yield Problem(None, f"{PASSED_OVER}{self._why}", lost=False)


def _place_of(origin: Origin) -> tuple[str, bool]:
    """Return the name of a conversation's folder, and whether the file is the conversation itself."""
    if origin.path == STDIN:
        raise InvalidEventError("Expected a file: a conversation does not say whose it is, and a pipe has no folder")
    folder = os.path.realpath(os.path.dirname(origin.path) or ".")  # noqa: PTH120 - the file's own link is not followed
    above, name = os.path.split(folder)
    if origin.name == MAIN:
        return name, True
    if name in _COPIES:
        return os.path.basename(above), False  # noqa: PTH119 - a name is compared, no path is built
    what = f"messages outside of a `{MAIN}` and of the folders `branches` and `views`: nothing says whose they are"
    raise InvalidEventError(what)


def is_lessons(value: Mapping[str, Any]) -> bool:
    """Say whether a message is one that gptme injects to show lessons."""
    content = value.get("content")
    return (
        value.get("role") == "system"
        and value.get("hide") is True
        and isinstance(content, str)
        and (content == _BEGINS or content.startswith(f"{_BEGINS}\n"))
    )


def lessons_in(content: str) -> tuple[list[_Lesson], int]:
    """Return the lessons of a lessons message in order, and how many headers in it are only quoted."""
    content = content.replace("\r\n", "\n")
    headers = list(_HEADER.finditer(content))
    fenced = _fenced(list(_FENCE.finditer(content)), [header.start() for header in headers])
    lessons: list[_Lesson] = []
    for header in headers:
        if header.start() not in fenced:
            rest = {name: text for name, text in header.groupdict().items() if name != "path" and text is not None}
            lessons.append(_Lesson(header["path"], rest))
    return lessons, len(fenced)


def _fenced(fences: list[re.Match[str]], headers: list[int]) -> set[int]:
    """Return which headers stand in a closed code fence (CommonMark 4.5).

    A lesson may leave a fence open, and the next lesson's first fence would close it. So a header
    ends an open fence where the fences behind it, up to the next header, are whole in themselves:
    each is closed, and none has words where it would close another. Behind a header that is only
    quoted they are not, since the first of them closes the fence that quotes it.
    """
    fenced: set[int] = set()
    inside: set[int] = set()
    opened: re.Match[str] | None = None
    for at, fence in sorted([*((one.start(), one) for one in fences), *((at, None) for at in headers)], key=_place):
        if fence is None:
            if opened is not None and _is_whole(_behind(at, fences, headers)):
                opened, inside = None, set()
            elif opened is not None:
                inside.add(at)
        elif opened is None:
            opened = fence if _opens(fence) else None
        elif _closes(fence, opened):
            fenced |= inside
            opened, inside = None, set()
    return fenced


def _place(item: tuple[int, object]) -> int:
    return item[0]


def _behind(at: int, fences: list[re.Match[str]], headers: list[int]) -> list[re.Match[str]]:
    """Return the first fences behind a header that no other header parts."""
    first = bisect(fences, at, key=re.Match.start)
    if first == len(fences):
        return []
    following = bisect(headers, fences[first].start())
    end = len(fences) if following == len(headers) else bisect(fences, headers[following], key=re.Match.start)
    return fences[first:end]


def _is_whole(fences: list[re.Match[str]]) -> bool:
    opened: re.Match[str] | None = None
    for fence in fences:
        if opened is None:
            opened = fence if _opens(fence) else None
        elif _closes(fence, opened):
            opened = None
        elif fence["mark"].startswith(opened["mark"]):
            return False
    return opened is None and bool(fences)


def _opens(fence: re.Match[str]) -> bool:
    return fence["mark"][0] == "~" or "`" not in fence["info"]


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    return fence["mark"].startswith(opened["mark"]) and not fence["info"].strip()


def _local_us(text: str) -> tuple[int, str | None]:
    """Return a time as microseconds since 1970, and the zone of this machine where it was read as local."""
    try:
        at = datetime.fromisoformat(text)
        local = at.astimezone()
    except (ValueError, OverflowError, OSError):
        raise InvalidEventError(f"Expected a time, got {text[:64]!r}", "$.timestamp") from None
    return within(times.us_of(local), text, "$.timestamp"), local.tzname() if at.tzinfo is None else None


def _model_of(value: Mapping[str, Any]) -> str | None:
    try:
        metadata = msgspec.convert(value.get("metadata"), _Metadata | None)
    except msgspec.ValidationError:
        return None
    return None if metadata is None else metadata.model or metadata.resolved_model
