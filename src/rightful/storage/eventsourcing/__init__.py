"""LMDB as a store for applications of the eventsourcing library."""
