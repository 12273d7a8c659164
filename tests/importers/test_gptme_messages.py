"""What one message of gptme becomes, and that it is the same whichever file tells it."""

from __future__ import annotations

import io
import os
import shutil
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.importers.conftest import Importer
from tests.importers.gptme_files import SESSION, appended, event, history, rows, said, said_in, write
from tests.importers.import_files import import_paths
from tests.importers.test_gptme import zone  # noqa: F401 - the machine's time is UTC

from rightful import ledger as app
from rightful.events import (
    DataRecorded,
    Event,
    MessageRecorded,
    SessionStarted,
    ToolCallSnapshotted,
    ToolResultSnapshotted,
    UsageRecorded,
)
from rightful.identity import composite_key, event_id
from rightful.importers.gptme.conversation import Gptme
from rightful.importers.shared.foreign_fields import digest
from rightful.ledger import Ledger

SAMPLES = Path(__file__).parents[1] / "samples" / "gptme" / "logs"
FOX = "2026-08-01-running-blue-fox"
T = TypeVar("T", bound=Event)
CALL = 'I look.\n\n@shell(c1): {"command": "ls"}'


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "fox" / "conversation.jsonl"


def of(ledger: Ledger, kind: type[T], session: str = SESSION) -> list[T]:
    return [row.event for row in ledger.read(session=session) if isinstance(row.event, kind)]


def test_a_message_keeps_its_text_and_its_marks(ledger: Ledger, imported: Importer, main: Path) -> None:
    marks = {"hide": True, "pinned": True, "files": ["a.png"], "file_hashes": {"a.png": "2d71"}, "ephemeral_ttl": 2}
    imported("gptme", write(main, said(1, "user", "hello", **marks, quiet=False, ui_only=None)))

    [message] = of(ledger, MessageRecorded)
    assert (message.producer, message.role, message.content) == ("gptme", "user", "hello")
    assert message.extra == {"hidden": True} | {name: mark for name, mark in marks.items() if name != "hide"}
    content = digest(["user", "2026-08-01T10:15:01.000001", "hello"])
    assert message.id == event_id("gptme", composite_key("fox", content, 1, "message"))


def test_a_message_without_marks_has_no_extra(ledger: Ledger, imported: Importer, main: Path) -> None:
    imported("gptme", write(main, said(1, "user", "hello", hide=False, files=[])))

    assert of(ledger, MessageRecorded)[0].extra is None


def test_the_metadata_of_a_message_is_its_usage(ledger: Ledger, imported: Importer, main: Path) -> None:
    metadata = {
        "model": "opus",
        "cost": 0.01,
        "usage": {"input_tokens": 900, "output_tokens": 30, "estimated": True},
        "timings": {"gen_ms": 1500, "tool_ms_by_name": {"shell": 12}},
        "artifacts": [{"path": "x"}],
    }
    imported("gptme", write(main, said(1, "assistant", "hello", metadata=metadata)))

    [message], [usage] = of(ledger, MessageRecorded), of(ledger, UsageRecorded)
    assert usage.counts == {"input_tokens": 900, "output_tokens": 30, "gen_ms": 1500, "cost": 0.01}
    assert (usage.of, usage.cumulative) == (message.id, False)
    rest = {"usage": {"estimated": True}, "timings": {"tool_ms_by_name": {"shell": 12}}, "artifacts": [{"path": "x"}]}
    assert usage.extra == {"model": "opus"} | rest
    assert message.extra is None


def test_the_flat_counts_of_older_versions_are_usage_too(ledger: Ledger, imported: Importer, main: Path) -> None:
    imported("gptme", write(main, said(1, "assistant", "x", metadata={"model": "opus", "input_tokens": 7, "cost": 1})))

    assert [one.counts for one in of(ledger, UsageRecorded)] == [{"input_tokens": 7, "cost": 1}]


def test_metadata_without_a_number_is_data(ledger: Ledger, imported: Importer, main: Path) -> None:
    rows = [said(1, "system", "x", metadata={"prompt_generation": "g1"}), said(2, "system", "y", metadata=7)]
    imported("gptme", write(main, *rows))

    first, second = of(ledger, MessageRecorded)
    assert [(one.name, one.data) for one in of(ledger, DataRecorded)] == [
        ("metadata", {"of": first.id, "metadata": {"prompt_generation": "g1"}}),
        ("metadata", {"of": second.id, "metadata": 7}),
    ]


