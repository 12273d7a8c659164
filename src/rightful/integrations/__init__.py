"""Integrations: what agent tools call."""
