"""The output of each command, as tables for people and documents for programs."""
