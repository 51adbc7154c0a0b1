"""The tally store."""
