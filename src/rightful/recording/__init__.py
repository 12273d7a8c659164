"""Recording facts from Python: the producer API, the turn recorder, and a session's credit."""
