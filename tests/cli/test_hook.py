from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.hooking import before_tool, rows, spooled
from tests.log.facts import exposure

import rightful
from rightful.integrations.claude_code import hook_entry
from rightful.integrations.claude_code.hook_events import EVENTS
from rightful.integrations.spool.spool_files import Spool

pytestmark = pytest.mark.usefixtures("home")


def commands(path: Path) -> dict[str, str]:
    hooks = json.loads(path.read_text())["hooks"]
    return {event: groups[-1]["hooks"][0]["command"] for event, groups in hooks.items()}


def test_install_writes_the_users_settings_for_every_event(run: Run, ledger: Path, home: Path) -> None:
    done = run("hook", "install", "claude-code")

    assert done.code == 0
    found = commands(home / ".claude" / "settings.json")
    assert list(found) == list(EVENTS)
    [command] = set(found.values())
    assert shlex.split(command)[-4:] == ["--ledger", str(ledger), "||", "true"]
    assert "are installed" in done.out


def test_what_is_installed_works_from_any_folder_and_records(run: Run, ledger: Path, home: Path, here: Path) -> None:
    run("hook", "install", "claude-code")
    command = commands(home / ".claude" / "settings.json")["PreToolUse"]

    done = subprocess.run(
        ["sh", "-c", command], input=json.dumps(before_tool()).encode(), cwd="/", check=False, capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(here / "temp")},
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [getattr(row.event, "call", None) for row in rows(ledger)] == ["toolu_1"]


def test_a_program_that_is_gone_never_stops_the_agent(run: Run, ledger: Path, home: Path) -> None:
    run("hook", "install", "claude-code")
    path = home / ".claude" / "settings.json"
    *_, program = [word for word in hook_entry.program() if word.startswith("/")]  # its script, or this Python
    path.write_text(path.read_text().replace(program, "/gone/rightful"))

    done = subprocess.run(["sh", "-c", commands(path)["Stop"]], input=b"{}", check=False, capture_output=True)
    status = run("hook", "status", "claude-code", "--json")

    assert (done.returncode, done.stdout) == (0, b"")
    assert status.code == 1
    assert {one["runs"] for one in status.document["events"]} == {False}
    assert "its program is missing" in run("hook", "status", "claude-code").out


@pytest.mark.parametrize("scope", ["user", "project", "local"])
def test_each_scope_has_its_file(
    run: Run, ledger: Path, here: Path, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(here / "config"))
    (here / ".git").mkdir()
    (here / "src").mkdir()
    monkeypatch.chdir(here / "src")
    expected = {
        "user": here / "config" / "settings.json",
        "project": here / ".claude" / "settings.json",
        "local": here / ".claude" / "settings.local.json",
    }[scope]

    done = run("hook", "install", "claude-code", "--scope", scope, "--json")

    assert done.document["settings"] == str(expected)
    assert list(commands(expected)) == list(EVENTS)


def test_a_project_without_repository_is_the_working_folder(run: Run, ledger: Path, here: Path) -> None:
    done = run("hook", "install", "claude-code", "--scope", "local", "--json")

    assert done.document["settings"] == str(here / ".claude" / "settings.local.json")


def test_json_of_each_action_has_stable_keys(run: Run, ledger: Path, here: Path) -> None:
    file = here / "s.json"
    file.write_text("{}")
    asked = ("claude-code", "--settings", "s.json", "--json")

    first = run("hook", "install", *asked).document
    assert list(first) == [
        "settings", "changed", "events", "left_out", "command", "backup", "others", "elsewhere",
    ]  # fmt: skip
    assert (first["settings"], first["changed"], first["backup"]) == (str(file), True, f"{file}.before-rightful")
    second = run("hook", "install", *asked).document
    assert (second["changed"], second["backup"]) == (False, None)
    status = run("hook", "status", *asked).document
    assert list(status) == [
        "settings", "installed", "disabled", "events", "ledgers", "others", "elsewhere",
    ]  # fmt: skip
    assert list(status["events"][0]) == ["event", "installed", "runs", "commands"]
    assert list(status["ledgers"][0]) == [
        "path", "exists", "problem", "last_recorded_at", "waiting", "waiting_bytes", "oldest_at", "folders", "full",
        "aside",
    ]  # fmt: skip
    assert run("hook", "remove", *asked).document == {
        "settings": str(file), "removed": list(EVENTS), "backup": None, "others": [],
    }  # fmt: skip
    assert run("hook", "remove", *asked).document["removed"] == []
    assert file.read_text() == "{}"


def test_without_a_ledger_nothing_is_installed(run: Run, home: Path) -> None:
    done = run("hook", "install", "claude-code")

    assert done.code == 4
    assert "rightful init" in done.err
    assert not (home / ".claude").exists()


def test_the_folder_around_a_ledger_is_refused(run: Run, ledger: Path, here: Path, home: Path) -> None:
    done = run("--ledger", here, "hook", "install", "claude-code")

    assert done.code == 4
    assert f"pass --ledger {ledger}" in done.err
    assert not (home / ".claude").exists()


