"""Where transcripts stand, and what in them tells whose they are."""
