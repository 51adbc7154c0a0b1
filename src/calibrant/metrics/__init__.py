"""How far off: numbers about calibration, from a tally."""
