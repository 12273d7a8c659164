"""Aliases: arms that appear under several names."""
