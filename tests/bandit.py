"""gptme's bandit as an oracle: what `gptme_sessions.thompson_sampling.Bandit` does, with a clock that is given.

Written from its observed behaviour (gptme-contrib aabb1db1, reference of the agent tools, section 2):

1. A reward r in [0, 1] adds r to alpha and 1.0 - r to beta; above 0.5 it is a success; else it is refused.
2. `productive` is 1, `noop`, `failed` and `violated_policy` are 0, other words are refused; a number that no
   arm uses is not looked at.
3. Each arm has its own reward if it is given; rewards of arms not listed are ignored; twice listed, twice updated.
4. With a context the arm is updated first, then the arm in exactly that context.
5. A decay is `1 + gamma * (x - 1)` on everything; an update decays first, an empty one too, and saves.
6. Nothing is rounded; a file is the same numbers again; an old file's `lesson_path` is an `arm_id`.
7. A prune drops what was not updated for so many days or was selected at most so often.
8. A refused update has changed memory and not the file; the next save writes it.
9. A handle that is loaded anew has what the file has.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

WORDS = {"productive": 1.0, "noop": 0.0, "failed": 0.0, "violated_policy": 0.0}
Context = tuple[str | None, ...]


@dataclasses.dataclass
class Arm:
    arm_id: str
    alpha: float = 1.0
    beta: float = 1.0
    total_selections: int = 0
    total_rewards: int = 0
    last_updated: str = ""


class Bandit:
    """One handle on a file, which is a text in a dict."""

    def __init__(self, disk: dict[str, str], now: Callable[[], datetime]) -> None:
        self.disk = disk
        self.now = now
        state = json.loads(disk.get("file", "{}"))
        self.arms = {name: self._arm(one) for name, one in state.get("arms", {}).items()}
        self.contextual: dict[str, dict[Context, Arm]] = {
            name: {tuple(json.loads(context)): self._arm(one) for context, one in of.items()}
            for name, of in state.get("contextual_arms", {}).items()
        }
        self.total_sessions = state.get("total_sessions", 0)
        self.last_updated = state.get("last_updated", "")

    @staticmethod
    def _arm(held: dict[str, Any]) -> Arm:
        held = dict(held)
        if "lesson_path" in held and "arm_id" not in held:
            held["arm_id"] = held.pop("lesson_path")
        return Arm(**held)

    def save(self) -> None:
        state: dict[str, Any] = {
            "arms": {name: dataclasses.asdict(one) for name, one in self.arms.items()},
            "total_sessions": self.total_sessions,
            "created": "2026-01-01T00:00:00+00:00",
            "last_updated": self.last_updated,
        }
        if self.contextual:
            state["contextual_arms"] = {
                name: {json.dumps(list(context)): dataclasses.asdict(one) for context, one in of.items()}
                for name, of in self.contextual.items()
            }
        self.disk["file"] = json.dumps(state, indent=2) + "\n"

    def every(self) -> list[Arm]:
        return [*self.arms.values(), *(one for of in self.contextual.values() for one in of.values())]

    def forget(self, gamma: float) -> None:
        """Decay in memory."""
        for one in self.every():
            one.alpha = 1.0 + gamma * (one.alpha - 1.0)
            one.beta = 1.0 + gamma * (one.beta - 1.0)

    def decay(self, gamma: float) -> None:
        self.forget(gamma)
        self.save()

    def _reward(self, one: Arm, reward: float) -> None:
        r = float(reward)
        if not 0.0 <= r <= 1.0:
            raise ValueError(r)
        one.alpha += r
        one.beta += 1.0 - r
        one.total_selections += 1
        one.total_rewards += r > 0.5
        one.last_updated = self.now().isoformat()

    def update(
        self,
        arms: list[str],
        outcome: float | str,
        context: Context | None = None,
        per_arm_rewards: dict[str, float] | None = None,
        decay_rate: float | None = None,
    ) -> None:
        if decay_rate is not None:
            self.forget(decay_rate)
        if isinstance(outcome, str):
            if outcome not in WORDS:
                raise ValueError(outcome)
            base = WORDS[outcome]
        else:
            base = float(outcome)
        for name in arms:
            reward = (per_arm_rewards or {}).get(name, base)
            self._reward(self.arms.setdefault(name, Arm(name)), reward)
            if context is not None:
                self._reward(self.contextual.setdefault(name, {}).setdefault(context, Arm(name)), reward)
        self.total_sessions += 1
        self.last_updated = self.now().isoformat()
        self.save()

    def _stale(self, one: Arm, fewest: int, days: int) -> bool:
        old = bool(one.last_updated) and (self.now() - datetime.fromisoformat(one.last_updated)).days > days
        return old or one.total_selections <= fewest

    def prune(self, fewest: int, days: int) -> tuple[list[str], list[tuple[str, Context]]]:
        """Drop what is stale and save; return what was dropped."""
        arms = [name for name, one in self.arms.items() if self._stale(one, fewest, days)]
        inside = [
            (name, context)
            for name, of in self.contextual.items()
            for context, one in of.items()
            if self._stale(one, fewest, days)
        ]
        for name in arms:
            del self.arms[name]
        for name, context in inside:
            del self.contextual[name][context]
            if not self.contextual[name]:
                del self.contextual[name]
        self.save()
        return arms, inside
