from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.importers import transcript_writers as write

from rightful import limits
from rightful.locate.layouts import Root
from rightful.locate.scan import Scan, scan_folders

A = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
AT = "2026-08-01T10:15:00Z"
SAMPLES = Path(__file__).parents[1] / "samples"


def search(folder: Path, depth: int = limits.LOCATE_DEPTH, *, elsewhere: bool = False) -> Scan:
    return scan_folders([Root(str(folder), depth)], elsewhere=elsewhere)


def test_the_samples_hold_eleven_transcripts_and_two_pointers() -> None:
    found = search(SAMPLES, elsewhere=True)
    assert sorted((one.tool, one.form) for one in found.files.values()) == [
        *[("claude-code", "stream")], *[("claude-code", "transcript")] * 3, *[("codex", "rollout")] * 2,
        ("copilot", "events"), *[("gptme", "conversation")] * 3, ("grok", "stream"),
    ]  # fmt: skip
    assert [(one.tool, one.session, one.found is not None, one.moved) for one in found.pointers] == [
        ("claude-code", "41c2", True, False),
        ("gptme", "b381dcfa-da0b-5cf5-849f-5787aaac922a", True, False),
    ]
    assert (found.problems, found.is_partial) == ((), False)


def test_transcript_in_a_named_folder_counts_whatever_its_path_and_name(
    tmp_path: Path,
) -> None:
    """Out of its tool's layout a transcript says whose it is by its content; the name of its folder says nothing."""
    flat = tmp_path / "flat"
    flat.mkdir()
    shutil.move(write.claude(tmp_path / "c", A, AT), flat / f"{A}.jsonl")
    shutil.move(write.codex(tmp_path / "c", A, AT), flat / "x.jsonl")
    shutil.move(write.copilot(tmp_path / "c", A, AT), flat / "events.jsonl")
    shutil.move(write.gptme(tmp_path / "c", "fox", AT), flat / "y.jsonl")
    write.lines(flat / "records.jsonl", {"session_id": A, "outcome": "productive"})
    (flat / "readme.md").write_text("no transcript")

    found = scan_folders([Root(str(flat), 8), Root(str(tmp_path), 8)], elsewhere=True)
    assert {Path(path).name: (one.tool, one.native_id) for path, one in found.files.items()} == {
        f"{A}.jsonl": ("claude-code", A), "x.jsonl": ("codex", A), "events.jsonl": ("copilot", A),
        "y.jsonl": ("gptme", None),
    }  # fmt: skip
    assert found.passed == 3, "records, the readme and what is left of gptme's folder"
    own = search(tmp_path)
    assert (len(own.files), own.passed) == (0, 7), "in the tools' own folders only what is called as theirs is read"


def test_unreadable_file_is_doubtful_only_if_named_like_a_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write.lines(tmp_path / "server.log", {"level": "info"})
    write.lines(tmp_path / "rollout-x.jsonl", {"level": "info"})
    monkeypatch.setattr("os.access", lambda *_: False)  # the superuser may read all
    assert search(tmp_path, elsewhere=True).problems == (f"{tmp_path / 'rollout-x.jsonl'} cannot be read by you",)


def test_links_are_not_followed_and_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    write.codex(tmp_path / "outside", A, AT)
    inside = tmp_path / "inside" / "sessions"
    inside.mkdir(parents=True)
    (inside / "linked").symlink_to(tmp_path / "outside")
    target = next((tmp_path / "outside").rglob("*.jsonl"))
    (inside / "rollout-x.jsonl").symlink_to(target)
    os.mkfifo(inside / "rollout-y.jsonl")
    (inside / f"cc-session-log-ref-{A}.txt").symlink_to(target)
    found = search(tmp_path / "inside")
    assert (found.files, found.pointers) == ({}, ())
    assert len(scan_folders([Root(str(inside / "linked"), 8)]).files) == 1  # a root that is named is followed


def test_a_folder_is_searched_as_deep_as_the_limit_says(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdef", "fox")
    write.gptme(deep.parent, "fox", AT)
    assert len(search(tmp_path).files) == 1
    assert len(search(tmp_path, limits.LOCATE_DEPTH - 1).files) == 0
    assert limits.LOCATE_DEPTH == 8


def test_pointer_leads_outside_only_from_the_tools_own_folders(tmp_path: Path) -> None:
    path = write.stream(tmp_path / "far" / "stream.jsonl", A)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "cc-session-log-ref-41c2.txt").write_text(str(path))
    assert search(tmp_path / "tmp").pointers[0].found == str(path)
    assert search(tmp_path / "tmp", elsewhere=True).pointers[0].found is None


@pytest.mark.parametrize("target", ["relative/conversation.jsonl", "", "/etc/passwd", "/dev/zero", "a\0b"])
def test_a_pointer_to_what_is_no_transcript_leads_nowhere(target: str, tmp_path: Path) -> None:
    (tmp_path / "gptme-traj-x.path").write_text(target)
    found = search(tmp_path)
    assert found.files == {}
    assert found.pointers[0].found is None


def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write.codex(tmp_path, A, AT)
    listed = os.scandir

    def refused(path: str) -> object:
        if path.endswith("/2026"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    found = search(tmp_path)
    assert (found.files, found.problems) == ({}, (f"{tmp_path}/sessions/2026 could not be read: Permission denied",))


def test_so_many_entries_and_transcripts_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write.gptme(tmp_path, f"fox-{number}", AT)
    shutil.rmtree(tmp_path / "fox-2")
    monkeypatch.setattr(limits, "LOCATE_FILES", 2)
    assert not search(tmp_path).is_partial
    monkeypatch.setattr(limits, "LOCATE_FILES", 1)
    found = search(tmp_path)
    assert (len(found.files), found.is_partial) == (1, True)
    assert found.problems == ("more than 1 transcripts; 1 were not read",)
    monkeypatch.setattr(limits, "LOCATE_FILES", 2)
    monkeypatch.setattr(limits, "WALK_ENTRIES", 2)
    assert search(tmp_path).is_partial
    monkeypatch.undo()


def test_one_folder_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    write.codex(tmp_path, A, AT)
    read: list[int] = []
    scan_folders([Root(str(tmp_path), 8), Root(f"{tmp_path}/.", 8)], on_progress=read.append)
    assert sum(read) == 1


def test_a_pointer_to_a_link_or_to_a_part_of_a_conversation_leads_nowhere(tmp_path: Path) -> None:
    path = write.gptme(tmp_path / "far", "fox", AT)
    (tmp_path / "far" / "link.jsonl").symlink_to(path)
    branch = write.lines(path.parent / "branches" / "main-undo-0.jsonl", path.read_text().splitlines()[0])
    for number, target in enumerate((tmp_path / "far" / "link.jsonl", branch)):
        (tmp_path / f"gptme-traj-{number}.path").write_text(str(target))
    found = search(tmp_path, 1)
    assert [one.found for one in found.pointers] == [None, None]


def test_a_name_that_two_transcripts_have_means_neither(tmp_path: Path) -> None:
    (tmp_path / "gptme-traj-x.path").write_text("/gone/fox/conversation.jsonl")
    write.gptme(tmp_path / "a", "fox", AT)
    assert search(tmp_path).pointers[0].found == f"{tmp_path}/a/fox/conversation.jsonl"
    write.gptme(tmp_path / "b", "fox", AT)
    assert search(tmp_path).pointers[0].found is None
