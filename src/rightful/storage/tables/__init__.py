"""The LMDB tables of a store, and what a read transaction sees in them and in the journal."""