def test_metadata_that_is_late_or_in_one_file_only_does_not_conflict(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    bare = said(1, "assistant", CALL)
    timed = bare | {"metadata": {"usage": {"output_tokens": 3}}}
    more = bare | {"metadata": {"usage": {"output_tokens": 3}, "timings": {"tool_ms": 12}}}
    paths = [
        write(main.parent / "events.jsonl", appended(1, bare)),
        write(main.parent / "branches" / "main-undo-0.jsonl", timed),
        write(main, more),
    ]
    reports = imported("gptme", *paths)

    assert [one.conflicts for one in reports] == [0, 0, 0]
    assert [one.content for one in of(ledger, MessageRecorded)] == [CALL]
    assert [one.counts for one in of(ledger, UsageRecorded)] == [
        {"output_tokens": 3},
        {"output_tokens": 3, "tool_ms": 12},
    ]


def test_call_follows_its_message_whose_text_is_unchanged(ledger: Ledger, imported: Importer, main: Path) -> None:
    done = said(2, "system", "Ran command: `ls`", call_id="c1", metadata={"tool": "shell"})
    imported("gptme", write(main, said(1, "assistant", CALL), done))

    [call], [result] = of(ledger, ToolCallSnapshotted), of(ledger, ToolResultSnapshotted)
    assert said_in(ledger) == [CALL]
    assert result.extra is None
    assert (call.call, call.name, call.arguments, call.complete) == ("c1", "shell", {"command": "ls"}, True)
    assert (result.call, result.output, result.is_error, result.complete) == ("c1", "Ran command: `ls`", False, True)
    assert history(ledger) == [CALL, 'call shell {"command": "ls"}', "result Ran command: `ls`"]


def test_only_an_assistant_calls(ledger: Ledger, imported: Importer, main: Path) -> None:
    imported("gptme", write(main, said(1, "user", CALL), said(2, "system", "```shell\nls\n```")))

    assert of(ledger, ToolCallSnapshotted) == []


def test_a_tool_that_failed_is_an_error(ledger: Ledger, imported: Importer, main: Path) -> None:
    failed = said(2, "system", "Error executing tool 'shell': no", call_id="c1")
    imported("gptme", write(main, said(1, "assistant", CALL), failed))

    assert [one.is_error for one in of(ledger, ToolResultSnapshotted)] == [True]


def test_calls_without_id_are_answered_by_the_system_messages_after_them(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    calls = said(1, "assistant", "```shell\nls\n```\n\n```save x.py\n1\n```")
    hidden, shown = said(2, "system", "lessons", hide=True), said(3, "system", "status", ui_only=True)
    imported(
        "gptme",
        write(
            main, calls, hidden, shown, said(4, "system", "ran"), said(5, "system", "saved"), said(6, "system", "hook")
        ),
    )

    first, second = of(ledger, ToolCallSnapshotted)
    mark = digest(["assistant", calls["timestamp"], calls["content"]])[:32]
    assert [first.call, second.call] == [f"{mark}.1.0", f"{mark}.1.1"]
    assert second.arguments == {"args": ["x.py"], "content": "1"}
    results = [(one.call, one.output) for one in of(ledger, ToolResultSnapshotted)]
    assert results == [(first.call, "ran"), (second.call, "saved")]
    assert said_in(ledger) == [calls["content"], "lessons", "status", "hook"]


def test_a_result_that_names_its_tool_answers_a_call_of_that_tool(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    calls = said(1, "assistant", "```shell\nls\n```\n\n```py\n1\n```")
    ran = said(2, "system", "Executed code block.", metadata={"tool": "ipython"})
    other = said(3, "system", "note", metadata={"tool": "vent"})
    imported("gptme", write(main, calls, ran, other, said(4, "system", "ran")))

    shell, python = of(ledger, ToolCallSnapshotted)
    results = [(one.call, one.output) for one in of(ledger, ToolResultSnapshotted)]
    assert results == [(python.call, "Executed code block."), (shell.call, "ran")]
    assert said_in(ledger) == [calls["content"], "note"]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_call_is_not_answered_behind_the_next_message(
    ledger: Ledger, imported: Importer, main: Path, role: str
) -> None:
    rows = [said(1, "assistant", "```shell\nls\n```"), said(2, role, "never mind"), said(3, "system", "reminder")]
    imported("gptme", write(main, *rows))

    assert of(ledger, ToolResultSnapshotted) == []
    assert said_in(ledger)[1:] == ["never mind", "reminder"]


def test_what_the_settings_say_of_the_session_is_a_start_of_its_own(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    """The id of a start that a ledger has from before settings were read stays what it was."""
    main.parent.mkdir(parents=True)
    (main.parent / "config.toml").write_text(
        '[chat]\nname = "Fox"\nmodel = "opus"\nworkspace = "/home/dev/w"\nagent = 7\n'
    )
    imported("gptme", write(main, said(1, "user", "x")))

    plain, more = of(ledger, SessionStarted)
    assert (plain.model, plain.cwd, plain.extra) == ("opus", None, None)
    facts = {"harness": "gptme", "model": "opus"}
    assert plain.id == event_id("gptme", composite_key("fox", "session.started", digest(facts)))
    assert (more.model, more.cwd, more.extra) == ("opus", "/home/dev/w", {"name": "Fox", "workspace": "/home/dev/w"})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[chat", "note: `config.toml` next to it could not be parsed: "),
        ("a = 1\n" + "#" * 65_531, "note: `config.toml` next to it is larger than 65,536 bytes; not read"),
        ('chat = "no"', None),
        ("[chat]\nname = 7\n" + "#" * (65_536 - 16), None),
    ],
)
def test_settings_that_cannot_be_read_are_a_note(
    ledger: Ledger, imported: Importer, main: Path, text: str, what: str | None
) -> None:
    main.parent.mkdir(parents=True)
    (main.parent / "config.toml").write_text(text)
    [report] = imported("gptme", write(main, said(1, "user", "x")))

    told = [one.what for one in report.problems if "config.toml" in one.what]
    assert len(told) == (what is not None)
    assert all(one.startswith(what or "") for one in told)
    assert (report.exit_code, len(of(ledger, SessionStarted))) == (0, 1)


def test_folder_compacted_into_by_an_older_version_names_its_source(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    name = "fox-compacted-20260801-101500-compacted-20260802-101500"
    imported("gptme", write(tmp_path / name / "conversation.jsonl", said(1, "user", "x")))

    plain, more = of(ledger, SessionStarted, f"gptme:{name}")
    assert (plain.extra, more.extra) == (None, {"forked_from": "gptme:fox"})


def test_message_without_time_gets_the_last_one_or_that_of_the_file(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    bare = {"role": "user", "content": "x", "timestamp": None}
    write(main, bare, said(1, "user", "y"), bare)
    os.utime(main, (1_785_600_000, 1_785_600_000))
    imported("gptme", main)

    times = [(one.at.isoformat(), one.at_basis) for one in of(ledger, MessageRecorded)]
    assert times == [
        ("2026-08-01T16:00:00+00:00", "file"),
        ("2026-08-01T10:15:01.000001+00:00", None),
        ("2026-08-01T10:15:01.000001+00:00", None),
    ]


def test_labels_of_checkpoints_are_data(ledger: Ledger, imported: Importer, main: Path) -> None:
    label = {"index": 5, "label": "before", "timestamp": "2026-08-01T10:15:05.123456+00:00"}
    [report] = imported("gptme", write(main.parent / "conv-checkpoints.jsonl", label, label, label | {"index": "5"}))

    assert [(one.name, one.data) for one in of(ledger, DataRecorded)] == [("conv-checkpoint", label)] * 2
    assert [(one.line, one.what) for one in report.problems] == [(3, "Expected `int`, got `str` - at `$.index`")]


def test_the_sample_is_the_conversation_that_it_was(ledger: Ledger, imported: Importer) -> None:
    imported("gptme", SAMPLES)

    tail = ["now add a test", "Added."]
    assert history(ledger, f"gptme:{FOX}") == ["You are a test agent.", "Summary: renamed the file.", *tail]
    assert said_in(ledger, f"gptme:{FOX}") == [
        "You are a test agent.",
        "# Workspace Context\n\nnone",
        "Rename the file with a space",
        said_in(ledger, f"gptme:{FOX}")[3],
        CALL.replace("I look.", "I will list the files.").replace("c1", "call-aaaa-1"),
        '```shell\nmv "my file.txt" my_file.txt\n```',
        "Done.",
        "Done.",
        "🔄 Auto-compacted conversation to view branch 'compacted-001'",
        *tail,
        "oops",
    ]
    assert [one.output for one in of(ledger, ToolResultSnapshotted, f"gptme:{FOX}")] == [
        "Ran command: `ls`\n\n```stdout\nmy file.txt\n```",
        "Ran command: `mv`",
    ]
    assert history(ledger, f"gptme:{FOX}-fork")[-1] == "fork goes elsewhere"
    assert {row.session for row in ledger.read()} == {f"gptme:{FOX}", f"gptme:{FOX}-fork"}


FILES = ("conversation.jsonl", "events.jsonl", "branches/main-undo-0.jsonl", "views/compacted-001.jsonl")


@pytest.mark.sweep
@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_order_of_a_conversations_files_does_not_matter(
    ledger: Ledger, imported: Importer, tmp_path: Path, order: tuple[int, ...], expected: set[Any]
) -> None:
    folder = Path(shutil.copytree(SAMPLES / FOX, tmp_path / FOX))
    reports = imported("gptme", *(folder / FILES[place] for place in order))

    assert sum(one.conflicts + one.lost for one in reports) == 0
    assert rows(ledger, f"gptme:{FOX}") == expected


@pytest.fixture
def expected(tmp_path: Path) -> set[Any]:
    folder = Path(shutil.copytree(SAMPLES / FOX, tmp_path / "first" / FOX))
    with app.open(tmp_path / "other", create=True) as other:
        for name in FILES:
            list(import_paths(other.log, [Gptme()], [str(folder / name)], stdin=io.BytesIO()))
        found = rows(other, f"gptme:{FOX}")
    assert len(found) == 27
    return found


def test_an_event_of_the_log_tells_the_same_message(ledger: Ledger, imported: Importer, main: Path) -> None:
    one = said(1, "user", "x")
    log = write(
        main.parent / "events.jsonl", appended(1, one), appended(1, one), event(2, "checkpoint", messages=[one])
    )
    [first, second] = imported("gptme", write(main, one, one), log)

    assert (first.kinds, second.kinds) == ({"session.started": 1, "message.recorded": 2}, {})
    assert second.duplicate == 2
    assert said_in(ledger) == ["x", "x"]
