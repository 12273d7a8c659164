"""What several commands share: parsing, options, and the work behind long commands."""
