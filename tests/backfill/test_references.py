from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import limits
from rightful.backfill import reference_repair, target_file
from rightful.backfill.reference_repair import Repair, repaired
from rightful.errors import BackfillRefusedError, StorageError, TargetChangedError
from rightful.locate.record_lines import rows_of

FOUND = "/found/ä/conversation.jsonl"
QUOTED = json.dumps(FOUND).encode()
ODD = b'\xef\xbb\xbf {"a":1 , "b" : "\xff","trajectory_path":'
NESTED = b'{"x": {"trajectory_path": 1}, "trajectory_path": '
LONG = b'{"n": NaN, "i": 1' + b"0" * 5000 + b', "trajectory_path": '


def write(path: Path, owners: dict[str, str], looked: bytes | None = None) -> Repair:
    seen = target_file.read_plannable(str(path))
    rows = rows_of(looked or seen.data or b"", str(path)).rows
    return reference_repair.write_back(str(path), seen, tuple(row for row in rows if row.is_missing), owners)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"session_id": "a", "trajectory_path": null}', b'{"session_id": "a", "trajectory_path": ' + QUOTED + b"}"),
        (b'{"session_id":"a"}\r', b'{"session_id":"a","trajectory_path":' + QUOTED + b"}\r"),
        (b'{"session_id": "a"}', b'{"session_id": "a", "trajectory_path": ' + QUOTED + b"}"),
        (b'\xef\xbb\xbf {"a":1 , "b" : "\xff" }', ODD + QUOTED + b" }"),
        (b'{"journal_path": "/x/conversation.jsonl"}', b'{"journal_path": ' + QUOTED + b"}"),
        (b'{"journal_path": "/x/j.md"}', b'{"journal_path": "/x/j.md", "trajectory_path": ' + QUOTED + b"}"),
        (b'{"x": {"trajectory_path": 1}, "trajectory_path": "/y"}', NESTED + QUOTED + b"}"),
        (LONG + b'""}', LONG + QUOTED + b"}"),
    ],
)  # fmt: skip
def test_only_the_reference_of_a_row_changes(line: bytes, expected: bytes) -> None:
    assert repaired(line, "journal_path" if b"/x/conversation" in line else "trajectory_path", FOUND) == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    row=st.dictionaries(st.text() | st.just("trajectory_path"), _JSON, max_size=6),
    ascii_only=st.booleans(),
    tight=st.booleans(),
)
def test_a_repaired_row_says_the_rest_as_before(row: dict[str, object], ascii_only: bool, tight: bool) -> None:
    separators = (",", ":") if tight else (", ", ": ")
    line = json.dumps(row, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "surrogatepass")
    before = json.loads(line.decode("utf-8", "surrogateescape"))
    after = json.loads(repaired(line, "trajectory_path", FOUND).decode("utf-8", "surrogateescape"))
    assert json.dumps(after) == json.dumps(before | {"trajectory_path": FOUND})


def test_rows_without_an_owner_glued_rows_and_torn_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "session-records.jsonl"
    glued = b'{"session_id": "g"}{"session_id": "a"}'
    lines = [b'{"session_id": "a"}\r', glued, b'{"session_id": "to', b"", b"[1]", b'{"session_id": "b"}']
    path.write_bytes(b"\n".join(lines))
    path.chmod(0o640)
    done = write(path, {"workspace:a": FOUND})
    assert (done.lines, done.glued) == ((1,), (2,))
    assert path.read_bytes().split(b"\n") == [b'{"session_id": "a", "trajectory_path": ' + QUOTED + b"}\r", *lines[1:]]
    assert path.stat().st_mode & 0o777 == 0o640
    assert done.backup is not None
    assert Path(done.backup).read_bytes() == b"\n".join(lines)


def test_a_file_in_utf_16_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "session-records.jsonl"
    path.write_bytes('{"session_id": "a"}\n'.encode("utf-16"))
    done = write(path, {"workspace:a": FOUND})
    assert (done.lines, done.glued, done.backup) == ((), (1,), None)
    assert path.read_bytes() == '{"session_id": "a"}\n'.encode("utf-16")


def test_a_file_that_was_written_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "session-records.jsonl"
    path.write_bytes(b'{"session_id": "a"}\n')
    seen = target_file.read_plannable(str(path))
    rows = rows_of(seen.data or b"", str(path)).rows
    path.write_bytes(b'{"session_id": "a"}\n{"session_id": "b"}\n')
    with pytest.raises(TargetChangedError, match="another program wrote it during the search"):
        reference_repair.write_back(str(path), seen, rows, {"workspace:a": FOUND})
    assert path.read_bytes() == b'{"session_id": "a"}\n{"session_id": "b"}\n'
    assert sorted(one.name for one in tmp_path.iterdir()) == ["session-records.jsonl", "session-records.jsonl.lock"]


def test_the_lock_of_the_tool_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session-records.jsonl"
    path.write_bytes(b'{"session_id": "a"}\n')
    monkeypatch.setattr(limits, "WAIT_S", 0.0)
    with (tmp_path / "session-records.jsonl.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="nothing was written"):
            write(path, {"workspace:a": FOUND})
    assert path.read_bytes() == b'{"session_id": "a"}\n'


def test_a_file_with_other_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "session-records.jsonl"
    path.write_bytes(b'{"session_id": "a"}\n')
    os.link(path, tmp_path / "other")
    with pytest.raises(BackfillRefusedError):
        write(path, {"workspace:a": FOUND})


def test_what_a_kill_left_beside_the_file_is_kept_if_nobody_else_has_it(tmp_path: Path) -> None:
    path = tmp_path / "session-records.jsonl"
    path.write_bytes(b'{"session_id": "a"}\n')
    (tmp_path / ".session-records.jsonl.rightful").write_bytes(b"what a tool wrote last")
    done = write(path, {"workspace:a": FOUND})
    assert done.left is not None
    assert Path(done.left).read_bytes() == b"what a tool wrote last"
    assert not (tmp_path / ".session-records.jsonl.rightful").exists()
