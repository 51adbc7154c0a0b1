"""Fits that differ by segment: counts by segment, shrinkage toward the global map, and multicalibration."""
