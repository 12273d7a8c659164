"""The reference says what the code does: every event, field, limit, error and command has its place."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import subprocess
import uuid
from pathlib import Path

import msgspec
import pytest
from tests.importers.diary import Diary
from tests.importers.growing import import_once

from rightful import cli, errors, events, identity, limits, policies
from rightful import ledger as app
from rightful.cli.support import parsing
from rightful.encoding import envelope
from rightful.integrations.claude_code.lesson_cursor import Cursor, ReadState
from rightful.integrations.spool.spool_files import Spool
from rightful.projections.credit.inputs import BINS
from rightful.projections.credit.settle import counters_of, settle
from rightful.projections.facts.facts import Facts
from rightful.projections.store import VERSION
from rightful.reports.audits.recorded_rule import Candidate, Lack, RecordedRule
from rightful.reports.audits.rule_audit import ArmShift, Audit
from rightful.reports.audits.rule_changes import RuleChange
from rightful.reports.explain import (
    ArmExplained,
    EventExplained,
    ExposureRow,
    GradeRow,
    Remedy,
    Revision,
    SessionExplained,
    Step,
)
from rightful.reports.explain.exposure_outcomes import STATES
from rightful.reports.explain.grade_outcomes import OUTSIDE
from rightful.reports.session_coverage import Alarm, Day
from rightful.storage.tables.store_kinds import FORMAT

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
COMMON = {field.encode_name for field in msgspec.structs.fields(events.Event)} | {"session"}


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def section(text: str, heading: str) -> str:
    """What stands below a heading of the second level."""
    _, found, rest = text.partition(f"\n## {heading}\n")
    assert found, f"there is no section {heading}"
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each table row that begins with a name in backquotes."""
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `"))
    return {cells[0].strip("` "): cells[1:] for cells in lines}


@pytest.mark.parametrize("tag", events.TYPES)
def test_every_event_type_has_its_section_with_every_field(tag: str) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(events.TYPES[tag])}
    own = {name: field for name, field in fields.items() if name not in COMMON or field.required}
    own = {name: field for name, field in own.items() if name not in {"producer", "at", "session"}}

    table = rows(section(page("events.md"), f"`{tag}`"))

    assert {name: cells[1].strip() for name, cells in table.items()} == {
        name: "yes" if field.required else "no" for name, field in own.items()
    }


def test_every_common_field_is_described() -> None:
    assert set(rows(section(page("events.md"), "Common fields"))) == COMMON | {"type"}


def test_no_event_type_is_described_that_does_not_exist() -> None:
    described = re.findall(r"^## `(.+)`$", page("events.md"), re.MULTILINE)

    assert described == list(events.TYPES)


LIMITS = {name: value for name, value in vars(limits).items() if name.isupper()}


def test_every_limit_is_listed_with_its_value() -> None:
    listed = {name: cells[0].strip() for name, cells in rows(page("limits.md")).items()}

    assert listed == {name: f"{value:,}" for name, value in LIMITS.items()}


ERRORS = {
    error
    for module in (errors,)
    for _, error in inspect.getmembers(module, inspect.isclass)
    if issubclass(error, errors.RightfulError)
}


def test_every_error_is_listed_with_its_exit_code() -> None:
    listed = {name: cells[0].strip() for name, cells in rows(section(page("errors.md"), "Errors")).items()}

    assert listed == {error.__name__: str(error.exit_code) for error in ERRORS}


def golden(heading: str) -> list[list[str]]:
    text = section(page("wire-format.md"), heading)
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in cells] for cells in lines]


def test_the_golden_event_ids_are_what_the_code_computes() -> None:
    cases = golden("Event ids")

    assert len(cases) >= 4
    assert [identity.event_id(producer, key) for producer, key, _ in cases] == [found for _, _, found in cases]


def test_the_golden_event_ids_are_what_the_standard_library_computes() -> None:
    namespace = uuid.uuid5(uuid.NAMESPACE_DNS, "rightful.events")
    cases = golden("Event ids")

    assert f"`{namespace}`" in page("wire-format.md")
    assert [str(uuid.uuid5(namespace, f"{producer}\n{key}")) for producer, key, _ in cases] == [
        found for _, _, found in cases
    ]


def test_the_golden_composite_keys_are_what_the_code_writes() -> None:
    cases = golden("Keys of several parts")

    assert len(cases) >= 4
    assert [identity.composite_key(*msgspec.json.decode(parts)) for parts, _ in cases] == [key for _, key in cases]


def test_every_policy_field_and_preset_is_described() -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(policies.Policy)}

    assert set(rows(section(page("policies.md"), "Fields"))) == fields
    hashes = {name: cells[-1].strip(" `") for name, cells in rows(section(page("policies.md"), "Presets")).items()}
    assert hashes == {name: policy.hash for name, policy in policies.PRESETS.items()}


def test_every_counter_of_a_replay_is_described() -> None:
    counted = counters_of(settle(Facts(), policies.Policy(), 0))
    text = page("counters.md")

    assert list(rows(section(text, "Bins"))) == [f"{name}_grades" for name in BINS]
    assert set(rows(section(text, "Others"))) == counted.keys() - {f"{name}_grades" for name in BINS}


def test_every_key_of_an_audit_is_explained() -> None:
    table = rows(section(page("cli.md"), "`audit`").partition("\n### ")[0])
    keys = {name for name in table if name.isidentifier() and name != "POLICY"}
    shift = re.findall(r'"(\w+)"', table["per_arm"][0])

    assert keys == {field.name for field in msgspec.structs.fields(Audit)}
    assert shift == [field.name for field in msgspec.structs.fields(ArmShift)]


