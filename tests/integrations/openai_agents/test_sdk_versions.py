"""Versions of the SDK below the floor are refused at import: on them a history could be sent to a provider unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rightful.integrations.openai_agents import FLOOR, check_version

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("version", ["0.17.0", "0.22.2", "0.9", "0.22"])
def test_version_below_the_floor_is_refused(version: str) -> None:
    with pytest.raises(ImportError) as caught:
        check_version(version)

    assert str(caught.value) == (
        f"LedgerSession needs openai-agents 0.22.3 or newer, but {version} is installed. No session was created. "
        "Upgrade with: pip install --upgrade openai-agents"
    )


@pytest.mark.parametrize("version", ["0.22.3", "0.22.3.post1", "0.23.1", "0.24.0", "1.0", "dev"])
def test_tested_and_newer_versions_are_accepted(version: str) -> None:
    check_version(version)


def test_floor_is_the_one_that_the_extra_asks_for() -> None:
    wanted = (ROOT / "pyproject.toml").read_text("utf-8")

    assert wanted.count(f'"openai-agents>={".".join(map(str, FLOOR))}"') == 2


def test_import_with_an_older_sdk_installed_fails_before_the_sdk_is_loaded(tmp_path: Path) -> None:
    """Row D2: 0.17.0 was imported silently."""
    metadata = tmp_path / "openai_agents-0.17.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: openai-agents\nVersion: 0.17.0\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    import rightful.integrations.openai_agents\n"
        "except ImportError as error:\n    print(error, 'agents' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)

    assert done.stdout.startswith("LedgerSession needs openai-agents 0.22.3 or newer, but 0.17.0 is installed.")
    assert done.stdout.endswith(" False\n")
