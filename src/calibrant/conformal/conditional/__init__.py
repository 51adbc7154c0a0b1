"""Thresholds by group, by class and by weight, for sets of classes and of numbers."""
