"""The state files of bandits, and the calls of other updaters."""
