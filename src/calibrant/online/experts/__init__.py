"""Experts: maps of a score that follow the outcomes, by Newton steps, refits or restarts."""
