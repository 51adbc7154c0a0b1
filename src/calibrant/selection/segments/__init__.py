"""Selection by segment."""
