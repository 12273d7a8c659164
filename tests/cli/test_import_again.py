from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_import import A, B, record, write

ADVICE = (
    "rightful: A line with a problem was not imported; the rest of its file was. Repair the file and import it again.\n"
)


def test_unchanged_files_are_reported_in_one_line(ledger: Path, run: Run, here: Path) -> None:
    """Those with problems in the part read before are named each time, with the exit code of the first import."""
    rows = [{"type": "user", "uuid": "u1", "sessionId": A, "timestamp": "2026-08-01T10:15:00Z",
             "message": {"role": "user", "content": "Hello"}}, 5, 6]  # fmt: skip
    write(here / "ws" / "p" / f"{A}.jsonl", *rows)
    write(here / "ws" / "p" / f"{B}.jsonl", *[{**rows[0], "uuid": "u2", "sessionId": B}, 7])  # type: ignore[dict-item]
    write(here / "ws" / "r.jsonl", record("g1", 15, None, 0.5))

    first, again = run("import", "auto", here / "ws"), run("import", "auto", here / "ws")
    one = run("import", "auto", here / "ws" / "r.jsonl")
    write(here / "ws" / "r.jsonl", record("g1", 15, None, 0.5), record("g2", 20, None, 0.5))
    grown = run("import", "auto", here / "ws")

    assert (first.code, first.out.splitlines()[-1].partition("; ")[2]) == (2, "3 problems.")
    lines = [(here / "ws" / "p" / f"{name}.jsonl", size) for name, size in ((A, 174), (B, 172))]
    assert again.out.splitlines()[:2] == [f"{path}: nothing (nothing new in {size} bytes)" for path, size in lines]
    assert again.out.splitlines()[-1] == (
        "3 files: 3 already in the ledger; 3 problems (3 of them in files that were read before)."
    )
    assert again.code == 2
    assert (
        again.err
        == "".join(
            f"rightful: {path}: problem: {problems} in the part that an earlier import read; `--again` reads the whole "
            "file and lists each one\n"
            for (path, _), problems in zip(lines, ("2 problems", "1 problem"), strict=True)
        )
        + ADVICE
    )
    assert one.out.splitlines()[0].startswith(f"{here / 'ws' / 'r.jsonl'}: ")
    assert one.out.splitlines()[0].endswith(" already in the ledger")
    assert [line.partition(": ")[0] for line in grown.out.splitlines()] == [
        str(here / "ws" / "r.jsonl"), str(lines[0][0]), str(lines[1][0]), "3 files"
    ]  # fmt: skip


@pytest.mark.parametrize("named", ["claude-code", "lesson-hook", "grok"])
def test_file_of_another_kind_than_named_says_which_kind_it_looks_like(
    ledger: Path, run: Run, here: Path, named: str
) -> None:
    at = "2026-08-01T10:15:00Z"
    path = write(
        here / f"rollout-{A}.jsonl",
        {"timestamp": at, "type": "session_meta", "payload": {"id": A, "timestamp": at, "cwd": "/home/dev"}},
        *[{"timestamp": at, "type": "response_item", "payload": {"type": "message", "role": "user", "content": []}}]
        * 9,
    )

    done = run("import", named, path)

    assert (done.code, done.out) == (2, "0 files: nothing new; 1 problem.\n")
    assert done.err == (
        f"rightful: {path}:1: problem: this looks like a file of kind codex, not {named}; "
        "nothing was imported from it. Import it as codex, or as auto\n"
    )
    assert run("import", "codex", path).code == 0


def test_notes_on_what_brought_nothing_new_are_counted(ledger: Path, run: Run, here: Path) -> None:
    for name in ("a", "b"):
        write(here / "ws" / f"{name}.jsonl", {"session_id": name, "trajectory_grade": 0.5})

    first, again = run("import", "auto", here / "ws"), run("import", "auto", here / "ws")

    assert first.err.count("note: the row has no time") == 2
    assert (again.code, again.out) == (
        0,
        "2 files: nothing new.\n2 files: 4 already in the ledger; 0 problems, 2 notes.\n",
    )
    assert again.err == ("rightful: note: 2 notes on files without new events are not repeated; --json lists them.\n")
    assert "the row has no time" in run("import", "auto", here / "ws" / "a.jsonl").err


@pytest.mark.parametrize(
    "order", ["{kind} --again {first} {second}", "{kind} {first} --again {second}", "--again {kind} {first} {second}"]
)
def test_paths_may_stand_before_and_after_options(ledger: Path, run: Run, here: Path, order: str) -> None:
    write(here / "a.jsonl", record("g1", 15, None, 0.5))
    write(here / "b.jsonl", record("g2", 20, None, 0.5))

    words = order.format(kind="session-records", first=here / "a.jsonl", second=here / "b.jsonl").split()
    imported = run("import", *words)

    assert (imported.code, imported.err) == (0, "")
    assert [line.partition(": ")[0] for line in imported.out.splitlines()] == [
        str(here / "a.jsonl"), str(here / "b.jsonl"), "2 files"
    ]  # fmt: skip


def test_unknown_option_behind_a_path_is_refused(ledger: Path, run: Run, here: Path) -> None:
    write(here / "a.jsonl", record("g1", 15, None, 0.5))

    refused = run("import", "auto", "--again", here / "a.jsonl", "--agian")

    assert refused.code == 2
    assert "unrecognized arguments" in refused.err


@pytest.mark.parametrize("data", [b"[1,2]", b'"x"', b"7", b"\0\0\0\0"], ids=["array", "text", "number", "nul"])
def test_file_without_a_record_is_a_problem_of_each_import(ledger: Path, run: Run, here: Path, data: bytes) -> None:
    path = here / "a.jsonl"
    path.write_bytes(data)

    first, again = run("import", "claude-code", path), run("import", "claude-code", path)

    assert (first.code, again.code, first.out) == (2, 2, again.out)
    assert first.err.startswith(f"rightful: {path}:1: problem: Expected ")
    assert first.err.endswith(f"\n{ADVICE}")
    assert first.err == again.err


def test_unfinished_line_beyond_the_limit_is_a_problem(ledger: Path, run: Run, here: Path) -> None:
    path = here / "a.jsonl"
    with path.open("wb") as file:
        file.write(b'{"type": "user", "text": "')
        file.write(b"x" * (16 << 20))

    done = run("import", "claude-code", path)

    assert (done.code, done.err.splitlines()[0]) == (
        2, f"rightful: {path}:1: problem: longer than 16777216 bytes; not read"
    )  # fmt: skip
