"""The demo's workspace: a small one in the real formats."""
