"""Runs with an identity of their own: the parts of `rightful run`."""
