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

from rightful.errors import StorageError, UsageError
from rightful.integrations.claude_code.hook_entry import command_of
from rightful.integrations.claude_code.hook_events import EVENTS
from rightful.integrations.claude_code.settings import BACKUP, Settings

COMMAND = command_of(["/opt/rightful"], "/ledger")
USED = '{\n  "model": "opus",\n  "hooks": {\n    "Stop": []\n  }\n}\n'


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(text)
    return path


def backup_of(path: Path) -> Path:
    return Path(f"{path}{BACKUP}")


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


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
    assert json.loads(path.read_text())["model"] == ("sonnet" if action == "remove" else "opus")
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


def test_backup_of_another_tool_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    path = file(tmp_path, USED)
    backup_of(path).write_text(USED)  # even if it holds the same
    Path(f"{backup_of(path)}.7").write_text("notes")
    settings = Settings(str(path))

    settings.install(EVENTS, COMMAND)

    assert settings.backup == f"{backup_of(path)}.8"
    assert Path(settings.backup).read_text() == USED
    Settings(str(path)).remove()
    assert path.read_text() == USED
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir() if entry != path} == {
        f"settings.json{BACKUP}": USED, f"settings.json{BACKUP}.7": "notes",
    }  # fmt: skip


DYING = """
import os, signal, sys
from rightful.integrations.claude_code.settings import Settings
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


def test_file_of_another_user_keeps_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_special_file_is_refused_without_reading(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in (tmp_path / "pipe", "/dev/zero", tmp_path / "folder"):
        with pytest.raises(UsageError, match="not a regular file"):
            Settings(str(name))
    path = file(tmp_path, USED)
    os.mkfifo(backup_of(path))

    Settings(str(path)).install(EVENTS, COMMAND)
    Settings(str(path)).remove()

    assert path.read_text() == USED
