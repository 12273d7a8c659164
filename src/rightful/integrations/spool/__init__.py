"""Events that wait outside of the ledger until it can be written."""
