"""Histories: read the items that the model would see next, and append to, pop, clear, compact and fork them.

Each call that writes is one conditional append. No lock is held between a read and the write that follows it.
"""
