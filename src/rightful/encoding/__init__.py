"""Convert events to stored bytes: wire format, envelope, Merkle tree."""
