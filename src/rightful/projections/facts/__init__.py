"""Facts: what the rows say about attribution, as columns, before any policy."""
