"""The command that runs the SDK's suites: what it compares, expects, prints and unpacks. It needs no network."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.openai_agents import __main__ as command
from tests.contracts.openai_agents import fetching, suites, telling
from tests.contracts.openai_agents.comparing import Comparison, Outcome, compare
from tests.contracts.openai_agents.suites import Expected, SuiteError

PASSED: Outcome = ("passed", "")
FAILED: Outcome = ("failed", "assert 1 == 2")
KNOWN = Expected({"tables": "It reads SQLite's tables."}, {"tests/a.py::raw": "tables"})


def compared(base: dict[str, Outcome], ours: dict[str, Outcome], known: Expected = KNOWN) -> Comparison:
    return compare(["tests/a.py"], base, ours, known)


def test_what_fails_as_the_list_says_is_as_expected() -> None:
    found = compared(
        {"tests/a.py::raw": PASSED, "tests/a.py::b": PASSED}, {"tests/a.py::raw": FAILED, "tests/a.py::b": PASSED}
    )

    assert found.ok
    assert list(telling.table(found))[2:] == [
        "| tests/a.py | 2 | 1 | 1 tables |  |",
        "| **all** | 2 | 1 | 1 tables |  |",
    ]
    assert list(telling.verdict(found, KNOWN)) == ["tables: It reads SQLite's tables.", "As expected."]


def test_a_failure_that_is_not_on_the_list_is_reported_with_what_it_said() -> None:
    base, ours = {"tests/a.py::raw": PASSED, "tests/a.py::b": PASSED}, {"tests/a.py::raw": FAILED}

    found = compared(base, ours | {"tests/a.py::b": ("failed", "no\x1b[2J" + "x" * 200)})

    assert not found.ok
    told = next(line for line in telling.verdict(found, KNOWN) if line.startswith("tests/a.py::b"))
    assert "was not expected to (failed: no [2Jxxx" in told
    assert "\x1b" not in told
    assert told.endswith("x…)")


@pytest.mark.parametrize("ours", [{}, {"tests/a.py::b": ("skipped", "not here")}], ids=["not run", "skipped"])
def test_a_test_that_our_store_did_not_run_has_not_passed(ours: dict[str, Outcome]) -> None:
    found = compared({"tests/a.py::b": PASSED}, ours, Expected({}, {}))

    assert list(found.failing) == ["tests/a.py::b"]
    assert not found.ok


def test_an_expected_failure_that_passes_is_to_be_taken_off_the_list() -> None:
    found = compared({"tests/a.py::raw": PASSED}, {"tests/a.py::raw": PASSED})

    assert found.passing == ["tests/a.py::raw"]
    assert not found.ok


def test_an_expected_failure_that_is_not_there_is_told_if_its_file_was_run() -> None:
    other = Expected({"tables": "It reads."}, {"tests/a.py::gone": "tables", "tests/b.py::elsewhere": "tables"})

    found = compared({"tests/a.py::b": PASSED}, {"tests/a.py::b": PASSED}, other)

    assert found.unknown == ["tests/a.py::gone"]
    assert not found.ok


def test_what_the_sdks_own_stores_do_not_pass_is_left_out_with_its_reason() -> None:
    base = {"tests/a.py::raw": FAILED, "tests/a.py::b": ("skipped", "needs 3.12"), "tests/a.py::c": PASSED}

    found = compared(base, {"tests/a.py::raw": FAILED, "tests/a.py::b": FAILED, "tests/a.py::c": PASSED})

    assert found.left_out == {"tests/a.py::raw": "failed: assert 1 == 2", "tests/a.py::b": "skipped: needs 3.12"}
    assert found.ok
    assert next(line for line in telling.table(found) if "tests/a.py" in line) == "| tests/a.py | 1 | 1 |  | 2 |"


def test_file_that_fails_on_the_sdks_own_stores_is_not_compared() -> None:
    found = compared({"tests/a.py": ("failed", "ModuleNotFoundError")}, {}, Expected({}, {}))

    assert found.empty == ["tests/a.py"]
    assert not found.ok


def test_a_file_that_only_our_store_cannot_even_import_is_a_failure() -> None:
    found = compared({"tests/a.py::b": PASSED}, {"tests/a.py::b": PASSED, "tests/a.py": FAILED}, Expected({}, {}))

    assert found.failing == {"tests/a.py": "assert 1 == 2"}


def test_every_test_on_the_list_is_of_a_suite_and_has_one_reason() -> None:
    known = suites.expected()

    assert {test.partition("::")[0] for test in known.tests} <= set(suites.FILES)
    assert set(known.tests.values()) == set(known.reasons)
    assert len(known.tests) < 50


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[a]\nwhy = " "\ntests = []\n', "the reason 'a' does not say why"),
        ('[a]\nwhy = "x"\ntests = ["t"]\n[b]\nwhy = "y"\ntests = ["t"]\n', "t has two reasons, 'a' and 'b'"),
    ],
)
def test_a_list_that_is_not_exact_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "expected.toml").write_text(text)

    with pytest.raises(SuiteError, match=says):
        suites.expected(tmp_path / "expected.toml")


def test_a_word_chooses_suites_and_one_that_fits_none_is_refused() -> None:
    assert suites.chosen(["session_limit", "soft_cancel"]) == (
        "tests/memory/test_session_limit.py",
        "tests/test_soft_cancel.py",
    )
    assert suites.chosen([]) == suites.FILES
    with pytest.raises(SuiteError, match="no suite's path contains 'redis'"):
        suites.chosen(["redis"])


def sdist(path: Path, names: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


GOOD = {"sdk-1/tests/memory/test_a.py": "a", "sdk-1/pyproject.toml": "p", "sdk-1/src/agents/__init__.py": "code"}


def test_only_the_tests_of_a_source_distribution_are_unpacked(tmp_path: Path) -> None:
    tests = fetching.unpack(sdist(tmp_path / "s.tar.gz", GOOD), tmp_path / "into")

    assert tests == tmp_path / "into" / "sdk-1"
    assert sorted(str(path.relative_to(tests)) for path in tests.rglob("*") if path.is_file()) == [
        "pyproject.toml",
        "tests/memory/test_a.py",
    ]


@pytest.mark.parametrize("name", ["../out.py", "sdk-1/tests/../../../out.py", "/tmp/out.py"])
def test_archive_with_paths_outside_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    into = tmp_path / "deep" / "into"

    with pytest.raises(SuiteError, match=r"cannot be unpacked: .* stands outside of it"):
        fetching.unpack(sdist(tmp_path / "s.tar.gz", GOOD | {name: "x"}), into)

    assert not into.exists()
    assert sorted(path.name for path in tmp_path.rglob("*.py")) == []


@pytest.mark.parametrize("has_filter", [True, False])
def test_a_link_to_the_outside_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filter: bool) -> None:
    """Python before 3.11.4 has no filter that would refuse it."""
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("sdk-1/tests/link")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../elsewhere"
        archive.addfile(link)

    with pytest.raises(SuiteError, match="outside the destination"):
        fetching.unpack(tmp_path / "s.tar.gz", tmp_path / "into")


@pytest.mark.parametrize("names", [{"sdk-1/pyproject.toml": "p"}, {"sdk-1/tests/a.py": "a"}, {}])
def test_an_archive_without_tests_is_no_source_distribution(tmp_path: Path, names: dict[str, str]) -> None:
    with pytest.raises(SuiteError, match="holds no tests"):
        fetching.unpack(sdist(tmp_path / "s.tar.gz", names), tmp_path / "into")


def test_what_is_no_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "s.tar.gz").write_bytes(b"not an archive")

    with pytest.raises(SuiteError, match="cannot be unpacked"):
        fetching.unpack(tmp_path / "s.tar.gz", tmp_path / "into")


def test_a_pip_that_fails_is_reported_and_one_that_brings_nothing_too(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"downloading the source distribution of openai-agents 1\.0 failed"):
        fetching.download(Path("/bin/false"), "1.0", tmp_path)
    with pytest.raises(SuiteError, match=r"pip downloaded no openai_agents-1\.0\.tar\.gz"):
        fetching.download(Path("/bin/true"), "1.0", tmp_path)


def test_the_versions_that_the_suites_need_are_pinned_and_no_host_is_named() -> None:
    lines = [path.read_text("utf-8") for path in fetching.CONSTRAINTS]
    pinned = {line.partition("==")[0] for text in lines for line in text.splitlines() if "==" in line}

    assert {"openai-agents", *fetching.NEEDED} <= pinned
    assert [text for text in lines if "://" in text] == []


SUITE = """
import pytest

