"""Two databases of the Agents SDK with one session id: the second one is imported under a prefix."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.importers.sdk_databases import put, user

from rightful import ledger as app

ID = "conversation_123"


def texts(ledger: Path, session: str) -> list[str]:
    with app.open(ledger, readonly=True) as opened:
        return [item["content"] for item in opened.history(session).items]


def test_second_database_with_one_session_id_is_imported_with_a_prefix(ledger: Path, run: Run, here: Path) -> None:
    put(here / "one.db", user("first app"), session_id=ID)
    put(here / "two.db", user("second app"), session_id=ID)
    assert run("import", "openai-agents", here / "one.db").code == 0

    refused = run("import", "openai-agents", here / "two.db")
    done = run("import", "openai-agents", here / "two.db", "--session-prefix", "app2/")
    again = run("import", "openai-agents", here / "two.db", "--session-prefix", "app2/")

    assert refused.code == 2
    assert refused.err.endswith(
        "nothing was imported from it. Import this database with --session-prefix, such as --session-prefix app2/\n"
    )
    assert (done.code, again.code) == (0, 0)
    assert "nothing new" in again.out or "already in the ledger" in again.out
    assert texts(ledger, f"openai-agents:{ID}") == ["first app"]
    assert texts(ledger, f"openai-agents:app2/{ID}") == ["second app"]


def test_an_import_with_a_prefix_takes_nothing_back_of_one_without(ledger: Path, run: Run, here: Path) -> None:
    put(here / "one.db", user("hello"), session_id=ID)
    run("import", "openai-agents", here / "one.db")

    run("import", "openai-agents", here / "one.db", "--session-prefix", "copy/")
    run("import", "openai-agents", here / "one.db")

    assert texts(ledger, f"openai-agents:{ID}") == texts(ledger, f"openai-agents:copy/{ID}") == ["hello"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("codex", "x.jsonl", "--session-prefix", "a/"), "--session-prefix is only for openai-agents, got KIND codex"),
        (("openai-agents", "x.db", "--session-prefix", ""), "--session-prefix '' is not valid in a session name"),
        (("openai-agents", "x.db", "--session-prefix", "a\nb"), "is not valid in a session name"),
    ],
)
def test_a_wrong_prefix_is_refused(ledger: Path, run: Run, words: tuple[str, ...], what: str) -> None:
    done = run("import", *words)

    assert done.code == 2
    assert what in done.err
