"""A conversation as gptme keeps it, imported whenever and in part: its history is what gptme would send.

The folder is written as gptme's LogManager writes it: the conversation anew at each change, backups
before an undo or an edit, views to which each new message goes too, and the event log.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers.gptme_files import SESSION, Message, event, history, said, write
from tests.importers.growing import import_once

from rightful import ledger as app
from rightful.importers.gptme.conversation import Gptme
from rightful.ledger import Ledger

OPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.just(0)),
        st.tuples(st.sampled_from(["call", "block"]), st.booleans()),
        st.tuples(st.just("undo"), st.integers(1, 3)),
        st.tuples(st.just("edit"), st.integers(0, 9)),
        st.tuples(st.just("compact"), st.integers(0, 4)),
        st.tuples(st.just("import"), st.integers(0, 15)),
    ),
    min_size=1,
    max_size=25,
)


class Conversation:
    """What gptme does with one folder.

    Args:
        folder: The folder.
        has_log: Whether it is a version that writes an event log.
    """

    def __init__(self, folder: Path, *, has_log: bool) -> None:
        self.folder, self.has_log = folder, has_log
        self.main: list[Message] = []
        self.branches: list[tuple[str, list[Message]]] = []
        self.views: list[list[Message]] = []
        self.log: list[dict[str, Any]] = []
        self.count = 0
        self.edited = False
        self.say("system", "sys")

    @property
    def shown(self) -> list[Message]:
        """What the model is sent next."""
        return self.views[-1] if self.views else self.main

    def say(self, role: str, text: str = "", **fields: Any) -> None:
        self.count += 1
        one = said(self.count % 60, role, text or f"m{self.count}", **fields)
        one["timestamp"] = f"2026-08-01T10:{self.count // 60:02}:{self.count % 60:02}"
        self.main.append(one)
        if self.views:
            self.views[-1].append(one)
        self._logged("message_append", message=one)

    def call(self, *, answered: bool) -> None:
        self.say("assistant", f'@shell(c{self.count}): {{"n": {self.count}}}')
        if answered:
            self.say("system", f"r{self.count}", call_id=f"c{self.count - 1}")

    def block(self, *, answered: bool) -> None:
        self.say("assistant", f"```shell\nx{self.count}\n```")
        if answered:
            self.say("system", f"r{self.count}", metadata={"tool": "shell"})

    def undo(self, count: int) -> None:
        count = min(count, len(self.shown) - 1)
        if count == 0:
            return
        self._backup("undo")
        del self.shown[-count:]
        self._logged("undo", n=count)

    def edit(self, place: int) -> None:
        """A person changes a message that stands alone: calls and results stay with each other."""
        plain = [n for n, one in enumerate(self.main) if one["role"] == "user"]
        if self.views or not plain:
            return
        self._backup("edit")
        self.count += 1
        at = plain[place % len(plain)]
        self.main[at] = {**self.main[at], "content": f"e{self.count}"}
        self.edited = self.edited or at < len(self.main) - 1
        self._logged("message_edit", messages=list(self.main))

    def compact(self, kept: int) -> None:
        self.count += 1
        behind = self.shown[max(len(self.shown) - kept, 1) :]
        if behind and "call_id" in behind[0]:
            behind = behind[1:]
        if behind and behind[0].get("metadata"):
            behind = behind[1:]
        summary = said(1, "system", f"summary{self.count}")
        self.views.append([self.main[0], summary, *behind])
        self.say("system", f"notice{self.count}", hide=True)

    def _backup(self, kind: str) -> None:
        number = sum(name.startswith(f"main-{kind}") for name, _ in self.branches)
        self.branches.append((f"main-{kind}-{number}", list(self.shown)))

    def _logged(self, kind: str, **payload: Any) -> None:
        self.log.append(event(len(self.log) % 60, kind, **payload))

    def write(self) -> list[Path]:
        """Write all files; return them in the order in which a folder is imported."""
        paths = [write(self.folder / "conversation.jsonl", *self.main)]
        paths += [write(self.folder / "events.jsonl", *self.log)] if self.has_log else []
        paths += [write(self.folder / "branches" / f"{name}.jsonl", *rows) for name, rows in self.branches]
        views = enumerate(self.views, 1)
        return paths + [write(self.folder / "views" / f"compacted-{n:03}.jsonl", *rows) for n, rows in views]


def imported(ledger: Ledger, paths: list[Path]) -> None:
    for path in paths:
        report = import_once(ledger, Gptme(), path)
        assert (report.conflicts, report.lost) == (0, 0), report


def shown_of(messages: list[Message]) -> list[str]:
    """The texts of messages as a history shows them, without the calls, which are items of their own."""
    return [str(one["content"]) for one in messages]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(OPS, st.booleans())
def test_the_history_is_what_gptme_sends_next(ops: list[tuple[str, Any]], has_log: bool) -> None:
    with tempfile.TemporaryDirectory() as place, app.open(Path(place) / "ledger", create=True) as ledger:
        talk = Conversation(Path(place) / "logs" / "fox", has_log=has_log)
        for name, value in ops:
            match name:
                case "say":
                    talk.say("user")
                case "call":
                    talk.call(answered=value)
                case "block":
                    talk.block(answered=value)
                case "undo":
                    talk.undo(value)
                case "edit":
                    talk.edit(value)
                case "compact":
                    talk.compact(value)
                case _:
                    paths = talk.write()
                    imported(ledger, [path for n, path in enumerate(paths) if n == 0 or value >> (n % 4) & 1])
        talk.say("user")  # a view counts once a message stands behind it
        imported(ledger, talk.write())
        imported(ledger, talk.write())

        found = [text.removeprefix("result ") for text in history(ledger) if not text.startswith("call ")]
        expected = shown_of(talk.shown)
        assert (sorted(found), sorted(expected)) == (sorted(expected), sorted(found))
        if not talk.edited:
            assert found == expected
        seen = [item["content"] for item in ledger.history(SESSION).items]
        if not any(one.inert for one in ledger.full_history(SESSION).compactions):  # known and said in the docs:
            assert seen == found  # an undo took a summary, and a later compaction names what that had covered
