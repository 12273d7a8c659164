"""Arithmetic of credits: exact sums, sums in log order, decay."""
