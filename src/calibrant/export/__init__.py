"""Places a fitted map can go: a JSON document, SQL text."""