def test_an_event_may_be_left_out(run: Run, ledger: Path, home: Path) -> None:
    run("hook", "install", "claude-code", "--without", "PostToolUseFailure", "--without", "Stop")

    assert list(commands(home / ".claude" / "settings.json")) == [
        event for event in EVENTS if event not in {"PostToolUseFailure", "Stop"}
    ]
    assert run("hook", "status", "claude-code").code == 0
    assert run("hook", "remove", "claude-code", "--without", "Stop").code == 2


@pytest.mark.parametrize("action", ["install", "remove", "status"])
def test_broken_settings_are_refused_with_their_place(run: Run, ledger: Path, home: Path, action: str) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{\n  "a": 1,\n}')

    done = run("hook", action, "claude-code")

    assert done.code == 2
    assert "line 3 column 1" in done.err
    assert (home / ".claude" / "settings.json").read_text() == '{\n  "a": 1,\n}'


def test_an_empty_name_of_a_settings_file_is_refused(run: Run, ledger: Path) -> None:
    assert run("hook", "install", "claude-code", "--settings", " ").code == 2


def test_without_a_home_the_users_settings_are_not_guessed(
    run: Run, ledger: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)

    assert run("hook", "install", "claude-code").code == 2
    assert not (here / "~").exists()


def test_status_says_that_nothing_is_installed(run: Run, ledger: Path) -> None:
    done = run("hook", "status", "claude-code", "--json")

    assert done.code == 1
    assert (done.document["installed"], done.document["ledgers"][0]["path"]) == (False, str(ledger))
    assert run("hook", "status", "claude-code").out.count("not installed") == len(EVENTS)


def test_status_shows_waiting_and_rejected_calls_and_the_last_recording(run: Run, ledger: Path) -> None:
    run("hook", "install", "claude-code")
    with rightful.open(ledger, clock=lambda: 1_785_500_000_000_000) as opened:
        opened.append([exposure("1", producer="claude-code-hook"), *(exposure(f"o{n}") for n in range(1_100))])
    spool = Spool(str(ledger), os.environ)
    spool.keep_events([exposure("2")], 1_785_579_400_000_000)
    spool.set_aside(b"\x1b[31m", "names nobody\x1b", 1)

    done = run("hook", "status", "claude-code", "--json")

    assert done.code == 0
    [facts] = done.document["ledgers"]
    assert facts["last_recorded_at"] == "2026-07-31T12:13:20Z"
    assert (facts["waiting"], facts["oldest_at"], facts["folders"]) == (1, "2026-08-01T10:16:40Z", [f"{ledger}/spool"])
    assert facts["waiting_bytes"] == Path(spool.waiting()[0]).stat().st_size
    assert [one["why"] for one in facts["aside"]] == ["names nobody\x1b"]
    text = run("hook", "status", "claude-code").out
    assert "1 call, " in text
    assert "names nobody\\x1b" in text
    assert "\x1b" not in text
    assert len(spool.waiting()) == 1, "looking changes nothing"


def test_status_says_that_a_ledger_is_gone(run: Run, ledger: Path) -> None:
    run("hook", "install", "claude-code")
    ledger.rename(ledger.with_name("moved"))

    done = run("hook", "status", "claude-code", "--json")

    assert done.code == 1
    assert done.document["ledgers"][0]["exists"] is False
    assert "unknown" in run("hook", "status", "claude-code").out


def test_status_says_that_the_spool_was_full(run: Run, ledger: Path) -> None:
    run("hook", "install", "claude-code")
    (ledger / "spool").mkdir(mode=0o700)
    (ledger / "spool" / "full").touch()

    assert run("hook", "status", "claude-code", "--json").document["ledgers"][0]["full"] is True
    assert "The spool was full" in run("hook", "status", "claude-code").out


@pytest.mark.parametrize("command", [["ingest", "nothing"], ["import", "auto", "nothing"], ["posteriors"]])
def test_every_command_that_opens_the_ledger_for_writing_drains(
    run: Run, ledger: Path, here: Path, command: list[str]
) -> None:
    (here / "nothing").write_text("")
    Spool(str(ledger), os.environ).keep_events([exposure("1")], 1)

    done = run(*command)

    assert "1 hook call from the spool recorded." in done.err
    assert len(rows(ledger)) == 1
    assert spooled(ledger) == []


def test_a_drain_that_sets_aside_says_so_and_one_that_fails_too(
    run: Run, ledger: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "nothing").write_text("")
    spool = Spool(str(ledger), os.environ)
    spool.keep_events([exposure("1"), {"type": "unknown"}], 1)

    assert "was set aside" in run("ingest", "nothing").err

    def full(*_: object, **__: object) -> None:
        raise rightful.errors.StoreFullError("ledger", "no space")

    spool.keep_events([exposure("2")], 1)
    monkeypatch.setattr("rightful.integrations.spool.spool_drain.drain", full)
    done = run("ingest", "nothing")
    assert "1 hook call still in the spool" in done.err
    assert done.code == 0