def test_good(): pass
def test_bad(): assert 1 == 2
def test_left(): pytest.skip("not here")

@pytest.fixture
def broken():
    yield
    raise RuntimeError("at the end")

def test_ends_badly(broken): pass
"""


def test_the_outcome_of_each_test_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SUITE)
    (tmp_path / "test_b.py").write_text("import nothing_of_that_name")
    plugins = str(suites.HERE / "plugins")
    words = ["-q", "-p", "rightful_outcomes", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_a.py", "test_b.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": plugins, "RIGHTFUL_OUTCOMES": str(tmp_path / "o.json"), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        check=False,
    )

    assert json.loads((tmp_path / "o.json").read_text()) == {
        "test_b.py": ["failed", "E   ModuleNotFoundError: No module named 'nothing_of_that_name'"],
        "test_a.py::test_good": ["passed", ""],
        "test_a.py::test_bad": ["failed", "assert 1 == 2"],
        "test_a.py::test_left": ["skipped", "Skipped: not here"],
        "test_a.py::test_ends_badly": ["failed", "RuntimeError: at the end"],
    }


@pytest.mark.parametrize(("ours", "code"), [(PASSED, 0), (FAILED, 1)])
def test_the_command_ends_with_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ours: Outcome, code: int
) -> None:
    found = compared({"tests/a.py::b": PASSED}, {"tests/a.py::b": ours}, Expected({}, {}))
    monkeypatch.setattr(command, "_compared", lambda *_: found)

    assert command.main(["--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["sdk"]) == (code == 0, suites.PINNED)
    assert document["files"] == {"tests/a.py": {"base": 1, "ours": 1 - code, "expected": {}, "left_out": 0}}
    assert command.main([]) == code
    assert capsys.readouterr().out.splitlines()[-1] == ("As expected." if code == 0 else "Not as expected.")


def test_a_suite_that_is_not_there_ends_with_2_and_compares_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["redis"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "no suite's path contains 'redis'" in said.err
