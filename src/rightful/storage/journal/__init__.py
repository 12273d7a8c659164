"""The journal: small commits in one file beside the tables, one sync each."""
