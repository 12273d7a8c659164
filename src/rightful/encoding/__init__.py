"""How an event enters and becomes stored bytes: wire form, envelope, Merkle tree."""
