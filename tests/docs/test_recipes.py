"""The id recipe for other languages computes what the program computes, where those languages are installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import rightful
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


def test_line_that_closes_a_dead_turn_leaves_no_hole_and_proves_nothing(tmp_path: Path) -> None:
    [line] = re.findall(r"^echo '(.*)' \| rightful ingest$", PAGE.read_text("utf-8"), re.MULTILINE)
    end = json.loads(line)
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        runner = ledger.producer("my-runner")
        with runner.turn("runner:7f3a", "turn-1") as turn:
            turn.message("user", "go")
        dead = runner.turn("runner:7f3a", "turn-2", previous="turn-1")
        dead.message("user", "go on")
        dead.flush()
        with runner.turn("runner:7f3a", "turn-2b", previous="turn-2") as turn:
            turn.message("user", "go on")
        assert [(one.turn, one.kind) for one in ledger.transcript("runner:7f3a").holes] == [("turn-2", "open")]

        ledger.append([end])
        found = ledger.transcript("runner:7f3a")
        assert (found.completeness, found.holes) == ("unknown", [])
        ledger.append([end | {"key": "again", "event_count": 1}])
        assert ledger.transcript("runner:7f3a").completeness == "complete"
        ledger.append([end | {"key": "more", "dropped_count": 1}])
        [hole] = ledger.transcript("runner:7f3a").holes
        assert (hole.turn, hole.kind, hole.count) == ("turn-2", "dropped", 1)
