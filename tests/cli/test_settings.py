from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rightful.errors import UsageError
from rightful.integrations.claude_code.hook_entry import command_of, ledger_of
from rightful.integrations.claude_code.hook_events import EVENTS
from rightful.integrations.claude_code.settings import BACKUP, Settings

COMMAND = command_of(["/opt/my tools/rightful"], "/home/dév/it's/.rightful")

USED = """{
    "model": "opus",
    "permissions": { "allow": ["Bash(ls:*)", "Read"], "deny": [] },
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "/x/ours run", "timeout": 3}]}
        ],
        "Stop": []
    },
    "zebra": "ünï \\u00e9 🦓"
}
"""

FILES = {
    "none": None,
    "empty object": "{}",
    "empty object, line": "{}\n",
    "empty object, two lines": "{\n}\n",
    "spaces inside": "{  }",
    "one line": '{"a": 1}',
    "compact": '{"a":{"b":[1,2]},"hooks":{"Stop":[]}}',
    "used": USED,
    "tabs": USED.replace("    ", "\t"),
    "windows": USED.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + USED,
    "no last newline": USED.rstrip("\n"),
    "empty hooks": '{\n  "hooks": {}\n}\n',
    "escapes": '{\n  "a": "\\u2028\\/\\"}",\n  "hooks": {\n    "Stop": [ ]\n  }\n}\n',
}


def file(tmp_path: Path, text: str | None) -> Path:
    path = tmp_path / "settings.json"
    if text is not None:
        path.write_bytes(text.encode())
    return path


def backup_of(path: Path) -> Path:
    return Path(f"{path}{BACKUP}")


def loaded(path: Path) -> Any:
    return json.loads(path.read_bytes().decode().removeprefix("\ufeff"))


@pytest.mark.parametrize("name", FILES)
def test_remove_restores_the_very_bytes(tmp_path: Path, name: str) -> None:
    path = file(tmp_path, FILES[name])
    before = path.read_bytes() if path.exists() else None

    assert Settings(str(path)).install(EVENTS, COMMAND)
    assert len(Settings(str(path)).remove()) == len(EVENTS)

    assert (path.read_bytes() if path.exists() else None) == before
    assert [entry.name for entry in tmp_path.iterdir()] == (["settings.json"] if before is not None else [])


@pytest.mark.parametrize("name", FILES)
def test_install_adds_one_entry_an_event_and_keeps_all_else_in_its_order(tmp_path: Path, name: str) -> None:
    path = file(tmp_path, FILES[name])
    before = loaded(path) if path.exists() else {}

    Settings(str(path)).install(EVENTS, COMMAND)

    after = loaded(path)
    entry = {"hooks": [{"type": "command", "command": COMMAND, "timeout": 10}]}
    for event in EVENTS:
        assert after["hooks"][event].pop() == entry
    assert {event: groups for event, groups in after.pop("hooks").items() if groups} == {
        event: groups for event, groups in before.pop("hooks", {}).items() if groups
    }
    assert json.dumps(after) == json.dumps(before)


@pytest.mark.parametrize("name", ["used", "tabs", "windows", "byte order mark", "escapes"])
def test_an_installed_file_is_indented_as_the_agent_writes_it(tmp_path: Path, name: str) -> None:
    path = file(tmp_path, FILES[name])

    Settings(str(path)).install(EVENTS, COMMAND)

    text = path.read_bytes().decode()
    mark = "\ufeff" if name == "byte order mark" else ""
    assert text == mark + json.dumps(loaded(path), indent=2, ensure_ascii=False) + "\n"
    assert "/home/dév/" in text


def test_a_lone_surrogate_in_the_settings_is_written_escaped(tmp_path: Path) -> None:
    path = file(tmp_path, '{"a": "\\ud800é"}')

    Settings(str(path)).install(EVENTS, COMMAND)

    assert loaded(path)["a"] == "\ud800é"


def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    path = file(tmp_path, USED)
    Settings(str(path)).install(EVENTS, COMMAND)
    once, backup = path.read_bytes(), backup_of(path).read_bytes()

    assert not Settings(str(path)).install(reversed(EVENTS), COMMAND)

    assert path.read_bytes() == once
    assert backup_of(path).read_bytes() == backup == USED.encode()


def test_other_ledger_replaces_entries_and_remove_restores_the_first_bytes(tmp_path: Path) -> None:
    path = file(tmp_path, USED)
    Settings(str(path)).install(EVENTS, COMMAND)

    assert Settings(str(path)).install(EVENTS[:3], command_of(["/x/rightful"], "/other"))

    assert {ledger_of(one.command) for one in Settings(str(path)).installed()} == {"/other"}
    assert len(Settings(str(path)).installed()) == 3
    Settings(str(path)).remove()
    assert path.read_bytes() == USED.encode()


