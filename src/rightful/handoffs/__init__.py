"""Handoffs: payloads that one step of a session leaves for the next step."""
