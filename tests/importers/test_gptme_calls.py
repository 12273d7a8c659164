from __future__ import annotations

import pytest

from rightful import limits
from rightful.importers.gptme.gptme_calls import TOOLS, Call, calls_in


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('I look.\n\n@shell(call-1): {"command": "ls"}', [Call("shell", {"command": "ls"}, "call-1")]),
        ('@shell(a:b.c-d_1):{"command": "ls"}\nand more', [Call("shell", {"command": "ls"}, "a:b.c-d_1")]),
        (
            '@save(call-1): {\n  "path": "x",\n  "content": "a}\\"{b"\n}\n@shell(call-2): {"command": "ls"}',
            [Call("save", {"path": "x", "content": 'a}"{b'}, "call-1"), Call("shell", {"command": "ls"}, "call-2")],
        ),
        ('@github.search(c1): {"q": {"a": [1]}}', [Call("github.search", {"q": {"a": [1]}}, "c1")]),
        ('@save(c1): {"content": "two\nlines"}', [Call("save", {"content": "two\nlines"}, "c1")]),
        ('@save(c1): {"content": "```shell\\nls\\n```"}', [Call("save", {"content": "```shell\nls\n```"}, "c1")]),
    ],
)
def test_a_call_in_the_tool_form_has_its_id_and_its_arguments(text: str, calls: list[Call]) -> None:
    assert calls_in(text) == calls


def test_arguments_that_are_no_json_are_kept_as_their_text() -> None:
    assert calls_in("@shell(c1): {command: 'ls {a}'} and so on") == [Call("shell", "{command: 'ls {a}'}", "c1")]


@pytest.mark.parametrize(
    "text",
    [
        "@shell(c1): {never closed",
        "mail me @shell(c1): {}".replace("mail", "> mail"),
        "@shell: {}",
        "@shell(c 1): {}",
        "@shell(c1): []",
        f"@shell({'c' * (limits.WORD_CHARS + 1)}): {{}}",
    ],
)
def test_what_gptme_would_not_run_is_no_call(text: str) -> None:
    assert calls_in(text) == []


def test_an_id_as_long_as_a_word_may_be_is_one() -> None:
    name = "c" * limits.WORD_CHARS
    assert calls_in(f"@shell({name}): {{}}") == [Call("shell", {}, name)]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("```shell\nls\n```", [Call("shell", {"content": "ls"})]),
        ("Look:\n```py\n1+1\n```\n", [Call("ipython", {"content": "1+1"})]),
        ("```save a b.py\nx\n\ny\n```", [Call("save", {"args": ["a", "b.py"], "content": "x\n\ny"})]),
        (
            "```shell\nls\n```\n\nthen\n\n```gh pr view\n\n```",
            [Call("shell", {"content": "ls"}), Call("gh", {"args": ["pr", "view"], "content": ""})],
        ),
        (
            "```save x.md\n```shell\nls\n```\n```",
            [Call("save", {"args": ["x.md"], "content": "```shell\nls\n```"})],
        ),
        ("<think>\n```shell\nrm\n```\n</think>\n```shell\nls\n```", [Call("shell", {"content": "ls"})]),
    ],
)
def test_a_code_block_of_a_tools_word_is_a_call_without_an_id(text: str, calls: list[Call]) -> None:
    assert calls_in(text) == calls


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint()\n```",
        "```\nls\n```",
        "```stdout\nls\n```",
        "```shell\nnever closed",
        "    ```shell\n    ls\n    ```",
        "~~~shell\nls\n~~~",
        "<think>\n```shell\nls\n```",
    ],
)
def test_other_code_blocks_are_text(text: str) -> None:
    assert calls_in(text) == []


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("<tool-use>\n<shell>\nls &lt; x\n</shell>\n</tool-use>", [Call("shell", {"content": "ls < x"})]),
        (
            '<tool-use><save args="a.py">x</save><ipython>1</ipython></tool-use>',
            [Call("save", {"args": ["a.py"], "content": "x"}), Call("ipython", {"content": "1"})],
        ),
        (
            "<function_calls><invoke name='shell'>ls</invoke></function_calls>",
            [Call("shell", {"content": "ls"})],
        ),
        ("<tool-use><div>no tool</div></tool-use>", []),
        ("<shell>ls</shell>", []),
    ],
)
def test_a_tag_of_a_tools_word_is_a_call_without_an_id(text: str, calls: list[Call]) -> None:
    assert calls_in(text) == calls


def test_a_message_uses_one_form() -> None:
    text = '```shell\nls\n```\n<tool-use><shell>pwd</shell></tool-use>\n@shell(c1): {"command": "id"}'

    assert calls_in(text) == [Call("shell", {"command": "id"}, "c1")]
    assert calls_in(text.partition("@")[0]) == [Call("shell", {"content": "pwd"})]


def test_every_word_means_a_tool_of_that_list() -> None:
    assert set(TOOLS.values()) <= TOOLS.keys()
    assert "python" not in TOOLS


def test_deep_and_long_arguments_end_nothing() -> None:
    assert calls_in("@shell(c1): " + '{"a":' * 100_000) == []
    assert calls_in("@shell(c1): " + '{"a":' * 100_000 + "1" + "}" * 100_000)[0].id == "c1"
    deep = '{"a":' * 500 + "1" + "}" * 500
    assert calls_in(f"@shell(c1): {deep}") == [Call("shell", deep, "c1")]