def test_commands_that_somebody_made_of_ours_are_named_and_left(run: Run, ledger: Path, here: Path) -> None:
    edited = "/x/rightful hook run claude-code --ledger /l || true\naudit.sh\x1b"
    file = here / "s.json"
    file.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": edited}]}]}}))
    before = file.read_text()
    shown = "/x/rightful hook run claude-code --ledger /l || true\\naudit.sh\\x1b"

    for action in ("install", "status", "remove", "remove"):
        done = run("hook", action, "claude-code", "--settings", file)
        assert [line for line in (done.out + done.err).split("\n") if line.endswith(shown) and "Stop" in line], action
        found = run("hook", action, "claude-code", "--settings", file, "--json").document["others"]
        assert found == [{"event": "Stop", "command": edited}]
    assert file.read_text() == before


def test_install_and_status_say_which_other_settings_have_the_hooks(run: Run, ledger: Path, home: Path) -> None:
    run("init", "--ledger", "other")
    run("hook", "install", "claude-code", "--ledger", "other")
    user = home / ".claude" / "settings.json"
    (ledger.parent / ".claude").mkdir()
    (ledger.parent / ".claude" / "settings.json").write_text("broken")

    alone = run("hook", "status", "claude-code", "--json").document["elsewhere"]
    done = run("hook", "install", "claude-code", "--scope", "local")
    status = run("hook", "status", "claude-code", "--scope", "local")
    named = run("hook", "status", "claude-code", "--settings", user, "--json").document["elsewhere"]

    assert alone == []
    assert f"{user} (user) also has rightful hooks, which write to {ledger.parent / 'other'}" in done.err
    assert "hook remove claude-code --scope user" in done.err
    assert f"{user} (user) also has rightful hooks, which write to {ledger.parent / 'other'}" in status.out
    assert [(one["scope"], one["ledgers"]) for one in named] == [("local", [str(ledger)])]


def test_status_keeps_each_fact_on_its_line_whatever_stands_in_it(run: Run, here: Path, home: Path) -> None:
    place = here / "a\nb"
    assert run("init", "--ledger", place).code == 0
    spool = Spool(str(place), os.environ)
    spool.set_aside(b"x", "why\nset aside      nothing", 1)
    spool.keep_events([exposure("1")], 1)
    command = hook_entry.command_of(["/x\ny/rightful"], str(place))
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(
        json.dumps({"hooks": {event: [{"hooks": [{"command": command}]}] for event in EVENTS}})
    )

    out = run("hook", "status", "claude-code").out

    assert "why\\nset aside" in out
    assert f"ledger         {here}/a\\nb" in out
    assert out.count("its program is missing: '/x\\ny/rightful'") == len(EVENTS)
    assert len(out.splitlines()) == 1 + len(EVENTS) + 4 + 1


def test_a_pipe_or_a_device_is_no_settings_file(run: Run, ledger: Path, here: Path) -> None:
    os.mkfifo(here / "pipe")
    for name in ("pipe", "/dev/zero"):
        for action in ("install", "remove", "status"):
            done = run("hook", action, "claude-code", "--settings", name)
            assert (done.code, "not a regular file" in done.err) == (2, True)


def test_status_says_that_all_hooks_are_disabled(run: Run, ledger: Path, home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    run("hook", "install", "claude-code")

    assert run("hook", "status", "claude-code", "--json").document["disabled"] is True
    done = run("hook", "status", "claude-code")
    assert (done.code, "disables all hooks" in done.out) == (1, True)


YOUNG = "PostToolUseFailure"


@pytest.mark.parametrize(
    ("says", "taken"),
    [
        ("2.1.101 (Claude Code)", True),
        ("2.1.100 (Claude Code)", False),
        ("3.0.0", True),
        ("broken", False),
        (None, False),
    ],
)
def test_an_event_that_would_break_an_older_agents_settings_is_left_out(
    run: Run, ledger: Path, home: Path, says: str | None, *, taken: bool
) -> None:
    (home / "claude").write_text(f"#!/bin/sh\necho '{says}'\n")
    if says is None:
        (home / "claude").write_text("#!/gone\n")

    done = run("hook", "install", "claude-code")

    assert (YOUNG in commands(home / ".claude" / "settings.json")) == taken
    assert (f"{YOUNG} was not installed" in done.err) == (not taken)


def test_an_event_that_was_left_out_can_be_asked_for_and_then_stays(run: Run, ledger: Path, home: Path) -> None:
    (home / "claude").unlink()
    assert run("hook", "install", "claude-code", "--json").document["left_out"] == [YOUNG]

    assert run("hook", "install", "claude-code", "--with", YOUNG, "--json").document["changed"] is True
    assert run("hook", "install", "claude-code", "--json").document["changed"] is False
    assert YOUNG in commands(home / ".claude" / "settings.json")
    assert run("hook", "status", "claude-code", "--with", YOUNG).code == 2


def test_remove_says_where_the_backup_is_that_it_did_not_give_back(run: Run, ledger: Path, here: Path) -> None:
    file = here / "s.json"
    file.write_text('{"a": 1}')
    run("hook", "install", "claude-code", "--settings", file)
    file.write_text(file.read_text().replace("1", "2", 1))

    assert f"{file}.before-rightful" in run("hook", "remove", "claude-code", "--settings", file).out
    assert json.loads(file.read_text()) == {"a": 2}
