"""Audits: compare attribution rules over the same log."""
