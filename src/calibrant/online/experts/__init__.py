"""Experts: online maps of one score, by Newton steps, refits or restarts."""
