"""What one step leaves for the next."""
