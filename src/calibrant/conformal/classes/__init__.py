"""Prediction sets of classes by split conformal prediction, on the probabilities of any classifier."""
