"""A run with an identity of its own: what `rightful run` stands on."""