def test_a_file_that_install_made_goes_whatever_backup_lies_there(tmp_path: Path) -> None:
    path = file(tmp_path, None)
    backup = backup_of(path)
    backup.write_text(USED)

    Settings(str(path)).install(EVENTS, COMMAND)
    Settings(str(path)).remove()

    assert not path.exists()
    assert backup.read_text() == USED


def test_what_was_changed_since_stays_when_the_hooks_go(tmp_path: Path) -> None:
    path = file(tmp_path, USED)
    Settings(str(path)).install(EVENTS, COMMAND)
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))

    Settings(str(path)).remove()

    before = json.loads(USED)
    del before["hooks"]["Stop"]  # an event without entries goes with ours
    assert loaded(path) == before | {"model": "sonnet"}
    assert backup_of(path).read_text() == USED


def test_ours_is_found_wherever_somebody_moved_it(tmp_path: Path) -> None:
    ours = {"type": "command", "command": COMMAND}
    other = {"type": "command", "command": "/y"}
    groups = [{"matcher": "A", "hooks": [ours, other]}, {"matcher": "B", "hooks": [ours]}, {"hooks": [other, ours]}]
    path = file(tmp_path, json.dumps({"hooks": {"PreToolUse": groups, "Stop": [{"hooks": [ours]}]}, "b": 1}, indent=1))

    Settings(str(path)).remove()

    assert loaded(path) == {"hooks": {"PreToolUse": [{"matcher": "A", "hooks": [other]}, {"hooks": [other]}]}, "b": 1}


def test_matcher_and_timeout_added_to_our_entries_stay_for_another_ledger(tmp_path: Path) -> None:
    path = file(tmp_path, USED)
    Settings(str(path)).install(EVENTS, COMMAND)
    document = loaded(path)
    document["hooks"]["PreToolUse"][1]["matcher"] = "Edit"
    document["hooks"]["PreToolUse"].append(document["hooks"]["PreToolUse"][1] | {"matcher": "Write"})
    document["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 3
    document["hooks"]["Stop"].append(document["hooks"]["SessionEnd"][0])  # twice, once as it was written
    path.write_text(json.dumps(document, indent=4))
    other = command_of(["/x/rightful"], "/öther")

    assert Settings(str(path)).install(EVENTS[:-1], other)

    hooks = loaded(path)["hooks"]
    assert hooks["PreToolUse"][0] == document["hooks"]["PreToolUse"][0]
    assert [group["matcher"] for group in hooks["PreToolUse"]] == ["Bash", "Edit", "Write"]
    assert hooks["PreToolUse"][1] == {
        "matcher": "Edit", "hooks": [{"type": "command", "command": other, "timeout": 10}],
    }  # fmt: skip
    assert hooks["Stop"] == [{"hooks": [{"type": "command", "command": other, "timeout": 3}]}]
    assert EVENTS[-1] == "SessionEnd"
    assert "SessionEnd" not in hooks
    assert not Settings(str(path)).install(EVENTS[:-1], other)
    assert backup_of(path).read_text() == USED


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'{\n  "a": 1,\n}', "line 3 column 1"),
        (b'{\n  "a": // why\n 1}', "line 2 column 8"),
        (b'{\n "a": "\xff"}', "is not UTF-8: line 2 column 8"),
        (b"[]", "is not a JSON object"),
        (b"", "line 1 column 1"),
        (b'{"a": 1, "a": 2}', "has the key 'a' twice"),
        (b'{\n  "hooks": []}', "is not an object at $.hooks"),
        (b'{"hooks": {\n "Stop": {}}}', "is not an array at $.hooks.Stop"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
@pytest.mark.parametrize("action", ["install", "remove"])
def test_a_broken_file_is_refused_with_its_place_and_not_touched(
    tmp_path: Path, text: bytes, what: str, action: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match="The file was not changed") as refused:
        getattr(Settings(str(path)), action)(*([EVENTS, COMMAND] if action == "install" else []))

    assert what in str(refused.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]
    assert path.read_bytes() == text


@pytest.mark.parametrize("value", [[1], [{}], [{"hooks": 7}], [{"hooks": [None, {"command": 5}]}]])
def test_groups_of_another_form_are_left_alone(tmp_path: Path, value: Any) -> None:
    path = file(tmp_path, json.dumps({"hooks": {"Stop": value}}))

    Settings(str(path)).install(EVENTS, COMMAND)
    Settings(str(path)).remove()

    assert loaded(path) == {"hooks": {"Stop": value}}
