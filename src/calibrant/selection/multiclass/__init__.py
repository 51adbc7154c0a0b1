"""Selection among calibrators of several classes."""
