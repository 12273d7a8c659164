"""The tool calls in what a gptme assistant said: they stand in its text, in one of three forms.

| form | a call | its id |
|---|---|---|
| `tool` | `@shell(call-1): {"command": "ls"}` at the beginning of a line | what stands in the brackets |
| `xml` | `<tool-use><shell args="…">…</shell></tool-use>`, `<function_calls><invoke name="shell">…` | none |
| `markdown` | a code block whose first word is a tool's: `shell`, `ipython`, `save x.py` … | none |

A conversation uses one form (gptme's tools/base.py, `ToolUse.iter_from_content`, asks which one is
set). The text does not say which, so the first of the table that the message holds is taken: code
blocks in the arguments of a call, or in its tags, are no calls of their own.

In the `tool` form the arguments are one JSON object, which may go over several lines. Where it is
no JSON (gptme repairs what a model got wrong) it is kept as its text, up to the bracket that closes
it; where none does, gptme runs nothing and there is no call.

A code block, or a tag, is a call only where its word is one that gptme runs: `TOOLS`, which are the
`block_types` of the tools in gptme/tools of the public repository gptme/gptme. All other blocks are
text: `python` is shown, `ipython` is run. What stands before `</think>` is a thought (codeblock.py).
A bare fence closes the block that was opened last; gptme's own rule for one with text right behind
it differs from version to version.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from rightful import limits
from rightful.content import escape
from rightful.errors import InvalidEventError

TOOLS = {name: name for name in (
    "append", "choice", "complete", "elicit", "form", "gh", "hashline_edit", "ipython", "mcp", "morph", "patch",
    "patch_anchored", "patch_many", "read", "restart", "save", "shell", "subagent", "tmux", "todo", "todoread",
    "todowrite", "vent",
)} | {"py": "ipython"}  # fmt: skip
"""The words that gptme runs as a block, and the tool that each means."""

_CALL = re.compile(r"^@(?P<name>[\w.]+)\((?P<id>[\w\-:.]+)\):\s*(?=\{)", re.MULTILINE)
_BLOCKS = re.compile(r"<(tool-use|function_calls)>(?P<inside>.*?)</\1>", re.DOTALL)
_TAG = re.compile(r"<(?P<name>\w+)(?P<attributes>[^<>]*)>(?P<content>.*?)</(?P=name)>", re.DOTALL)
_ATTRIBUTE = re.compile(r"""(?P<name>[\w-]+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')""")
_FENCE = "```"
_JSON = json.JSONDecoder(strict=False)  # a model may leave line ends in a string as they are


class Call(NamedTuple):
    """A call in a message.

    Attributes:
        tool: The tool's name.
        arguments: What it was called with.
        id: Its id; None where the form has none.
    """

    tool: str
    arguments: Any
    id: str | None = None


def calls_in(content: str) -> list[Call]:
    """Return the calls in what an assistant said, in order."""
    for form in (_of_tool_form, _of_xml, _of_markdown):
        if calls := list(form(content)):
            return calls
    return []


def _of_tool_form(content: str) -> Iterator[Call]:
    at = 0
    while (hit := _CALL.search(content, at)) is not None:
        arguments, at = _object(content, hit.end())
        if arguments is not None and len(hit["id"]) <= limits.WORD_CHARS:
            yield Call(hit["name"], arguments, hit["id"])


def _object(content: str, at: int) -> tuple[Any, int]:
    """Return the JSON object that begins at a place, or its text, and where it ends; None where nothing closes it."""
    try:
        value, end = _JSON.raw_decode(content, at)
        escape(value)  # nested too deep for an event
    except (ValueError, RecursionError, InvalidEventError):
        closed = _closed(content, at)
        return (None, at) if closed is None else (content[at:closed], closed)
    return value, end


def _closed(content: str, at: int) -> int | None:
    depth, quoted = 0, False
    for hit in re.compile(r'\\.|["{}]', re.DOTALL).finditer(content, at):
        match hit.group():
            case '"':
                quoted = not quoted
            case "{" if not quoted:
                depth += 1
            case "}" if not quoted:
                depth -= 1
                if depth == 0:
                    return hit.end()
    return None


def _of_xml(content: str) -> Iterator[Call]:
    for block in _BLOCKS.finditer(content):
        for tag in _TAG.finditer(block["inside"]):
            values = _attributes(tag["attributes"])
            word = values.pop("name", "") if tag["name"] == "invoke" else tag["name"]
            if word in TOOLS:
                yield Call(TOOLS[word], _arguments([*values.values()], html.unescape(tag["content"]).strip()))


def _attributes(text: str) -> dict[str, str]:
    hits = _ATTRIBUTE.finditer(text)
    return {hit["name"]: html.unescape(hit["double"] or hit["single"] or "") for hit in hits}


def _of_markdown(content: str) -> Iterator[Call]:
    _, mark, behind = content.rpartition("</think>")
    if not mark and "<think>" in content:
        return
    for info, text in _blocks((behind if mark else content).split("\n")):
        word, *rest = info.split()
        if word in TOOLS:
            yield Call(TOOLS[word], _arguments(rest, text))


def _blocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what stands behind the opening fence of each closed block that has such, and what it holds."""
    opened: list[int] = []
    for at, line in enumerate(lines):
        if not line.startswith(_FENCE):
            continue
        info = line[len(_FENCE) :].strip()
        if info or not opened:
            opened.append(at)
            continue
        begun = opened.pop()
        if not opened and (info := lines[begun][len(_FENCE) :].strip()):
            yield info, "\n".join(lines[begun + 1 : at])


def _arguments(args: list[str], content: str) -> dict[str, Any]:
    return ({"args": args} if args else {}) | {"content": content}
