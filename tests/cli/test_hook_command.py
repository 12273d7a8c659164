from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.hooking import before_tool, rows

import rightful
from rightful.integrations.claude_code import hook_entry
from rightful.integrations.claude_code.hook_entry import calls_us, command_of, ledger_of, programs_of, words_of
from rightful.integrations.claude_code.hook_events import EVENTS
from rightful.integrations.claude_code.settings import Settings

COMMAND = command_of(["/opt/my tools/rightful"], "/home/dév/it's/.rightful")


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


def test_foreign_commands_are_not_recognised_as_ours() -> None:
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
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"hooks": {"PreToolUse": [own]}}))

    Settings(str(path)).install(EVENTS, COMMAND)
    Settings(str(path)).install(EVENTS, command_of(["/x/rightful"], "/other"))
    path.write_text(path.read_text() + " ")  # so that it is not simply given back
    settings = Settings(str(path))
    settings.remove()

    assert json.loads(path.read_text()) == {"hooks": {"PreToolUse": [own]}}
    assert [(one.event, one.command) for one in settings.others()] == [("PreToolUse", edited)]


def test_the_command_is_safe_for_a_shell_and_says_what_it_starts() -> None:
    assert COMMAND == (
        "'/opt/my tools/rightful' hook run claude-code --ledger '/home/dév/it'\"'\"'s/.rightful' || true"
    )
    assert ledger_of(COMMAND) == "/home/dév/it's/.rightful"
    assert programs_of(COMMAND) == ["/opt/my tools/rightful"]
    started = ["/usr/bin/env", "PYTHONPATH=/s", "/b/python", "-P", "-m", "rightful"]
    assert programs_of(command_of(started, "/l")) == ["/usr/bin/env", "/b/python"]


def test_the_program_is_its_own_script_where_there_is_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = here / "rightful"
    script.write_text("#!/bin/sh\n")
    monkeypatch.setattr(sys, "argv", ["./rightful"])
    monkeypatch.setattr(sys, "executable", str(here / "elsewhere" / "python"))  # no script stands beside it
    source = str(Path(rightful.__file__).parents[1])
    module = ["/usr/bin/env", f"PYTHONPATH={source}", sys.executable, "-P", "-m", "rightful"]
    assert hook_entry.program() == module
    script.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "/x")
    assert hook_entry.program() == ["/usr/bin/env", "PYTHONPATH=", str(script)]
    monkeypatch.setenv("PYTHONPATH", f"/x{os.pathsep}{source}")  # it is not found otherwise
    assert hook_entry.program() == ["/usr/bin/env", f"PYTHONPATH={source}", str(script)]


@pytest.mark.parametrize("form", ["script", "module"])
def test_no_file_of_the_project_is_run_in_the_place_of_a_module(
    run: Run, ledger: Path, home: Path, here: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    source = str(Path(rightful.__file__).parents[1])
    if form == "script":
        script = here / "bin" / "rightful"
        script.parent.mkdir()
        found = [source, *(path for path in sys.path if path.endswith("site-packages"))]
        script.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path += {found!r}\nfrom rightful.cli import main\nmain()\n"
        )
        script.chmod(0o755)
        monkeypatch.setattr(sys, "argv", [str(script)])
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setattr(os.path, "isfile", lambda _: False)
    assert run("hook", "install", "claude-code").code == 0
    project = here / "project"
    project.mkdir()
    for name in ("signal", "typing", "rightful", "json", "lmdb", "msgspec", "sitecustomize"):
        (project / f"{name}.py").write_text("print('hostile', flush=True)")

    written = json.loads((home / ".claude" / "settings.json").read_text())
    command = written["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    assert ("-m" in shlex.split(command)) == (form == "module")
    done = subprocess.run(
        ["sh", "-c", command], input=json.dumps(before_tool()).encode(), cwd=project, check=False, capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(here / "temp"), "PYTHONPATH": ":/x"},
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [getattr(row.event, "call", None) for row in rows(ledger)] == ["toolu_1"]
