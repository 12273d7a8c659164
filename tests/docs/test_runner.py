"""The runner on machines where something is missing: it says what, and leaves nothing half-made."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "cat", "cksum", "sed", "rm", "mkdir")

ENOUGH = '#!/bin/sh\ncase "$*" in "-c import sys"*) exit 0 ;; esac\n'
"""A Python that is new enough, and of which nothing else is known."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the runner needs of a clone, beside a folder `bin` with only the tools of POSIX."""
    for name in ("run", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path


def python(clone: Path, script: str) -> None:
    command = clone / "bin" / "python3.11"
    command.write_text(script)
    command.chmod(0o755)


def run(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(clone / "bin"), "HOME": str(clone), "LOG": str(clone / "log")}
    return subprocess.run([clone / "run", *words], env=env, capture_output=True, text=True, check=False)


def test_a_machine_without_python_is_told_which_one_is_needed(clone: Path) -> None:
    done = run(clone, "setup")

    assert done.returncode == 1
    assert "no Python 3.11 or newer was found" in done.stderr


def test_a_python_without_ensurepip_and_pip_is_named_with_what_to_install(clone: Path) -> None:
    python(clone, ENOUGH + 'case "$*" in *--without-pip*) mkdir -p "$HOME/.venv/bin"; exit 0 ;; esac\nexit 1\n')

    done = run(clone, "setup")

    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (clone / ".venv").exists()


def test_a_python_without_ensurepip_installs_by_the_pip_it_has(clone: Path) -> None:
    inner = "#!/bin/sh\\nexit 1\\n"
    python(
        clone,
        ENOUGH + f'echo "$@" >>"$LOG"\ncase "$*" in\n*--without-pip*) mkdir -p "$HOME/.venv/bin"; '
        f"printf '{inner}' >$HOME/.venv/bin/python; chmod +x $HOME/.venv/bin/python ;;\n"
        '"-m venv"*) exit 1 ;;\nesac\n',
    )
    (clone / "bin" / "chmod").symlink_to(shutil.which("chmod") or "")

    done = run(clone, "setup")

    assert done.returncode == 0, done.stderr
    assert f"-m pip --python {clone}/.venv/bin/python install" in (clone / "log").read_text()


def test_failing_installation_is_tried_three_times_and_not_marked_ready(clone: Path) -> None:
    python(
        clone,
        ENOUGH + 'case "$*" in *" install "*) echo "$@" >>"$LOG"; exit 1 ;; "-m venv --clear --w"*) exit 0 ;;\n'
        '"-m venv"*) exit 1 ;; esac\n',
    )

    done = run(clone, "setup")

    assert done.returncode == 1
    assert len((clone / "log").read_text().splitlines()) == 3
    assert not (clone / ".venv" / "ready").exists()


def test_an_unknown_job_is_answered_with_the_known_ones(clone: Path) -> None:
    done = run(clone, "tset")

    assert done.returncode == 2
    assert "./run test" in done.stderr


@pytest.mark.parametrize("script", ["run", ".ci/run"])
def test_the_scripts_can_be_executed(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
