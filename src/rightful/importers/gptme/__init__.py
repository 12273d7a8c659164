"""The conversations of gptme, and what it records of single calls."""
