"""The id recipe for other languages computes what the program computes, where those languages are installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rightful.identity import composite_key, event_id

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-from-your-own-runner.md"
PARTS: list[list[str | int | None]] = [
    ["7fbe4341", "prompt", 1],
    ["é", "你好", "🦊"],
    ['say "hi"\\now', "line\nbreak\t\u001f", "a/b<&>"],
    ["x", None, 0, -5],
    ["\u2028\u2029", "\\u2028", "\b\f\r"],
]
EXPECTED = [[key := composite_key(*parts), event_id("judge", key)] for parts in PARTS]


def block(language: str) -> str:
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(code)


def printed(command: list[str], folder: Path, given: str = "") -> str:
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def golden() -> list[str]:
    text = PAGE.read_text("utf-8")
    ids = re.findall(r"// ([0-9a-f-]{36})$", text, re.MULTILINE)
    assert f"print `{ids[0]}` and `{ids[1]}`" in text
    return ids


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_typescript_recipe_computes_the_same_ids(tmp_path: Path) -> None:
    code = block("typescript")
    plain = re.sub(r": \(string \| number \| null\)\[\]|: string(?=[,){ ])|(?<=\])!", "", code)
    ours = "console.log(JSON.stringify(PARTS.map((parts) => [key(...parts), eventId('judge', key(...parts))])));"
    (tmp_path / "recipe.mjs").write_text(f"{plain}\nconst PARTS = {json.dumps(PARTS)};\n{ours}\n", "utf-8")

    *shown, found, _ = printed(["node", "recipe.mjs"], tmp_path).split("\n")

    assert shown == golden()
    assert json.loads(found) == EXPECTED


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")
def test_the_go_recipe_computes_the_same_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOCACHE", str(tmp_path / "cache"))
    code = block("go")
    (tmp_path / "recipe.go").write_text(code, "utf-8")
    head, _, _ = code.partition("func main() {")
    ours = """func main() {
	texts := json.NewDecoder(os.Stdin)
	texts.UseNumber()
	var all [][]any
	if err := texts.Decode(&all); err != nil {
		panic(err)
	}
	for _, parts := range all {
		key, err := Key(parts...)
		if err != nil {
			panic(err)
		}
		pair, _ := json.Marshal([]string{key, EventID("judge", key)})
		fmt.Println(string(pair))
	}
}
"""
    (tmp_path / "ours.go").write_text(head.replace('"fmt"', '"fmt"\n\t"os"') + ours, "utf-8")

    assert printed(["go", "run", "recipe.go"], tmp_path).split() == golden()
    found = printed(["go", "run", "ours.go"], tmp_path, json.dumps(PARTS))
    assert [json.loads(line) for line in found.split("\n") if line] == EXPECTED
