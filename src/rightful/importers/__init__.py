"""Importers: read the files of agent tools and append their facts."""
