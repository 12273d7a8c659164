"""The sessions of Grok Build: what it streams, and what its own store keeps."""
