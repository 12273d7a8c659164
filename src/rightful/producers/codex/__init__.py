"""The rollouts of Codex."""
