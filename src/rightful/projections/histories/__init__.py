"""Histories: what the model would see next, folded from the rows of a session."""
