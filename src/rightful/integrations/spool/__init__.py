"""The spool: events queued outside of the ledger until it is writable."""
