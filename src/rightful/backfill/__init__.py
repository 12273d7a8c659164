"""Backfill: repaired posteriors into the files that tools read; plan, apply, rollback, status."""
