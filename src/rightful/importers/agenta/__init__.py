"""The session records of Agenta."""
