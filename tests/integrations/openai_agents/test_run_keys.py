"""Work under a run key that is done again from the start: by another object, and by another process after a kill."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from agents.testing import ScriptedModel
from tests.integrations.openai_agents.apps import add, adds, says
from tests.integrations.openai_agents.providers import user

import rightful
from rightful.errors import RunDiffersError
from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger

ROOT = Path(__file__).parents[3]


def texts(items: list[Any]) -> list[Any]:
    return [item.get("content", item.get("type")) for item in items]


def attempt(ledger: Ledger, key: str | None = "job-7") -> LedgerSession:
    return LedgerSession("chat", ledger, run_key=key)


def test_retried_run_sees_its_earlier_attempt_only_as_it_repeats_it(ledger: Ledger) -> None:
    async def play() -> None:
        await attempt(ledger, None).add_items([user("before")])
        first = attempt(ledger)
        await first.add_items([user("one")])
        await first.add_items([user("two")])
        head = ledger.log.head()
        again = attempt(ledger)

        assert texts(await again.get_items()) == ["before"]
        await again.add_items([user("one")])
        assert texts(await again.get_items()) == ["before", "one"]
        assert texts(await again.get_items(1)) == ["one"]
        await again.add_items([user("two")])
        assert texts(await again.get_items()) == ["before", "one", "two"]
        assert ledger.log.head() == head
        await again.add_items([user("three")])
        assert texts(await attempt(ledger, None).get_items()) == ["before", "one", "two", "three"]

    asyncio.run(play())


def test_what_others_appended_meanwhile_is_seen(ledger: Ledger) -> None:
    async def play() -> None:
        await attempt(ledger).add_items([user("mine")])
        await attempt(ledger, "job-8").add_items([user("theirs")])

        assert texts(await attempt(ledger).get_items()) == ["theirs"]
        assert texts(await attempt(ledger, "job-8").get_items()) == ["mine"]

    asyncio.run(play())


@pytest.mark.parametrize("other", [[user("2")], [user("1"), user("2")], [user("2"), user("1"), user("3")]], ids=len)
def test_a_batch_that_differs_is_refused_and_leaves_nothing(other: list[Any], ledger: Ledger) -> None:
    async def play() -> None:
        await attempt(ledger).add_items([user("2"), user("1")])
        again = attempt(ledger)
        for _ in range(2):
            with pytest.raises(RunDiffersError, match="'job-7'"):
                await again.add_items(other)

        assert ledger.log.head() == 1
        await again.add_items([user("2"), user("1")])
        assert ledger.log.head() == 1

    asyncio.run(play())


def test_a_pop_and_a_clear_that_are_repeated_are_done_once(ledger: Ledger) -> None:
    async def play() -> None:
        async def work() -> Any:
            session = attempt(ledger)
            await session.add_items([user("one")])
            await session.clear_session()
            await session.add_items([user("two"), user("three")])
            return await session.pop_item()

        assert await work() == user("three")
        head = ledger.log.head()
        await attempt(ledger, None).add_items([user("later")])
        assert await work() == user("three")

        assert ledger.log.head() == head + 1
        assert texts(await attempt(ledger, None).get_items()) == ["two", "later"]

    asyncio.run(play())


def test_run_that_differs_from_its_first_attempt_is_stopped_in_the_runner(ledger: Ledger) -> None:
    async def play() -> None:
        agent = Agent(name="A", model=ScriptedModel([adds((1, 2)), says("3")]), tools=[add])
        await Runner.run(agent, "Add", session=attempt(ledger))
        head = ledger.log.head()
        other = ScriptedModel([adds((5, 6)), says("never")])
        with pytest.raises(RunDiffersError):
            await Runner.run(Agent(name="A", model=other, tools=[add]), "Add", session=attempt(ledger))

        assert ledger.log.head() == head
        assert other.remaining_steps == 1

    asyncio.run(play())


def attempts(folder: Path, *each: tuple[str, int | None, str]) -> list[tuple[str, int]]:
    """What each attempt told, and the code or signal that it ended with."""
    words = [json.dumps([str(folder / ledger), dies_at, text]) for ledger, dies_at, text in each]
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "", "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.integrations.openai_agents.retrying", *words],
        check=False, capture_output=True, text=True, timeout=120, env=env,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told = [line.rpartition(" ") for line in done.stdout.splitlines()]
    return [(said, int(code)) for said, _, code in told]


def test_run_killed_after_any_write_and_repeated_equals_an_unkilled_one(tmp_path: Path) -> None:
    """Five attempts die in another place each, the sixth is whole: the lost answers of openai-agents-python#4615."""
    *killed, done, whole = attempts(
        tmp_path, *[("killed", at, "Bye") for at in range(5)], ("killed", None, "Bye"), ("whole", None, "Bye")
    )

    assert killed == [("", -signal.SIGKILL)] * 5
    assert done == whole
    assert len(json.loads(whole[0])["left"]) == 8
    with rightful.open(tmp_path / "killed", readonly=True) as ledger:
        assert ledger.log.head() == 5


def test_a_retry_in_another_process_that_differs_fails_and_leaves_nothing(tmp_path: Path) -> None:
    killed, differs = attempts(tmp_path, ("ledger", 3, "Bye"), ("ledger", None, "Something else"))

    assert killed[1] == -signal.SIGKILL
    assert json.loads(differs[0]) == "RunDiffersError"
    with rightful.open(tmp_path / "ledger", readonly=True) as ledger:
        assert ledger.log.head() == 4


@pytest.mark.parametrize("second", ["add", "pop", "clear", "fork"])
@pytest.mark.parametrize("first", ["add", "pop", "clear"])
def test_a_call_of_another_kind_than_in_the_first_attempt_stops_the_run(
    first: str, second: str, ledger: Ledger
) -> None:
    """Else a pop would take what the first attempt appended, and the retry does not even see."""

    async def play() -> None:
        async def call(session: LedgerSession, what: str) -> None:
            calls: dict[str, Any] = {
                "add": lambda: session.add_items([user("two")]),
                "pop": session.pop_item,
                "clear": session.clear_session,
                "fork": session.fork,
            }
            await calls[what]()

        for what in (first, second):
            session = attempt(ledger)
            await session.add_items([user("one")])
            head = ledger.log.head()
            if what == second != first:
                with pytest.raises(RunDiffersError, match="call 1 differs from the first attempt"):
                    await call(session, what)
                assert ledger.log.head() == head
            else:
                await call(session, what)

    asyncio.run(play())
