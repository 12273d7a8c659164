"""Code fences in lessons: what stands in one is quoted, and what an open one would swallow is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.importers.conftest import Importer
from tests.importers.test_gptme import arms, header, lessons, write

from rightful.importers.gptme.lesson_messages import lessons_in
from rightful.ledger import Ledger


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "fox" / "conversation.jsonl"


@pytest.mark.parametrize(
    ("begin", "end"),
    [("```markdown", "```"), ("````md\n```", "````"), ("~~~", "~~~~  "), ("  ```", "```"), ("```md\n```sh", "```")],
)
def test_a_header_in_a_code_fence_is_quoted_and_that_is_said(
    ledger: Ledger, imported: Importer, main: Path, begin: str, end: str
) -> None:
    fenced = f"So it looks:\n\n{begin}\n{header('y.md')}\n{end}\n"

    [report] = imported("gptme", write(main, lessons(header("x.md") + fenced, header("z.md"))))

    assert arms(ledger) == [["x.md", "z.md"]]
    what = "note: headers in a code fence count as quoted, not as shown: 1"
    assert [one.what for one in report.problems if one.line] == [what]


def test_code_in_a_line_opens_no_fence(ledger: Ledger, imported: Importer, main: Path) -> None:
    blocks = (header("x.md") + "```a``` in a line\n", header("z.md") + "```\nls\n```\n")

    imported("gptme", write(main, lessons(*blocks)))

    assert arms(ledger) == [["x.md", "z.md"]]


@pytest.mark.parametrize(
    "text", ["```python\nx = 1\n", "```python\nx = 1\n```\n", "`` ` ``\n", "```a``` inline\n", "~~~\n```\n"]
)
def test_lesson_after_a_fence_is_shown_though_the_fence_is_never_closed(
    ledger: Ledger, imported: Importer, main: Path, text: str
) -> None:
    imported("gptme", write(main, lessons(header("x.md") + text, header("z.md"))))

    assert arms(ledger) == [["x.md", "z.md"]]


OPEN = "So it begins:\n\n```python\nx = 1\n"


@pytest.mark.parametrize(
    "own", ["```sh\nls\n```\n", "```\nls\n```\n", "```\na\n```\n\n```sh\nb\n```\n", "~~~\n```\n~~~\n"]
)
@pytest.mark.parametrize("between", ["", header("y.md") + "Text.\n"])
def test_unclosed_fence_of_a_lesson_hides_no_lesson_with_its_own_fences(own: str, between: str) -> None:
    content = lessons(header("x.md") + OPEN, between, header("z.md") + own)["content"]

    found, quoted = lessons_in(content)

    assert [one["path"] for one in found] == ["x.md", *["y.md"] * bool(between), "z.md"]
    assert quoted == 0


@pytest.mark.parametrize(
    "rest",
    [
        "```\n",
        "```\n\nAnd:\n\n```sh\nls\n```\n",
        "```\n\nAnd:\n\n```\nls\n```\n",
        f"{header('y.md')}\n```\n",
        "```python\nx = 1\n```\n````\n",
    ],
)
def test_a_header_in_a_fence_stays_quoted_whatever_fences_follow_it(rest: str) -> None:
    begin = "````md\n" if "````" in rest else "```md\n"
    content = lessons(header("x.md") + begin + header("y.md") + rest, header("z.md") + "```\nls\n```\n")["content"]

    found, quoted = lessons_in(content)

    assert [one["path"] for one in found] == ["x.md", "z.md"]
    assert quoted == 1 + rest.count("y.md")
