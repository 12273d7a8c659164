"""Sources of an import: text files, folders, growing files, SQLite databases, watching."""
