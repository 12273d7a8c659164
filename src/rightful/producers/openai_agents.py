"""The import path of version 0.1, kept for one version: use `rightful.integrations.openai_agents`."""

from rightful.integrations.openai_agents import LedgerSession

__all__ = ["LedgerSession"]
