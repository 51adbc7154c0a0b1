"""Adapters for other libraries, each loaded when it is first used."""
