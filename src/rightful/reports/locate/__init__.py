"""Finding the transcript of a session, and telling whose a transcript is."""
