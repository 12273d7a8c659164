from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rightful.cli.hook_command import calls_us, command_of, ledger_of, programs_of, words_of
from rightful.cli.settings import BACKUP, Settings
from rightful.errors import StorageError, UsageError
from rightful.producers.claude_hook import EVENTS

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
def test_remove_gives_back_the_very_bytes(tmp_path: Path, name: str) -> None:
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


@pytest.mark.parametrize("name", ["used", "tabs", "windows", "byte order mark", "no last newline", "escapes"])
def test_no_line_that_was_there_is_changed(tmp_path: Path, name: str) -> None:
    path = file(tmp_path, FILES[name])
    before = path.read_bytes().split(b"\n")

    Settings(str(path)).install(EVENTS, COMMAND)

    after = [line.rstrip(b",\r") for line in path.read_bytes().split(b"\n")]
    kept = [line.rstrip(b",\r") for line in before if b'"Stop"' not in line]
    assert [line for line in kept if line not in after] == []
    ends = path.read_bytes().count(b"\r\n")
    assert ends == (path.read_bytes().count(b"\n") if name == "windows" else 0)
    assert "/home/dév/".encode() in path.read_bytes()


def test_installing_again_changes_nothing(tmp_path: Path) -> None:
    path = file(tmp_path, USED)
    Settings(str(path)).install(EVENTS, COMMAND)
    once, backup = path.read_bytes(), backup_of(path).read_bytes()

    assert not Settings(str(path)).install(reversed(EVENTS), COMMAND)

    assert path.read_bytes() == once
    assert backup_of(path).read_bytes() == backup == USED.encode()


def test_another_ledger_replaces_the_entries_and_remove_still_gives_back_the_first_bytes(tmp_path: Path) -> None:
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

    assert path.read_text() == USED.replace('"opus"', '"sonnet"').replace(',\n        "Stop": []', "")
    assert backup_of(path).read_text() == USED


def test_ours_is_found_wherever_somebody_moved_it(tmp_path: Path) -> None:
    ours = {"type": "command", "command": COMMAND}
    other = {"type": "command", "command": "/y"}
    groups = [{"matcher": "A", "hooks": [ours, other]}, {"matcher": "B", "hooks": [ours]}, {"hooks": [other, ours]}]
    path = file(tmp_path, json.dumps({"hooks": {"PreToolUse": groups, "Stop": [{"hooks": [ours]}]}, "b": 1}, indent=1))

    Settings(str(path)).remove()

    assert loaded(path) == {"hooks": {"PreToolUse": [{"matcher": "A", "hooks": [other]}, {"hooks": [other]}]}, "b": 1}


OTHERS = [
    "rightful ingest -", "/x/notrightful hook run claude-code --ledger /l || true", "'unbalanced || true", "", None, 7,
    "echo hook run claude-code --ledger /l || true", "/x/rightful hook run codex --ledger /l || true",
]  # fmt: skip

EDITED = [
    "/home/me/notify.sh; /x/rightful hook run claude-code --ledger /l ; /home/me/after.sh",
    "/x/rightful hook run claude-code --ledger /l || true; audit.sh",
    "audit.sh; /x/rightful hook run claude-code --ledger /l || true",
    "audit.sh /x/rightful hook run claude-code --ledger /l || true",
    "/x/rightful hook run claude-code --ledger /l --verbose || true",
    "/x/rightful hook run claude-code --ledger /l",
    "/x/rightful hook run claude-code --ledger $HOME/l || true",
    "/x/rightful hook run claude-code --ledger /l > /tmp/log || true",
    "/x/rightful --ledger /l hook run claude-code || true",
    "/usr/bin/env A=1 /x/rightful hook run claude-code --ledger /l || true",
    "/x/python -m rightful hook run claude-code --ledger /l || true",
]
"""What somebody made of ours, or wrote himself."""


def test_others_are_never_taken_for_ours() -> None:
    assert [command for command in [*OTHERS, *EDITED] if words_of(command) is not None] == []
    assert [command for command in EDITED if not calls_us(command)] == []
    assert [command for command in [COMMAND, *OTHERS] if calls_us(command)] == [OTHERS[-1]]


