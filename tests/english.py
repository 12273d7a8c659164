"""Count phrases that are not plain English, by room and kind of text: `python -m tests.english [ROOM]`."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rightful"
PATTERNS = {
    "anew": r"\banew\b",
    "mend": r"\bmend(s|ed|ing)?\b",
    "in vain": r"\bin vain\b",
    "is no X": r"(?<!\bthere )\b(is|are|was|were|be) no(ne)? (?!(more|longer|less|later|earlier|larger|such)\b)[a-z]+",
    "for who": r"\b(for|to|by|of|than|from|with) who\b",
    "say whether": r"\b(say|says|tell|tells|told) whether\b",
    "stands there": r"\b(stand|stands|stood|standing) (there|behind|beside|in front|in the|for|on)\b",
    "told": r"\b(is|are|was|were|be|been) told\b",
    "nobody": r"\b(nobody|somebody)\b",
    "whoever": r"\b(whoever|whom)\b",
    "let go": r"\blet go\b",
    "taken for": r"\b(take|takes|took|taken) for\b",
    "take back": r"\b(take|takes|took|taken) back\b",
    "give way": r"\b(give|gives|gave|given) way\b",
    "passed over": r"\bpassed over\b",
    "ask again": r"\bask again\b",
    "as it is": r"\bas (it is|they are)\b(?= ?[.,;)]|$)",
    "beside": r"(?<!-)\bbeside\b",
    "he": r"\b(himself|his)\b",
}
_COMPILED = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in PATTERNS.items()}
_ANY = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS.values()), re.IGNORECASE)


def matches(name: str, text: str) -> bool:
    """Return whether the pattern with this name finds anything in a text."""
    return _COMPILED[name].search(text) is not None


class Found(NamedTuple):
    """One phrase: the room, the kind of text (message, comment, docs), its place and which pattern it matches."""

    room: str
    kind: str
    place: str
    pattern: str


def _phrases(room: str, kind: str, path: Path, line: int, text: str) -> Iterator[Found]:
    if not _ANY.search(text):
        return
    for name, pattern in _COMPILED.items():
        for match in pattern.finditer(text):
            at = line + text.count("\n", 0, match.start())
            yield Found(room, kind, f"{path.relative_to(ROOT)}:{at}", name)


def _of_module(path: Path) -> Iterator[Found]:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    inside = path.relative_to(PACKAGE)
    room = inside.parts[0] if len(inside.parts) > 1 else "top"
    bare: set[int] = set()
    for node in ast.walk(tree):  # a statement before what is in it
        if isinstance(node, ast.Expr):
            bare.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            kind = "comment" if id(node) in bare else "message"
            yield from _phrases(room, kind, path, node.lineno, node.value)
        elif isinstance(node, ast.comprehension | ast.For) and ast.unparse(node.target) == "one":
            yield Found(room, "name", f"{path.relative_to(ROOT)}:{node.target.lineno}", "loop variable one")
    if not any("#" in line and _ANY.search(line) for line in text.splitlines()):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _phrases(room, "comment", path, token.start[0], token.string)


def found() -> list[Found]:
    """Return every phrase of the source tree, of README and of the documentation but the changelog."""
    pages = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    phrases = [phrase for path in sorted(PACKAGE.rglob("*.py")) for phrase in _of_module(path)]
    for page in pages:
        if page.name != "changelog.md":
            phrases += _phrases("docs", "docs", page, 1, page.read_text("utf-8"))
    return phrases


def counts() -> dict[str, int]:
    """Return the number of phrases by room and kind, as `room kind`."""
    return dict(sorted(Counter(f"{phrase.room} {phrase.kind}" for phrase in found()).items()))


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for phrase in found():
        if phrase.room in wanted or any(phrase.place.startswith(name) for name in wanted):
            print(f"{phrase.place}: {phrase.pattern} ({phrase.kind})")  # noqa: T201 - a command for contributors
    for name, count in counts().items():
        print(f"{name}: {count}")  # noqa: T201 - as above
