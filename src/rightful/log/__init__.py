"""The ledger's log: append events with a receipt each, read them, and follow new ones."""
