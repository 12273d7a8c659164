"""The file of pm-dispatch: three keys of an arm, arms of its own, a lock and a backup."""

from __future__ import annotations

from collections.abc import Iterator

from rightful.importers.bandits import bandit_file
from rightful.importers.bandits.bandit_file import NUMBERS, PM, Entry, Format, Numbers, State

_THREE = NUMBERS[:3]


def _recognise(_: frozenset[str]) -> str | None:
    return "pm-dispatch"


def _mix(state: State) -> Iterator[str]:
    yield from bandit_file.arms_of_others(state, pm=True)
    yield from bandit_file.other_keys(state, _THREE)
    if state.contexts:
        yield "it has `contextual_arms`"


def _write(state: State, numbers: Numbers) -> Entry:
    every = bandit_file.in_order(state.arms, numbers.arms)
    arms = {arm: dict(zip(_THREE, number[:3], strict=True)) for arm, number in every}
    return {"arms": arms} | {key: value for key, value in state.top.items() if key not in ("arms", "contextual_arms")}


PM_DISPATCH = Format(
    "pm-dispatch", _recognise, _mix, _write, lambda arm: arm.count(":") > 1, f"{PM}WORK_TYPE:MODEL", keeps_backup=True
)
