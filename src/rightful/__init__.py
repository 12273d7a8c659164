"""Rightful: an append-only ledger that gives every agent session its rightful credit."""
