"""A workspace that moved with its ledger: what was published under the old path is found, and can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.backfilling import (
    FILE,
    OLD,
    applied,
    books,
    ledger_with,
    plan_of,
    rows,
    stands,
    taken_back,
    text,
)
from tests.backfilling import written as write_file
from tests.projections.telling import exposed, graded
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill.publication_status import published_elsewhere, status
from rightful.backfill.target_file import temporary_path
from rightful.errors import TargetChangedError, UsageError


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Path, str]:
    """The ledger and the file at their new place, and the publication to the old one."""
    write_file(tmp_path / "old" / "state" / "b.json", FILE)
    path = ledger_with(tmp_path / "old")
    done = applied(path, plan_of(path, tmp_path / "old" / "state" / "b.json"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert done.publication is not None
    return tmp_path / "new" / "ledger", tmp_path / "new" / "state" / "b.json", done.publication


def test_rollback_of_a_moved_file_names_the_command_and_restores_it(
    moved: tuple[Path, Path, str], tmp_path: Path
) -> None:
    path, target, publication = moved
    old = tmp_path / "old" / "state" / "b.json"
    before = target.read_bytes()

    with pytest.raises(UsageError) as refused:
        taken_back(path, target)
    assert str(refused.value) == (
        f"nothing was published to {target} from this ledger. It published to {old}, which does not exist. If that "
        f"file was moved here, `rightful backfill rollback --target {target} --publication {publication}` restores "
        f"its earlier content here. Nothing was rolled back."
    )
    assert target.read_bytes() == before

    done = taken_back(path, target, publication=publication)
    again = taken_back(path, target, publication=publication)

    assert target.read_bytes() == text(FILE)
    assert (done.target, done.happened, again.happened) == (str(target), "written", "already in place")
    assert [event.target for event in rows(path, "posterior.published")] == [str(old)] * 2
    assert stands(path, old).publication is None
    assert not old.parent.exists()
    assert not Path(temporary_path(str(target))).exists()


def test_moved_file_that_its_tool_wrote_is_found_by_name_and_needs_force(moved: tuple[Path, Path, str]) -> None:
    path, target, publication = moved
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")

    with books(path) as found:
        assert status(found, str(target)) == []
        assert publication in published_elsewhere(found, str(target))
    with pytest.raises(TargetChangedError):
        taken_back(path, target, publication=publication)
    taken_back(path, target, publication=publication, force=True)

    assert target.read_bytes() == text(FILE)


def test_publication_of_a_file_that_exists_is_not_undone_in_its_copy(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), write_file(tmp_path / "state" / "b.json", FILE)
    done = applied(path, plan_of(path, target))
    copy = tmp_path / "copy" / "state" / "b.json"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(target.read_bytes())

    with pytest.raises(UsageError, match=r"nothing was published to .* from this ledger. Nothing was rolled back"):
        taken_back(path, copy, publication=done.publication)

    assert copy.read_bytes() == target.read_bytes()


def test_status_of_an_old_path_whose_folder_is_gone_is_printed(moved: tuple[Path, Path, str], tmp_path: Path) -> None:
    path, _, publication = moved

    found = stands(path, tmp_path / "old" / "state" / "b.json")

    assert (found.standing, found.publication) == ("missing", publication)


def test_lessons_by_their_old_path_are_noted_in_a_moved_workspace(tmp_path: Path) -> None:
    """The hook looks up the path that a lesson has now, and would find none of them."""
    old, lesson = tmp_path / "old" / "lessons" / "git.md", tmp_path / "new" / "lessons" / "git.md"
    path = ledger_with(tmp_path, [exposed("t:a", str(old)), graded("t:a", 1.0)])
    lesson.parent.mkdir(parents=True)
    lesson.write_text("# Git")
    target = lesson.parents[1] / "state" / "b.json"
    target.parent.mkdir()

    noted = plan_of(path, target, "lesson-hook").notes
    mapped = plan_of(path, target, "lesson-hook", {"arm_aliases": {str(old): str(lesson)}})

    [note] = [note for note in noted if "the workspace was moved" in note]
    assert note == (
        f"{old} does not exist, but {lesson} does: the workspace was moved, and the hook looks up the new path only; "
        f"map the old paths to the new ones in the policy's arm_aliases"
    )
    assert mapped.notes == ()
    with rightful.open(path, readonly=True) as ledger:
        assert list(ledger.posteriors().arms) == [str(old)]
