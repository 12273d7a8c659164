from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.log.facts import exposure, grade

import rightful
from rightful.errors import (
    ClosedError,
    InvalidEventError,
    LedgerNotFoundError,
    ReadOnlyStoreError,
    StorageError,
    UsageError,
)
from rightful.times import at_of

START_US = 1_785_500_000_000_000
ENV = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with rightful.open(tmp_path / "ledger", create=True, clock=lambda: START_US) as ledger:
        ledger.append([exposure("1"), grade("2")])
    return tmp_path / "ledger"


# -- opening -----------------------------------------------------------------------------------


def test_nothing_is_made_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(LedgerNotFoundError, match=r"No ledger at .*\. Nothing was created"):
        rightful.open(tmp_path / "ledger")
    with pytest.raises(LedgerNotFoundError):
        rightful.open(tmp_path / "ledger", readonly=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file/ledger", "Not a directory: {}/file/ledger"),
        ("n" * 256, "File name too long: {}/" + "n" * 256),
        ("loop/ledger", "Too many levels of symbolic links: {}/loop/ledger"),
    ],
)
def test_a_path_at_which_none_can_be_made_is_told_and_to_name_another(tmp_path: Path, name: str, why: str) -> None:
    """To try again would be to no avail."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(StorageError) as caught:
        rightful.open(tmp_path / name, create=True)

    said = f"{tmp_path / name} cannot be used: {why.format(tmp_path)}"
    assert str(caught.value) == f"{said}. Nothing was written. Pass another path."


def test_making_what_is_there_opens_it(path: Path) -> None:
    with rightful.open(path, create=True) as ledger:
        assert ledger.status().events == 2


@pytest.mark.parametrize("form", ["{}", "lmdb://{}", "LMDB://{}"])
def test_a_path_can_be_text_or_a_url(path: Path, form: str) -> None:
    with rightful.open(form.format(path)) as ledger:
        assert ledger.path == path
        assert ledger.log.head() == 2


@pytest.mark.parametrize("url", ["postgresql://host/db", "umadb://host", "http://x"])
def test_a_url_of_another_kind_is_refused_and_says_what_can_be_opened(url: str) -> None:
    with pytest.raises(UsageError, match=r"Unsupported ledger URL scheme"):
        rightful.open(url, create=True)


@pytest.mark.parametrize("form", ["~/agents", "lmdb://~/agents"])
def test_a_tilde_at_the_beginning_of_a_path_is_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)

    with rightful.open(form, create=True) as ledger:
        assert ledger.path == tmp_path / "home" / "agents"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_folder_named_tilde_is_reached_with_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with rightful.open("./~", create=True) as ledger, rightful.open(ledger.path) as again:
        assert again.path == tmp_path / "~"
    assert [path.name for path in tmp_path.iterdir()] == ["~"]


@pytest.mark.parametrize("empty", ["", "lmdb://"])
def test_an_empty_path_is_refused(empty: str) -> None:
    with pytest.raises(UsageError, match="The ledger's path is empty"):
        rightful.open(empty, create=True)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_path_that_no_system_has_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid path"):
        rightful.open(str(tmp_path / name), create=True)


def test_making_and_only_reading_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Cannot use `create` with `readonly`"):
        rightful.open(tmp_path / "ledger", create=True, readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_is_only_read_takes_nothing(path: Path) -> None:
    with rightful.open(path, readonly=True) as ledger:
        assert [row.position for row in ledger.read()] == [1, 2]
        with pytest.raises(ReadOnlyStoreError):
            ledger.append([grade("3")])
        assert ledger.log.head() == 2


def test_the_folder_is_nobody_elses_to_read(path: Path) -> None:
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.iterdir()}

    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {name: mode for name, mode in modes.items() if mode not in {0o600, 0o700}} == {}


def test_positions_that_no_row_has_are_answered_as_such(path: Path) -> None:
    """-1 would be read as the row before the first one, which is missing: damage where there is none."""
    with rightful.open(path) as ledger:
        for after in (-1, -(10**30)):
            with pytest.raises(UsageError, match=f"Invalid position {after}"):
                list(ledger.read(after=after))
            with pytest.raises(UsageError, match=f"Invalid position {after}"):
                list(ledger.read(after=after, session="t:a"))
            with pytest.raises(UsageError, match=f"Invalid position {after}"):
                list(ledger.follow(after, timeout_s=0))
        for after in (3, 2**64 - 1, 2**64, 10**30):
            assert list(ledger.read(after=after)) == []
            assert list(ledger.read(after=after, session="t:a")) == []
            assert list(ledger.follow(after, timeout_s=0)) == []


def test_a_name_that_cannot_be_one_has_no_rows(path: Path) -> None:
    with rightful.open(path) as ledger:
        assert list(ledger.read(session="\ud800")) == []
        assert list(ledger.read(session="")) == []


def test_one_type_can_be_said_without_a_list(path: Path) -> None:
    with rightful.open(path) as ledger:
        assert [row.position for row in ledger.read(types="grade.recorded")] == [2]
        assert [row.position for row in ledger.follow(types="grade.recorded", timeout_s=0)] == [2]


def test_a_wait_is_a_number_of_seconds_before_anything_is_sent(path: Path) -> None:
    """Found out later, the writer may have the events already, and the caller hears that they failed."""
    with rightful.open(path) as ledger:
        with pytest.raises(UsageError, match=r"Invalid timeout nan\. Nothing was done"):
            ledger.append([exposure("3")], timeout_s=float("nan"))
        with pytest.raises(UsageError, match=r"Invalid timeout nan\. Nothing was done"):
            ledger.follow(timeout_s=float("nan"))
        assert ledger.status().events == 2
        for number, longer in enumerate((1e300, float("inf"), None), 3):
            assert ledger.append([exposure(str(number))], timeout_s=longer)[0].position == number


def test_a_closed_ledger_does_nothing_and_says_so(path: Path) -> None:
    ledger = rightful.open(path)
    ledger.close()
    ledger.close()

    for use in (lambda: ledger.append([grade("3")]), lambda: list(ledger.read()), ledger.status):
        with pytest.raises(ClosedError):
            use()


def test_two_handles_in_one_process_see_each_others_rows(path: Path) -> None:
    with rightful.open(path) as one, rightful.open(path) as other:
        one.append([grade("3")])
        assert [row.position for row in other.read(after=2)] == [3]
        one.close()
        other.append([grade("4")])
        assert other.log.head() == 4


def test_the_ledger_is_closed_even_when_its_block_fails(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), rightful.open(path) as ledger:
        raise ZeroDivisionError
    with pytest.raises(ClosedError):
        ledger.log.head()


# -- the façade --------------------------------------------------------------------------------


def test_append_read_and_follow_go_to_the_log(path: Path) -> None:
    with rightful.open(path) as ledger:
        [receipt] = ledger.append([grade("3", session="t:b")])

        assert (receipt.outcome, receipt.position) == ("appended", 3)
        assert [row.position for row in ledger.read(session="t:b")] == [3]
        assert [row.position for row in ledger.read(types=["grade.recorded"], until=2)] == [2]
        assert [row.position for row in ledger.follow(1, timeout_s=0)] == [2, 3]
        assert [row.position for row in ledger.follow(session="t:a", types=["grade.recorded"], timeout_s=0)] == [2]


def test_following_hears_of_what_another_process_appends(path: Path) -> None:
    program = (
        "import sys, rightful; from tests.log.facts import grade; "
        "rightful.open(sys.argv[1]).append([grade('from elsewhere')])"
    )
    with rightful.open(path) as ledger:
        following = ledger.follow(2, timeout_s=60)
        subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=ENV)
        assert next(following).position == 3


def test_threads_that_send_the_same_events_at_once_write_each_once(path: Path) -> None:
    """All but one of them is told where it stands; nobody is told twice that it was appended."""
    batch = [grade(f"together {number}", seq=number) for number in range(20)]
    outcomes: list[list[str]] = []
    gate = threading.Barrier(8)

    with rightful.open(path) as ledger:

        def send() -> None:
            gate.wait()
            outcomes.append([receipt.outcome for receipt in ledger.append(batch)])

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = [row.id for row in ledger.read(after=2)]

    assert sorted(outcomes) == [["appended"] * 20, *[["duplicate"] * 20] * 7]
    assert len(rows) == len(set(rows)) == 20


def test_the_given_clock_says_when_rows_are_recorded_and_facts_happened(tmp_path: Path) -> None:
    with rightful.open(tmp_path / "ledger", create=True, clock=lambda: START_US) as ledger:
        ledger.producer("hook").started("t:a")
        [row] = ledger.read()

    assert row.recorded_at == at_of(START_US)
    assert row.event.at == at_of(START_US)  # type: ignore[union-attr]


def test_a_producers_name_must_have_its_form(path: Path) -> None:
    with rightful.open(path) as ledger, pytest.raises(InvalidEventError, match=r"\$\.producer"):
        ledger.producer("no spaces")


def test_status_says_what_the_ledger_holds(path: Path) -> None:
    with rightful.open(path) as ledger:
        before = ledger.status()
        ledger.posteriors()
    with rightful.open(path) as ledger:
        after = ledger.status()

    assert (before.path, before.events, before.last_recorded_at) == (str(path), 2, at_of(START_US))
    assert (before.watermark, after.watermark) == (0, 2)
    assert after.id == before.id == ledger.id
    assert len(before.id) == 36


def test_an_empty_ledger_has_no_last_row(tmp_path: Path) -> None:
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        assert ledger.status().last_recorded_at is None
        assert list(ledger.read()) == []


def test_the_recorder_is_closed_even_when_the_projections_cannot_be_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise StorageError("no room")

    ledger = rightful.open(path)
    monkeypatch.setattr(ledger.projected(), "save", fail)

    with pytest.raises(StorageError):
        ledger.close()
    with pytest.raises(ClosedError):
        ledger.log.head()


# -- the package -------------------------------------------------------------------------------


def loaded_by(program: str) -> set[str]:
    code = f"{program}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=ENV)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_of_it_until_it_is_used() -> None:
    assert {name for name in loaded_by("import rightful") if name.startswith("rightful")} == {"rightful"}


def test_using_the_ledger_loads_nothing_for_display_or_projections() -> None:
    loaded = loaded_by("import rightful; rightful.open; rightful.Ledger; rightful.Receipt; rightful.GradeRecorded")

    assert "rightful.ledger" in loaded
    assert loaded & {"numpy", "rich", "structlog", "rightful.projections"} == set()


@pytest.mark.parametrize("name", rightful.__all__)
def test_each_public_name_is_found_and_is_itself(name: str) -> None:
    found = getattr(rightful, name)

    assert found is getattr(rightful, name)
    assert found.__name__ == name
    assert found.__module__.startswith("rightful.")


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rightful' has no attribute 'nonsense'"):
        _ = rightful.nonsense
    assert not hasattr(rightful, "Struct")