@pytest.mark.parametrize(
    "program",
    [
        ["/any where/rightful"],
        ["/usr/bin/env", "PYTHONPATH=", "/x/rightful"],
        ["/usr/bin/env", "PYTHONPATH=/s p", "/x/python3", "-m", "rightful"],
        ["/usr/bin/env", "PYTHONPATH=/s", "/x/python3", "-P", "-m", "rightful"],
    ],
)
def test_what_was_ever_written_is_ours_with_any_program_and_any_ledger(program: list[str]) -> None:
    command = command_of(program, "/l'\n; true/")

    assert words_of(command) == [*program, "hook", "run", "claude-code", "--ledger", "/l'\n; true/"]
    assert ledger_of(command) == "/l'\n; true/"


@pytest.mark.parametrize("edited", EDITED)
def test_what_somebody_made_of_ours_is_left_to_him(tmp_path: Path, edited: str) -> None:
    own = {"matcher": "Bash", "hooks": [{"type": "command", "command": edited}]}
    path = file(tmp_path, json.dumps({"hooks": {"PreToolUse": [own]}}))

    Settings(str(path)).install(EVENTS, COMMAND)
    Settings(str(path)).install(EVENTS, command_of(["/x/rightful"], "/other"))
    path.write_text(path.read_text() + " ")  # so that it is not simply given back
    settings = Settings(str(path))
    settings.remove()

    assert loaded(path) == {"hooks": {"PreToolUse": [own]}}
    assert [(one.event, one.command) for one in settings.others()] == [("PreToolUse", edited)]


def test_a_matcher_and_a_timeout_that_somebody_put_to_ours_stay_for_another_ledger(tmp_path: Path) -> None:
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


def test_the_command_is_safe_for_a_shell_and_says_what_it_starts() -> None:
    assert COMMAND == (
        "'/opt/my tools/rightful' hook run claude-code --ledger '/home/dév/it'\"'\"'s/.rightful' || true"
    )
    assert ledger_of(COMMAND) == "/home/dév/it's/.rightful"
    assert programs_of(COMMAND) == ["/opt/my tools/rightful"]
    started = ["/usr/bin/env", "PYTHONPATH=/s", "/b/python", "-P", "-m", "rightful"]
    assert programs_of(command_of(started, "/l")) == ["/usr/bin/env", "/b/python"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'{\n  "a": 1,\n}', "line 3 column 1"),
        (b'{\n  "a": // why\n 1}', "line 2 column 8"),
        (b'{\n "a": "\xff"}', "is not UTF-8, line 2 column 8"),
        (b"[]", "is no object, line 1 column 1"),
        (b"", "line 1 column 1"),
        (b'{"a": 1, "a": 2}', "says 'a' twice"),
        (b'{\n  "hooks": []}', "`hooks` that is no object, line 2 column 12"),
        (b'{"hooks": {\n "Stop": {}}}', "`hooks.Stop` that is no array, line 2 column 10"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
@pytest.mark.parametrize("action", ["install", "remove"])
def test_a_broken_file_is_refused_with_its_place_and_not_touched(
    tmp_path: Path, text: bytes, what: str, action: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match="it was not touched") as refused:
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


def test_a_linked_file_is_changed_where_it_is_and_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = file(tmp_path / "dotfiles", USED)
    real.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to("dotfiles/settings.json")

    Settings(str(link)).install(EVENTS, COMMAND)

    assert link.is_symlink()
    assert len(Settings(str(real)).installed()) == len(EVENTS)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert stat.S_IMODE(backup_of(real).stat().st_mode) == 0o640


def test_a_file_that_somebody_writes_meanwhile_keeps_what_he_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, USED)
    settings = Settings(str(path))
    path.write_text(USED.replace("opus", "sonnet"))

    assert settings.install(EVENTS, COMMAND)

    assert loaded(path)["model"] == "sonnet"


def writing_while_prepared(monkeypatch: pytest.MonkeyPatch, path: Path, times: int) -> list[int]:
    """Somebody writes the file each time that ours is flushed, and so just before it would take the name."""
    real, left = os.fsync, [times]

    def flush(fd: int) -> None:
        real(fd)
        if left[0] and stat.S_ISREG(os.fstat(fd).st_mode):
            left[0] -= 1
            path.write_text(path.read_text() + " ")

    monkeypatch.setattr(os, "fsync", flush)
    return left


