"""The lessons messages of gptme: the lessons that a session was shown.

A lessons message is injected by gptme: role system, hidden, and starting with `# Relevant Lessons`. A message that
only quotes one does not count. In it, a lesson is recognised by its header: `## title`, then the lines `*Path: …*`,
`*Category: …*` and optionally `*Matched by: …*`, each after a blank line (gptme's tools/lessons.py and
lessons/auto_include.py). A single such line in a lesson's text is a quotation, and so is a header in a closed code
fence. A fence that a lesson leaves open ends with the lesson.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful import times
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import Wire
from rightful.importers.gptme.gptme_times import local_us
from rightful.importers.shared.foreign_fields import digest, key_of, shaped, unfit
from rightful.importers.sources.text_files import Found, Problem

PRODUCER = "gptme-lessons"
"""The producer of the exposures."""

_BEGINS = "# Relevant Lessons"
_HEADER = re.compile(
    r"^## (?P<title>[^\n]+)\n\n\*Path:[ \t]+(?P<path>[^\n]+)\*\n\n\*Category:[ \t]*(?P<category>[^\n]*)\*\n"
    r"(?:\n\*Matched by:[ \t]*(?P<matched_by>[^\n]*)\*\n)?(?=\n|\Z)",
    re.MULTILINE,
)
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)


class _Lessons(msgspec.Struct):
    role: str
    timestamp: str
    content: str


def exposed(found: Found, folder: str, session: str, occurrence: int) -> Iterator[Wire | Problem]:
    """Yield the exposure of a lessons message, and its problems.

    Args:
        found: The message, and its line.
        folder: The folder that names the session.
        session: The session of that folder.
        occurrence: How often the same message occurred in the file, including this one.

    Raises:
        InvalidEventError: It has no time, or its lessons are not valid.
    """
    message: _Lessons = shaped(found.value, _Lessons)
    at_us, _ = local_us(message.timestamp)
    lessons, quoted = lessons_in(message.content)
    if quoted:
        what = f"headers in a code fence count as quoted, not as shown: {quoted}"
        yield Problem(found.line, what, lost=False)
    if not lessons:
        raise InvalidEventError("Expected lessons, each with `## title` and `*Path: …*`; found none", "$.content")
    shown: list[dict[str, str]] = []
    for lesson in lessons:
        if (why := unfit(lesson["path"])) is None:
            shown.append(lesson)
        else:
            what = f"{why}, of the lesson {lesson['title'][:64]!r}"
            yield Problem(found.line, str(InvalidEventError(what, "$.content")))
    if shown:
        content = digest([message.role, message.timestamp, message.content])
        yield {
            "type": "exposure.recorded",
            "producer": PRODUCER,
            "key": key_of(folder, content, occurrence),
            "session": session,
            "at": times.text_of(at_us),
            "arms": [{"arm": lesson["path"]} for lesson in shown],
            "extra": {"lessons": [{name: lesson[name] for name in lesson if name != "path"} for lesson in shown]},
        }


def is_lessons(value: Mapping[str, Any]) -> bool:
    """Return whether a message is one that gptme injects to show lessons."""
    content = value.get("content")
    return (
        value.get("role") == "system"
        and value.get("hide") is True
        and isinstance(content, str)
        and (content == _BEGINS or content.startswith(f"{_BEGINS}\n"))
    )


def lessons_in(content: str) -> tuple[list[dict[str, str]], int]:
    """Return the headers of a lessons message in order, by field, and how many more are only quoted."""
    content = content.replace("\r\n", "\n")
    headers = list(_HEADER.finditer(content))
    fenced = _fenced(list(_FENCE.finditer(content)), [header.start() for header in headers])
    shown = [header.groupdict() for header in headers if header.start() not in fenced]
    return [{name: text for name, text in fields.items() if text is not None} for fields in shown], len(fenced)


def _fenced(fences: list[re.Match[str]], headers: list[int]) -> set[int]:
    """Return the offsets of the headers in a closed code fence (CommonMark 4.5).

    A lesson may leave a fence open, and the next lesson's first fence would close it. So a header ends an open fence
    if the fences after it, up to the next header, are balanced: each is closed, and none has an info string where it
    would close another. After a header that is only quoted they are not balanced, since the first of them closes the
    fence that quotes it.
    """
    fenced: set[int] = set()
    inside: set[int] = set()
    opened: re.Match[str] | None = None
    places = [*((fence.start(), fence) for fence in fences), *((header, None) for header in headers)]
    for at, fence in sorted(places, key=lambda place: place[0]):
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


def _behind(at: int, fences: list[re.Match[str]], headers: list[int]) -> list[re.Match[str]]:
    """Return the first fences after a header, up to the next header."""
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
