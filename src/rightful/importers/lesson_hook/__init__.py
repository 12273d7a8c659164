"""The artifacts of the Claude Code lesson hook."""