@pytest.mark.parametrize("action", ["install", "remove"])
def test_what_somebody_writes_while_ours_is_prepared_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    path = file(tmp_path, USED)
    if action == "remove":
        Settings(str(path)).install(EVENTS, COMMAND)
        path.write_text(path.read_text().replace("opus", "sonnet"))
    left = writing_while_prepared(monkeypatch, path, 3)

    getattr(Settings(str(path)), action)(*([EVENTS, COMMAND] if action == "install" else []))

    assert left == [0]
    assert path.read_text().endswith("}\n   " if action == "remove" else "   ")
    assert len(Settings(str(path)).installed()) == (len(EVENTS) if action == "install" else 0)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["settings.json", f"settings.json{BACKUP}"]
    if action == "install":
        assert backup_of(path).read_text() == USED + " " * 3


def test_a_file_that_is_written_all_the_time_is_given_up_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, USED)
    writing_while_prepared(monkeypatch, path, 1_000)

    with pytest.raises(StorageError, match="Nothing was changed"):
        Settings(str(path)).install(EVENTS, COMMAND)

    assert path.read_text().rstrip(" ") == USED
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, USED)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        Settings(str(path)).install(EVENTS, COMMAND)

    assert path.read_text() == USED
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]


def test_a_backup_of_somebody_elses_is_never_written_over_and_never_removed(tmp_path: Path) -> None:
    path = file(tmp_path, USED)
    backup_of(path).write_text(USED)  # even if it holds the same
    Path(f"{backup_of(path)}.7").write_text("notes")
    settings = Settings(str(path))

    settings.install(EVENTS, COMMAND)

    assert settings.kept == f"{backup_of(path)}.8"
    assert Path(settings.kept).read_text() == USED
    Settings(str(path)).remove()
    assert path.read_text() == USED
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir() if entry != path} == {
        f"settings.json{BACKUP}": USED, f"settings.json{BACKUP}.7": "notes",
    }  # fmt: skip


DYING = """
import os, signal, sys
from rightful.cli.settings import Settings
real, left = os.fsync, [int(sys.argv[2])]
def flush(fd):
    real(fd)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = flush
Settings(sys.argv[1]).install(["Stop"], sys.argv[3])
"""


@pytest.mark.parametrize("step", [1, 2])
def test_what_a_killed_install_left_is_swept_and_what_others_left_is_not(tmp_path: Path, step: int) -> None:
    path = file(tmp_path, USED)
    others = {"settings.json.123456789.tmp", f"settings.json.rightful-{os.getppid()}.tmp", "other.rightful-9.tmp"}
    for name in others:
        (tmp_path / name).touch()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", DYING, path, str(step), COMMAND], check=False, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1 + len(others) + step
    assert path.read_text() == USED

    Settings(str(path)).install(EVENTS, COMMAND)

    kept = others | {"settings.json", f"settings.json{BACKUP}"}
    assert {entry.name for entry in tmp_path.iterdir()} == kept


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
@pytest.mark.parametrize("text", [USED, None])
def test_what_root_writes_stays_its_owners(tmp_path: Path, text: str | None) -> None:
    os.chown(tmp_path, 1_234, 2_345)
    (tmp_path / "a").mkdir()
    os.chown(tmp_path / "a", 1_234, 2_345)
    folder = tmp_path / "a" if text else tmp_path / "a" / "b" / "c"
    path = folder / "settings.json"
    if text:
        path.write_text(text)
        path.chmod(0o604)
        os.chown(path, 1_234, 2_345)

    Settings(str(path)).install(EVENTS, COMMAND)

    made = [folder, *folder.iterdir()]
    assert {(entry.stat().st_uid, entry.stat().st_gid) for entry in made} == {(1_234, 2_345)}
    assert len(made) == (3 if text else 2)
    if text:
        assert {stat.S_IMODE(entry.stat().st_mode) for entry in folder.iterdir()} == {0o604}


def test_a_file_of_another_user_is_not_taken_from_him(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, USED)
    real = os.stat

    def of_another(name: Any, **more: Any) -> os.stat_result:
        found = real(name, **more)
        return os.stat_result([*found[:4], found.st_uid + 7, *found[5:]]) if name == str(path) else found

    monkeypatch.setattr(os, "stat", of_another)
    monkeypatch.setattr(os, "geteuid", lambda: 1_234)
    with pytest.raises(StorageError, match="another user"):
        Settings(str(path)).install(EVENTS, COMMAND)

    assert path.read_text() == USED
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in (tmp_path / "pipe", "/dev/zero", tmp_path / "folder"):
        with pytest.raises(UsageError, match="no regular file"):
            Settings(str(name))
    path = file(tmp_path, USED)
    os.mkfifo(backup_of(path))

    Settings(str(path)).install(EVENTS, COMMAND)
    Settings(str(path)).remove()

    assert path.read_text() == USED
