"""The import path of version 0.1, kept for one version: use `rightful.importers.bandits`."""
