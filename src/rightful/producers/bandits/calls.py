"""The import path of version 0.1, kept for one version: use `rightful.importers.bandits.updater_calls`."""

from rightful.importers.bandits.updater_calls import BanditCalls

__all__ = ["BanditCalls"]
