"""What Claude Code tells its hooks."""
