"""Prediction intervals on a stream whose long-run coverage is right, whatever the outcomes."""
