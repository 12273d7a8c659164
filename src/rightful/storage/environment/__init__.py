"""The LMDB environment of a store: its files, its creation, its errors."""
