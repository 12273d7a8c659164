"""Beta posteriors: intervals, distances, the best arm."""
