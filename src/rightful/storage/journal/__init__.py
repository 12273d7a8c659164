"""The journal: small commits in one file next to the tables, one sync each."""