def test_every_key_of_a_recorded_file_is_explained() -> None:
    table = rows(section(page("cli.md"), "`audit`").partition("\n### A recorded state file\n")[2])
    parts = {name: re.findall(r'"(\w+)"', table[name][0]) for name in ("candidates", "changes", "lacks")}

    assert set(table) == {field.name for field in msgspec.structs.fields(RecordedRule)} | {"file"}
    assert parts == {
        "candidates": [field.name for field in msgspec.structs.fields(Candidate)],
        "changes": [field.name for field in msgspec.structs.fields(RuleChange)],
        "lacks": [field.name for field in msgspec.structs.fields(Lack)],
    }


def test_the_changelog_says_the_versions_of_what_is_on_disk() -> None:
    text = (REFERENCE.parent / "changelog.md").read_text("utf-8")
    told = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|", text.split("### On disk")[1], re.MULTILINE))

    assert told == {
        "envelope": str(envelope.VERSION),
        "event bodies": str(max(envelope.SCHEMAS.values())),
        "store": str(FORMAT),
        "projections": str(VERSION),
    }


def options(command: str) -> list[argparse.Action]:
    parser = parsing.parser({command: cli.COMMANDS[command]})
    [commands] = [act for act in parser._actions if isinstance(act, argparse._SubParsersAction)]
    return taken(commands.choices[command])


def taken(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a parser takes, and what is taken behind each of its words."""
    found = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    words = [action for action in found if isinstance(action, argparse._SubParsersAction)]
    return found + [inner for action in words for one in action.choices.values() for inner in taken(one)]


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_its_section_with_every_option(command: str) -> None:
    text = section(page("cli.md"), f"`{command}`") + section(page("cli.md"), "Everywhere")

    names = [action.option_strings[-1] if action.option_strings else action.metavar for action in options(command)]
    assert [name for name in names if f"`{name}" not in text and f" {name}" not in text] == []


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_option_tables_show_the_placeholders_of_the_help(command: str) -> None:
    text = section(page("cli.md"), f"`{command}`").replace(r"\|", "|")
    shown = re.findall(r"^\| `(--[a-z-]+)`(?: |\[=)?\[?([^\s`\]…]*)[\]…]* \| ", text, re.MULTILINE)
    placeholders: dict[str, set[str]] = {}
    for action in options(command):
        for name in action.option_strings:
            placeholders.setdefault(name, set()).add("" if action.nargs == 0 else str(action.metavar))

    assert [(name, place) for name, place in shown if place not in placeholders.get(name, ())] == []


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_and_option_has_help(command: str) -> None:
    assert len((inspect.getdoc(importlib.import_module(cli.COMMANDS[command])) or "").split()) > 3
    assert [action.dest for action in options(command) if not action.help] == []


def test_no_command_is_described_that_does_not_exist() -> None:
    assert re.findall(r"^## `(.+)`$", page("cli.md"), re.MULTILINE) == list(cli.COMMANDS)


def test_every_file_of_a_ledger_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ledger"
    line = tmp_path / "line"
    line.write_text('{"type":"session.ended","producer":"p","key":"1","session":"t:a","at":"2026-08-01T10:15:00Z"}')
    assert cli.main(["init", str(folder)]) == 0
    assert cli.main(["--ledger", str(folder), "ingest", str(line)]) == 0
    assert cli.main(["--ledger", str(folder), "posteriors", "--json"]) == 0
    words = ["--ledger", str(folder), "backfill", "apply", "--target", str(tmp_path / "b.json")]
    assert cli.main([*words, "--reader", "lesson-hook", "--force", "--json"]) == 0
    assert cli.main([*words[:3], "rollback", *words[4:]]) == 0
    spool = Spool(str(folder), {})
    assert spool.keep_events([{}], 1) is not None
    assert spool.set_aside(b"x", "why", 1) is not None
    Cursor(str(folder), "a").save({"/x": ReadState(1)})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    script = "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    subprocess.run(["sh", "-c", script], check=True, cwd=tmp_path)
    inside = ["run", "--cwd", str(tmp_path / "r"), "--worktree", "--harness", "gptme", "--", "sh", "-c"]
    assert cli.main([*words[:2], *inside, 'touch new; touch "$GPTME_LOGS_HOME/x"']) == 0
    (tmp_path / "diary.jsonl").write_text('{"say":"a"}\n')
    with app.open(folder) as ledger:
        assert import_once(ledger, Diary(), tmp_path / "diary.jsonl").appended == 1
    listed = set(rows(page("files.md")))

    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    folders = {name for name in listed if name.endswith("/")}
    assert {name for name in found if not name.startswith(tuple(folders))} | folders == listed
    assert [name for name in folders if not any(one.startswith(name) for one in found)] == []
    assert {name.split(".", 1)[1] for name in found if name.startswith("backfill/")} == {"bytes", "plan.json"}


def test_every_state_of_an_explanation_is_described() -> None:
    parts = section(page("cli.md"), "`explain`").split("What becomes of an exposure:")

    assert [name for name in rows(parts[0]) if name.islower() and name[0] != "-"] == list(OUTSIDE)
    assert list(rows(parts[1])) == list(STATES)


def test_every_key_of_an_explanation_is_named() -> None:
    text = section(page("cli.md"), "`explain`")
    told = (ArmExplained, SessionExplained, EventExplained, ExposureRow, GradeRow, Step, Revision, Remedy)

    keys = {field.name for kind in told for field in msgspec.structs.fields(kind)}
    assert {key for key in keys if f'"{key}"' not in text and f"`{key}`" not in text} == set()


def test_every_key_and_kind_of_a_warning_is_named() -> None:
    text = section(page("cli.md"), "`status`")

    keys = {field.name for kind in (Day, Alarm) for field in msgspec.structs.fields(kind)}
    assert {key for key in keys if f'"{key}"' not in text} == set()
