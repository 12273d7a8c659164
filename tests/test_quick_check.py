from __future__ import annotations

from tests import quick


def chosen(path: str) -> set[str]:
    return set(quick.tests_of([path])) - set(quick.ALWAYS)


def test_changed_module_is_checked_by_the_tests_of_its_room() -> None:
    assert chosen("src/rightful/storage/writer.py") == {"tests/storage"}
    assert chosen("src/rightful/times.py") == {"tests/test_times.py"}


def test_module_of_a_long_room_is_checked_by_the_tests_that_name_it() -> None:
    spool = {f"tests/integrations/test_spool{end}.py" for end in ("", "_drain", "_folders")}
    assert chosen("src/rightful/integrations/spool/spool_drain.py") == spool

    commands = chosen("src/rightful/cli/commands/hook.py")
    assert {"tests/cli/test_hook.py", "tests/cli/test_hook_run.py"} <= commands
    assert "tests/cli/test_import.py" not in commands


def test_module_that_only_other_rooms_name_is_checked_by_those() -> None:
    assert "tests/cli/test_settings.py" in chosen("src/rightful/integrations/claude_code/settings.py")


def test_module_of_a_long_room_that_no_test_names_is_checked_by_all() -> None:
    assert chosen("src/rightful/cli/show/nothing_of_the_kind.py") == {"tests/cli"}
