"""Histories: read what the model would see next, and append to it, pop, clear, compact and fork it.

Each call that writes is one conditional append. No lock is held between a read and the write that it leads to.
"""
