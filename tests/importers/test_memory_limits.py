"""Input that is small on disk and large in memory is refused before it is decoded (row C10)."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from rightful import content, limits
from rightful.errors import InvalidEventError
from rightful.importers.sources.growing_files import Lines
from rightful.importers.sources.text_files import Problem

ROOT = Path(__file__).parents[2]


class Stream:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int, /) -> bytes:
        taken, self.data = self.data[:size], self.data[size:]
        return taken


@pytest.mark.parametrize("kind", [str, bytes], ids=["text", "bytes"])
def test_limit_of_values_counts_what_is_outside_strings(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    monkeypatch.setattr(limits, "JSON_VALUES", 5)

    def is_refused(value: object) -> bool:
        text = json.dumps(value)
        return content.has_too_many_values(text.encode() if kind is bytes else text)

    assert not is_refused([1, 2, 3, 4, 5])  # four commas and a bracket
    assert is_refused([1, 2, 3, 4, 5, 6])
    assert not is_refused([",[{" * 10, '\\"[[[[[[[', "a"])
    assert is_refused([[], [], []])


def test_line_of_millions_of_empty_lists_is_one_problem_and_no_objects() -> None:
    line = b'{"a":[' + b",".join([b"[]"] * 3_000_000) + b"]}\n"
    after = b'{"b":1}\n'
    tracemalloc.start()
    found = list(Lines(Stream(line + after)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found[0] == Problem(1, content.TOO_MANY)
    assert [item.value for item in found[1:] if not isinstance(item, Problem)] == [{"b": 1}]
    assert peak_bytes < 60_000_000  # the line, and copies of its text; 250 MB as objects


def test_wire_line_of_too_many_values_is_invalid() -> None:
    with pytest.raises(InvalidEventError, match="Expected at most 1,000,000 values in one JSON text"):
        content.parse_line("[" + "1," * limits.JSON_VALUES + "1]")


def test_long_string_of_commas_is_read() -> None:
    text = json.dumps({"csv": 'a,"b",[c]\n' * 400_000})

    assert content.parse_line(text) == json.loads(text)


IMPORT = """
import sys
from pathlib import Path
from rightful.cli import main

def peak_kb():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])

before = peak_kb()
code = main(["--ledger", sys.argv[1], "import", "openai-agents", sys.argv[2], "--json"])
print(code, (peak_kb() - before) // 1024, file=sys.stderr)
"""


@pytest.mark.parametrize("kind", ["zeroblob(200000000)", "CAST(zeroblob(200000000) AS TEXT)"], ids=["blob", "text"])
def test_huge_value_in_a_database_is_never_held_in_memory(tmp_path: Path, kind: str) -> None:
    """A value of 200 MB is skipped by its length, and the message after it is imported."""
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    script = (
        "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);"
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,"
        " message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);"
        'INSERT INTO agent_messages (session_id, message_data) VALUES (\'s\', \'{"role":"user","content":"a"}\');'
        "INSERT INTO agent_messages (session_id, message_data) VALUES ('s', KIND);"
        'INSERT INTO agent_messages (session_id, message_data) VALUES (\'s\', \'{"role":"user","content":"b"}\');'
    )
    connection.executescript(script.replace("KIND", kind))
    connection.close()
    init = [sys.executable, "-m", "rightful", "--ledger", str(tmp_path / "ledger"), "init"]
    subprocess.run(init, check=True, capture_output=True, timeout=60)

    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(tmp_path / "ledger"), str(path)],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    [report] = json.loads(done.stdout)
    code, grown_mb = done.stderr.split()[-2:]
    assert [problem["what"] for problem in report["problems"]] == [
        f"row 2 of `agent_messages`: longer than {limits.EVENT_BYTES} bytes"
    ]
    assert (report["appended"], code) == (3, "2")  # the start and both messages
    assert int(grown_mb) < 80
