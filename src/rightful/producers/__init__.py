"""Import paths of version 0.1, kept for one version: use `rightful.integrations` and `rightful.importers`."""
