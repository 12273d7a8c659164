"""Helpers that the readers of several tools share."""
