"""Input validation for several classes."""
