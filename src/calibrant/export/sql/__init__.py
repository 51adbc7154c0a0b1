"""SQL expressions of a map."""
