"""Reports: what projections say, for people and for machines."""
