"""Pictures of several classes."""
