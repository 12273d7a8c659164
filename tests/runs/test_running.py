from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from rightful import limits, times
from rightful.identity import is_session
from rightful.runs import live_runs, run_identity, run_records, run_transcripts
from rightful.runs.live_runs import LiveRun, LiveRunFiles
from rightful.runs.run_identity import ToolSetup
from rightful.runs.run_transcripts import FinishedRun

AT_US = 1_785_579_400_000_000


def bits(*new_identity: bytes) -> run_identity.Entropy:
    left = list(new_identity)
    return lambda count: left.pop(0)[:count]


def test_an_identity_is_made_of_nothing_but_the_second_and_random_bits() -> None:
    one = run_identity.new_identity(AT_US, entropy=bits(b"\x01" * 16, b"\x02" * 16))

    assert one == ("20260801T101640Z-0101010101010101", "run:20260801T101640Z-0101010101010101", "02" * 16)
    assert is_session(one.session)
    assert len({run_identity.new_identity(AT_US).session for _ in range(1_000)}) == 1_000


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["claude", "--resume", "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"], "resume"),
        (["claude", "-r", "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"], "resume"),
        (["claude", "--session-id=7fbe4341-0d57-4016-8374-1ed5e8da4b1b"], "native"),
        (["claude", "--resume", "7fbe4341-0d57-4016-8374-1ed5e8da4b1b", "--fork-session"], None),
        (["claude", "--resume", "fix-bug"], None),
        (["claude", "-p", "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"], None),
    ],
)
def test_the_session_that_the_words_name_is_known(words: list[str], told: str | None) -> None:
    found = run_transcripts.id_in_arguments("claude-code", words)

    assert found == (None if told is None else ("7fbe4341-0d57-4016-8374-1ed5e8da4b1b", told))


def test_words_behind_two_dashes_are_the_prompts_and_change_nothing(tmp_path: Path) -> None:
    setup = run_identity.tool_setup(["/bin/claude", "-p", "--", "--resume"], "claude-code", tmp_path)

    assert setup.command == ("/bin/claude", "--session-id", setup.native_id, "-p", "--", "--resume")


def test_nothing_is_added_to_the_words_of_a_wrapper(tmp_path: Path) -> None:
    assert run_identity.tool_setup(["npx", "claude"], "claude-code", tmp_path) == ToolSetup(("npx", "claude"))


def test_a_run_is_not_told_the_folder_nor_the_session_of_its_caller(tmp_path: Path) -> None:
    """A tool that believes `PWD` would work in the shared checkout, and a step name the caller's session."""
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    identity = run_identity.new_identity(AT_US)

    def given(**base: str) -> dict[str, str]:
        return run_identity.environment_of(
            base, identity, ledger="/l", cwd=tmp_path / "own", temp=tmp_path, setup=ToolSetup(("codex",))
        )

    env = given(PWD=str(tmp_path), CLAUDE_CODE_SESSION_ID="outer", CODEX_THREAD_ID="outer", CC_SESSION_ID="41c2")
    assert env["PWD"] == str(tmp_path / "own")
    assert [name for name, value in env.items() if value == "outer"] == []
    assert env["CC_SESSION_ID"] == "41c2"  # a launcher's
    assert given(PWD=str(tmp_path / "link"))["PWD"] == str(tmp_path / "link")


def test_others_are_known_that_were_there_before_and_that_came_and_went(tmp_path: Path) -> None:
    lives = [LiveRun(f"run:{name}", "/w", "/w") for name in "abc"]
    first = LiveRunFiles([tmp_path], "a", lives[0])
    second = LiveRunFiles([tmp_path], "b", lives[1])
    second.close()
    third = LiveRunFiles([tmp_path], "c", lives[2])

    assert (first.before, first.others()) == ([], lives[1:])
    assert (second.before, third.before, third.others()) == ([lives[0]], [lives[0]], [lives[0]])
    first.close()
    third.close()
    assert list(tmp_path.iterdir()) == []


def test_a_pointer_that_is_no_file_holds_nobody(tmp_path: Path) -> None:
    pointer = tmp_path / "gptme-traj-x.path"
    os.mkfifo(pointer)
    writer = subprocess.Popen(["sh", "-c", 'echo /x > "$0"', pointer], stderr=subprocess.DEVNULL)

    try:
        assert run_transcripts._target(pointer) is None
    finally:
        writer.kill()
        writer.wait()


