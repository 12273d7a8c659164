"""The ledger: appends facts with a receipt each, reads them back, and follows what is added."""
