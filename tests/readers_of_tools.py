"""How four tools read a bandit file, written from what is known of them and not from our code.

Each function stands for one reader: gptme-contrib aabb1db1 (`thompson_sampling.py`,
`match-lessons.py`, `pm_bandit.py`) and gptme d27f98d3 (`HybridLessonMatcher`). They behave as the
tools do where a file is not to their taste too: one starts fresh, one falls back to `.bak`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FRESH = "starting fresh"
KEYS = ("arm_id", "alpha", "beta", "total_selections", "total_rewards", "last_updated")
NEUTRAL = 0.5


class BanditArm:
    """As a dataclass of six fields: any other keyword, or no `arm_id`, is a TypeError."""

    def __init__(
        self,
        arm_id: str,
        alpha: float = 1.0,
        beta: float = 1.0,
        total_selections: int = 0,
        total_rewards: int = 0,
        last_updated: str = "",
    ) -> None:
        self.arm_id, self.alpha, self.beta = arm_id, alpha, beta
        self.total_selections, self.total_rewards, self.last_updated = total_selections, total_rewards, last_updated

    def as_json(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in KEYS}


class Bandit:
    """`gptme_sessions.thompson_sampling.Bandit`: reads a state, updates it, writes it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said = ""
        self.arms: dict[str, BanditArm] = {}
        self.contexts: dict[str, dict[tuple[str | None, ...], BanditArm]] = {}
        self.total_sessions, self.created, self.last_updated = 0, "", ""
        if path.exists():
            self._load()

    def _load(self) -> None:
        try:
            data = json.loads(self.path.read_text())
            arms = {arm: self._arm(raw) for arm, raw in data.get("arms", {}).items()}
            contexts = {
                arm: {tuple(json.loads(key)): self._arm(raw) for key, raw in inside.items()}
                for arm, inside in data.get("contextual_arms", {}).items()
            }
        except (json.JSONDecodeError, TypeError, KeyError):
            self.said = FRESH
            return
        self.arms, self.contexts = arms, contexts
        self.total_sessions = data.get("total_sessions", 0)
        self.created, self.last_updated = data.get("created", ""), data.get("last_updated", "")

    @staticmethod
    def _arm(raw: dict[str, Any]) -> BanditArm:
        raw = dict(raw)
        if "lesson_path" in raw and "arm_id" not in raw:
            raw["arm_id"] = raw.pop("lesson_path")
        return BanditArm(**raw)

    def update(self, arms: list[str], reward: float, now: str) -> None:
        for name in arms:
            arm = self.arms.setdefault(name, BanditArm(name))
            arm.alpha += reward
            arm.beta += 1.0 - reward
            arm.total_selections += 1
            arm.total_rewards += reward > NEUTRAL
            arm.last_updated = now
        self.total_sessions += 1
        self.last_updated = now
        self.save()

    def text(self) -> str:
        data: dict[str, Any] = {
            "arms": {arm: one.as_json() for arm, one in self.arms.items()},
            "total_sessions": self.total_sessions,
            "created": self.created,
            "last_updated": self.last_updated,
        }
        if self.contexts:
            data["contextual_arms"] = {
                arm: {json.dumps(list(context)): one.as_json() for context, one in inside.items()}
                for arm, inside in self.contexts.items()
            }
        return json.dumps(data, indent=2) + "\n"

    def save(self) -> None:
        self.path.write_text(self.text())


def hook_scores(path: Path) -> dict[str, float]:
    """match-lessons.py: the mean of each lesson by absolute path; a confounded one never below a half."""
    try:
        arms = json.loads(path.read_text()).get("arms", {})
    except (OSError, ValueError, AttributeError):
        return {}
    scores = {}
    for lesson, arm in arms.items():
        mean = arm.get("alpha", 1.0) / (arm.get("alpha", 1.0) + arm.get("beta", 1.0))
        scores[lesson] = max(mean, NEUTRAL) if arm.get("confounded") else mean
    return scores


def hybrid_scores(path: Path) -> dict[str, float]:
    """HybridLessonMatcher: the mean of the Thompson mean and of the judge's, of those that are there."""
    scores = {}
    for key, arm in json.loads(path.read_text()).get("arms", {}).items():
        parts = []
        if "alpha" in arm and "beta" in arm:
            parts.append(arm["alpha"] / (arm["alpha"] + arm["beta"]))
        counts = [arm.get(name, 0) for name in ("helpful", "harmful", "false_positive", "noop")]
        if any(name in arm for name in ("helpful", "harmful", "false_positive", "noop")):
            parts.append((counts[0] + 1) / (sum(counts) + 2))
        if parts:
            scores[key] = sum(parts) / len(parts)
    return scores


def hybrid_score(path: Path, lesson: str, lesson_id: str | None = None) -> float | None:
    """HybridLessonMatcher's lookup: frontmatter id, path as text, file name, parent and file name."""
    scores, at = hybrid_scores(path), Path(lesson)
    for key in (lesson_id, str(at), at.name, f"{at.parent.name}/{at.name}"):
        if key is not None and key in scores:
            return scores[key]
    return None


def pm_arms(path: Path) -> dict[str, tuple[float, float, int]]:
    """pm_bandit.py: three numbers an arm; a state that cannot be read is taken from `.bak`."""
    for source in (path, Path(f"{path}.bak")):
        try:
            arms = json.loads(source.read_text())["arms"]
            return {name: (arm["alpha"], arm["beta"], arm["total_selections"]) for name, arm in arms.items()}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return {}
