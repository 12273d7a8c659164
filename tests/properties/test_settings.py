"""Settings of any content and any layout: what is put in comes out again, and touches nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rightful.integrations.claude_code.hook_entry import command_of
from rightful.integrations.claude_code.hook_events import EVENTS
from rightful.integrations.claude_code.settings_text import installed as ours_in
from rightful.integrations.claude_code.settings_text import with_entries, without_entries

COMMAND = command_of(["/opt/rightful"], "/home/dév/it's/.rightful")
ENTRY = {"hooks": [{"type": "command", "command": COMMAND, "timeout": 10}]}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from([*EVENTS, "Notification", "hooks"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A settings file's text: its members in any order, its layout of any kind."""
    root: dict[str, Any] = draw(st.dictionaries(st.text().filter(lambda key: key != "hooks"), values, max_size=4))
    if draw(st.booleans()):
        root["hooks"] = draw(st.dictionaries(names, st.lists(values, max_size=3), max_size=3))
    root = dict(draw(st.permutations(list(root.items()))))
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]))
    text = json.dumps(root, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    text = draw(st.sampled_from(["", "\ufeff"])) + draw(st.sampled_from(["", " ", "\n"])) + text
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + draw(st.sampled_from(["", "\n", " \n\n"]))


def loaded(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"))


def without_empty(document: dict[str, Any]) -> dict[str, Any]:
    """The document without hook events that hold nothing, and without `hooks` if nothing is left."""
    hooks = {event: groups for event, groups in document.get("hooks", {}).items() if groups}
    rest = {key: value for key, value in document.items() if key != "hooks"}
    return rest | ({"hooks": hooks} if hooks else {})


@given(documents(), st.sets(st.sampled_from(EVENTS), min_size=1))
def test_each_event_gets_its_entry_after_the_existing_ones_in_order(text: str, events: set[str]) -> None:
    before, after = loaded(text), loaded(with_entries(text, sorted(events), COMMAND))

    for event in events:
        assert after["hooks"][event].pop() == ENTRY
    assert json.dumps({**after, "hooks": 0}) == json.dumps({**before, "hooks": 0})
    assert without_empty(after) == without_empty(before)
    kept = [event for event in after["hooks"] if event in before.get("hooks", {})]
    assert kept == list(before.get("hooks", {}))


@given(documents(), st.sets(st.sampled_from(EVENTS), min_size=1))
def test_what_is_cut_out_leaves_what_was_there(text: str, events: set[str]) -> None:
    installed = with_entries(text, sorted(events), COMMAND)
    assert {one.event for one in ours_in(installed)} == events

    after = without_entries(installed)

    assert ours_in(after) == []
    assert without_empty(loaded(after)) == without_empty(loaded(text))
    others = [{key: value for key, value in loaded(one).items() if key != "hooks"} for one in (after, text)]
    assert json.dumps(others[0]) == json.dumps(others[1])
