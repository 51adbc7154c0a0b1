"""Recalibration of predictive distributions of a number, with a band."""
