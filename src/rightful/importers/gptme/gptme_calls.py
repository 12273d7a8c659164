"""The tool calls in the text of a gptme assistant's message, in one of three forms.

| form | a call | its id |
|---|---|---|
| `tool` | `@shell(call-1): {"command": "ls"}` at the beginning of a line | the text in the brackets |
| `xml` | `<tool-use><shell args="…">…</shell></tool-use>`, `<function_calls><invoke name="shell">…` | none |
| `markdown` | a code block whose first word is a tool's: `shell`, `ipython`, `save x.py` … | none |

A conversation uses one form (a setting; see `ToolUse.iter_from_content` in gptme's tools/base.py). The text does not
say which one, so the first form of the table that occurs in the message is used: code blocks in the arguments of a
call, or in its tags, are not calls.

In the `tool` form the arguments are one JSON object, which may span several lines. If it is not valid JSON (gptme
repairs mistakes of a model), its text up to the closing bracket is stored; without a closing bracket gptme runs
nothing and there is no call.

A code block, or a tag, is a call only if gptme runs its first word: `TOOLS`, which are the `block_types` of the tools
in gptme/tools of the public repository gptme/gptme. All other blocks are text: `python` is shown, `ipython` is run.
Text before `</think>` is a thought (codeblock.py). A bare fence closes the block that was opened last; gptme's own
rule for a fence followed directly by text differs between versions.
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
"""The first words of blocks that gptme runs, with their tools."""

_CALL = re.compile(r"^@(?P<name>[\w.]+)\((?P<id>[\w\-:.]+)\):\s*(?=\{)", re.MULTILINE)
_BLOCKS = re.compile(r"<(tool-use|function_calls)>(?P<inside>.*?)</\1>", re.DOTALL)
_TAG = re.compile(r"<(?P<name>\w+)(?P<attributes>[^<>]*)>(?P<content>.*?)</(?P=name)>", re.DOTALL)
_ATTRIBUTE = re.compile(r"""(?P<name>[\w-]+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')""")
_FENCE = "```"
_JSON = json.JSONDecoder(strict=False)  # a model may write unescaped line breaks in a string


class Call(NamedTuple):
    """A call in a message.

    Attributes:
        tool: The tool's name.
        arguments: Its arguments.
        id: Its id; None if the form has none.
    """

    tool: str
    arguments: Any
    id: str | None = None


def calls_in(content: str) -> list[Call]:
    """Return the calls in an assistant's text, in order."""
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
    """Return the JSON object that starts at an offset, or its text, and its end; None if no bracket closes it."""
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
    """Yield the info string and the text of each closed block that has an info string."""
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
