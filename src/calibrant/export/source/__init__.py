"""A map as the source of one small function, in Python or C."""
