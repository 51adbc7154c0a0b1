"""Fits: from a tally or rows to a map, with numpy and scipy alone."""
