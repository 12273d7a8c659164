"""Projections: folds of rows into runs, credits and posteriors; deletable and rebuildable."""
