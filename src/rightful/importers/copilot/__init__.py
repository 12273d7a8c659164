"""The sessions of Copilot CLI."""
