"""Compaction of a session of the Agents SDK."""
