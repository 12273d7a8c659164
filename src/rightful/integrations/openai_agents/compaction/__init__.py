"""Compaction of a session of the OpenAI Agents SDK."""
