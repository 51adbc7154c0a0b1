"""Export of maps as SQL expressions."""
