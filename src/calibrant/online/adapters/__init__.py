"""Adapters for other libraries, imported on first use."""
