"""Where rows are stored: the library's port, and one recorder an engine."""