def test_a_run_of_a_version_that_tells_more_is_known_too(tmp_path: Path) -> None:
    later = LiveRunFiles([tmp_path], "a", LiveRun("run:a", "/w", "/w"))
    [file] = tmp_path.iterdir()
    file.write_text('{"session": "run:a", "cwd": "/w", "top": "/w", "more": 1}\n')

    setup = LiveRunFiles([tmp_path], "b", LiveRun("run:b", "/w", "/w"))
    file.write_text(file.read_text() + '{"session": "run:c", "cwd": "/w", "top": null, "more": 1}\n')

    assert setup.before == [LiveRun("run:a", "/w", "/w")]
    assert later.others() == [LiveRun("run:b", "/w", "/w"), LiveRun("run:c", "/w", None)]


def test_a_folder_that_cannot_be_written_is_reported_and_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    held = LiveRunFiles([tmp_path / "file", tmp_path / "folder"], "a", LiveRun("run:a", "/", None))

    assert held.refused == [tmp_path / "file"]
    assert len(list((tmp_path / "folder").iterdir())) == 1
    held.close()


def test_foreign_file_among_the_files_of_runs_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.run").mkdir()
    (tmp_path / "y.run").symlink_to("/dev/zero")

    held = LiveRunFiles([tmp_path], "a", LiveRun("run:a", "/", None))

    assert held.others() == []
    held.close()
    assert live_runs.LIVE == "live"


@pytest.mark.parametrize("older", ["2026-08-01T09:59:59Z", "2026-08-01T10:30:01Z"])
def test_a_marker_in_a_conversation_of_another_time_is_not_this_runs(tmp_path: Path, older: str) -> None:
    """The same prompt was dispatched before, or is again; its conversation was written to meanwhile."""
    mark = "<!-- BOB_SESSION_SENTINEL=789183b7-e986-46c1-9d5f-0544c8f3c4c9 session_id=41c2 -->"
    began, ended = (times.us_of(datetime.fromisoformat(f"2026-08-01T{at}Z")) for at in ("10:00:00", "10:30:00"))
    span = FinishedRun(
        "gptme", ToolSetup(("gptme",), None, tmp_path), ["gptme", mark], {}, tmp_path, tmp_path, began, ended, []
    )
    line = {"role": "user", "content": mark, "timestamp": older}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "conversation.jsonl").write_text(json.dumps(line) + "\n")

    assert run_transcripts.find_transcript(span).own is None
    (tmp_path / "a" / "conversation.jsonl").write_text(json.dumps(line | {"timestamp": "2026-08-01T10:00:00Z"}) + "\n")
    found = run_transcripts.find_transcript(span).own
    assert found is not None
    assert found.evidence == "sentinel"


def test_no_more_transcripts_are_looked_at_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUN_FILES", 2)
    setup = ToolSetup(("gptme",), None, tmp_path)
    span = FinishedRun("gptme", setup, ["gptme"], {}, tmp_path, tmp_path, 0, 2**52, [])
    line = '{"role": "user", "content": "x", "timestamp": "2026-08-01T10:15:00"}\n'
    counts = []
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "conversation.jsonl").write_text(line)
        found = run_transcripts.find_transcript(span)
        counts.append(1 if found.own is not None else len(found.candidates))

    assert counts == [1, 2, 2]


def test_a_run_waits_for_other_writers_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    class Log:
        def head(self) -> int:
            return 0

        def read(self, **_: object) -> list[object]:
            return []

        def append(self, events: list[object], *, timeout_s: float, **_: object) -> list[object]:
            waited.append(timeout_s)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_records.begin(Log(), {"session": "run:a", "run_nonce": "1"}, timeout_s=limits.RUN_WAIT_S)  # type: ignore[arg-type]

    assert waited == [limits.RUN_WAIT_S]


@pytest.mark.parametrize(("late_s", "is_own"), [(0, True), (60, True), (60.001, False)])
def test_only_a_session_soon_after_the_run_is_its_own_by_folder_and_time(
    tmp_path: Path, late_s: float, is_own: bool
) -> None:
    began_us = AT_US
    at = times.text_of(began_us + round(late_s * 1_000_000))
    meta = {"id": "7fbe4341-0d57-4016-8374-1ed5e8da4b1b", "timestamp": at, "cwd": str(tmp_path)}
    folder = tmp_path / "codex" / "sessions" / "2026" / "08" / "01"
    folder.mkdir(parents=True)
    line = json.dumps({"timestamp": at, "type": "session_meta", "payload": meta})
    (folder / "rollout-x-7fbe4341-0d57-4016-8374-1ed5e8da4b1b.jsonl").write_text(line + "\n")
    home = {"CODEX_HOME": str(tmp_path / "codex")}
    span = FinishedRun(
        "codex", ToolSetup(("codex",)), ["codex"], home, tmp_path, tmp_path, began_us, began_us + 10**9, []
    )

    found = run_transcripts.find_transcript(span)

    assert (found.own is not None) == is_own
    assert found.why == (None if is_own else "it began more than 60 s after the run")
