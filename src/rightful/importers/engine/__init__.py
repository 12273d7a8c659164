"""What every import does: files in, events appended, problems out."""
