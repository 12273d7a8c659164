"""The SDK's suites and a place to run them: an environment of their own, and the SDK's source distribution."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tests.contracts.openai_agents.suites import HERE, PINNED, SuiteError

ROOT = HERE.parents[2]
CONSTRAINTS = (ROOT / "constraints.txt", HERE / "constraints.txt")
NEEDED = (
    "pytest",
    "pytest-asyncio",
    "pytest-mock",
    "pytest-timeout",
    "pytest-xdist",
    "inline-snapshot",
    "aiosqlite",
    "sqlalchemy",
    "greenlet",
    "cryptography",
    "redis",
    "fakeredis",
    "httpx",
)
"""What the SDK's tests import beside the SDK."""

KEPT = ("tests", "pyproject.toml")
"""What of the source distribution is unpacked: its tests and the settings of its pytest."""


def call(command: list[str], *, doing: str) -> None:
    """Run a command whose own complaints go to stderr.

    Raises:
        SuiteError: It failed.
    """
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise SuiteError(f"{doing} failed; what it said stands above. Nothing was compared.")


def environment(folder: Path, version: str) -> Path:
    """Return the Python of an environment with Rightful from this tree, the SDK and what its tests need.

    Made once; again when the version or a requirement changes. The pinned version is installed with
    pinned neighbours, another one with whatever it asks for.
    """
    python = folder / "bin" / "python"
    pins = [f"--constraint={path}" for path in CONSTRAINTS] if version == PINNED else []
    wanted = [f"--editable={ROOT}[openai-agents]", f"openai-agents=={version}", *NEEDED]
    mark = _digest([str(ROOT), *wanted, *pins], (ROOT / "pyproject.toml", *CONSTRAINTS))
    ready = folder / "ready"
    if python.exists() and ready.exists() and ready.read_text("utf-8") == mark:
        return python
    call([sys.executable, "-m", "venv", "--clear", str(folder)], doing=f"making a virtual environment in {folder}")
    call([str(python), "-m", "pip", "install", "--quiet", *pins, *wanted], doing="installing what the suites need")
    ready.write_text(mark, "utf-8")
    return python


def _digest(words: Iterable[str], files: Iterable[Path]) -> str:
    said = hashlib.sha256("\n".join(words).encode())
    for file in files:
        said.update(file.read_bytes())
    return said.hexdigest()


def download(python: Path, version: str, folder: Path) -> Path:
    """Return the source distribution of a version of the SDK; it is downloaded once.

    Raises:
        SuiteError: It is not to be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"openai_agents-{version}.tar.gz"
    if not (folder / name).exists():
        what = ["--no-deps", "--no-binary=openai-agents", f"openai-agents=={version}"]
        command = [str(python), "-m", "pip", "download", "--quiet", *what, f"--dest={folder}"]
        call(command, doing=f"downloading the source distribution of openai-agents {version}")
    if not (folder / name).exists():
        raise SuiteError(f"pip downloaded no {name} into {folder}. Give the file with --sdist. Nothing was compared.")
    return folder / name


def unpack(sdist: Path, into: Path) -> Path:
    """Unpack the tests of a source distribution, and nothing that would stand outside of the folder.

    Raises:
        SuiteError: It is no such archive, or one that reaches outside.
    """
    try:
        with tarfile.open(sdist) as archive:
            members = [member for member in archive if _inside(member)]
            if hasattr(tarfile, "data_filter"):
                archive.extractall(into, members=members, filter="data")
            else:  # Python before 3.11.4; what could do harm was refused
                archive.extractall(into, members=members)  # noqa: S202
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SuiteError(f"{sdist} cannot be unpacked: {error}. Nothing was compared.") from None
    found = [path.parent for path in into.glob("*/tests")]
    if len(found) != 1 or not (found[0] / "pyproject.toml").exists():
        raise SuiteError(f"{sdist} holds no tests: it is no source distribution of the SDK. Nothing was compared.")
    return found[0]


def _inside(member: tarfile.TarInfo) -> bool:
    name = member.name
    parts = PurePosixPath(name).parts
    if PurePosixPath(name).is_absolute() or ".." in parts:
        raise tarfile.TarError(f"{name!r} stands outside of it")
    if len(parts) < 2 or parts[1] not in KEPT:
        return False
    if not (member.isfile() or member.isdir()):
        raise tarfile.TarError(f"{name!r} is no file, and could lead outside the destination")
    return True
