from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from rightful import limits
from rightful.importers.sources.folders import order_of, walk, would_walk
from rightful.importers.sources.text_files import Problem


def test_a_folder_is_walked_in_order_without_following_links(tmp_path: Path) -> None:
    for name in ("b/2.json", "b/1.jsonl", "a/3.json", "z.json", "notes.md", "b/x.tmp"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "out.json").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "a" / "pipe.json")

    found = [item if isinstance(item, str) else (item[0], item[1].what) for item in walk(str(tmp_path))]

    assert found == [
        f"{tmp_path}/z.json",
        f"{tmp_path}/a/3.json",
        (f"{tmp_path}/a/out.json", "a symbolic link; not followed inside a folder"),
        (f"{tmp_path}/a/pipe.json", "not a regular file; not read"),
        f"{tmp_path}/b/1.jsonl",
        f"{tmp_path}/b/2.json",
    ]


def test_other_files_of_a_session_are_read_after_its_transcript(tmp_path: Path) -> None:
    names = (
        "claude/7.jsonl",
        "gptme/a/conversation.jsonl",
        "gptme/a/conv-checkpoints.jsonl",
        "gptme/a/events.jsonl",
        "gptme/a/branches/main-undo-0.jsonl",
        "cc-session-1.log",
        "a/cc-session-2.log",
    )
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")

    found = [item for item in walk(str(tmp_path)) if isinstance(item, str)]
    assert [path[len(f"{tmp_path}/") :] for path in found] == list(names)
    changed = [path for path in found if "branches" not in path]
    assert sorted(set(changed), key=order_of)[:4] == changed[:4]


def test_a_walk_counts_what_it_does_not_look_at_by_suffix(tmp_path: Path) -> None:
    for name in ("a.md", "b/b.md", "b/c.log", "b/Makefile", "b/d.json", "b/e.tar.gz", ".gitignore"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    (tmp_path / "link.md").symlink_to("a.md")
    others: Counter[str] = Counter()

    assert list(walk(str(tmp_path), others=others)) == [f"{tmp_path}/b/d.json"]
    assert others == {".md": 3, ".log": 1, "": 2, ".gz": 1}


def test_walk_omits_files_that_are_read_with_another_file(tmp_path: Path) -> None:
    """Grok's `summary.json` and gptme's `config.toml` were reported as skipped, though they were read."""
    names = ("g/summary.json", "g/chat_history.jsonl", "c/config.toml", "c/conversation.jsonl", "d/summary.json")
    for name in (*names, "d/config.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    others: Counter[str] = Counter()

    found = list(walk(str(tmp_path), others=others))

    assert found == [
        f"{tmp_path}/{name}" for name in ("c/conversation.jsonl", "d/summary.json", "g/chat_history.jsonl")
    ]
    assert others == {".toml": 1}


def test_a_walk_looks_at_the_stream_logs_of_claude_code(tmp_path: Path) -> None:
    for name in ("cc-session-20260801.log", "cc-session-x.txt", "other.log", "x-cc-session-1.log"):
        (tmp_path / name).write_text("{}")
    others: Counter[str] = Counter()

    assert list(walk(str(tmp_path), others=others)) == [f"{tmp_path}/cc-session-20260801.log"]
    assert others == {".txt": 1, ".log": 2}


def test_a_walk_passes_over_what_no_agent_tool_writes_into(tmp_path: Path) -> None:
    for name in (".git/x.json", "a/node_modules/p/package.json", ".rightful/store/x.json", "a/store/y.json", "z.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / ".rightful" / "ledger.lock").write_text("")
    others: Counter[str] = Counter()

    found = [item if isinstance(item, str) else (item[0], *item[1][1:]) for item in walk(str(tmp_path), others=others)]

    assert found == [
        (f"{tmp_path}/.git", "git's own files; not searched", False),
        f"{tmp_path}/z.json",
        (f"{tmp_path}/.rightful", "a ledger; not searched", False),
        (f"{tmp_path}/a/node_modules", "third-party packages; not searched", False),
        f"{tmp_path}/a/store/y.json",
    ]
    assert others == {}


def test_a_walk_ends_at_its_limit(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.json").write_text("{}")

    assert len(list(walk(str(tmp_path), limit=4))) == 4
    assert list(walk(str(tmp_path), limit=3))[3:] == [
        (str(tmp_path), Problem(None, "more than 3 entries; the rest was not read"))
    ]
    assert limits.WALK_ENTRIES == 1_000_000


def test_unreadable_folder_is_reported_and_the_others_are_walked(tmp_path: Path) -> None:
    assert list(walk(str(tmp_path / "none"))) == [
        (str(tmp_path / "none"), Problem(None, "could not be read: No such file or directory"))
    ]


def test_a_folder_holds_just_the_files_that_a_walk_yields(tmp_path: Path) -> None:
    names = (
        "a.json",
        "b/c.jsonl",
        "b/notes.md",
        ".git/d.json",
        "e/node_modules/f/g.json",
        "l/h.json",
        "cc-session-1.log",
        "grok/chat_history.jsonl",
        "grok/summary.json",
        "other/summary.json",
    )
    for name in (*names, "l/store/x", "l/ledger.lock"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / "beside.json").write_text("{}")
    (tmp_path / "in" / "link.json").symlink_to("a.json")
    (tmp_path / "in" / "linked").symlink_to("b")
    os.mkfifo(tmp_path / "in" / "pipe.json")
    folder = str(tmp_path / "in")
    everything = [*names, "link.json", "linked/c.jsonl", "pipe.json", "gone.json", "../beside.json"]
    paths = [os.path.normpath(f"{folder}/{name}") for name in everything]

    assert [path for path in paths if would_walk(folder, path)] == sorted(
        (item for item in walk(folder) if isinstance(item, str)), key=paths.index
    )
    assert [
        name for name in ("b", "l", "linked", ".git", "e/node_modules/f") if would_walk(folder, f"{folder}/{name}")
    ] == ["b"]
    assert not would_walk(folder, folder)
