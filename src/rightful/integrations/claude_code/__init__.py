"""The integration with Claude Code: its hooks, their input, and the settings files that install them."""
