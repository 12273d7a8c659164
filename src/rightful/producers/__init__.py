"""Producers: each reads one tool's files, or is called by hooks and runners, and writes facts."""
