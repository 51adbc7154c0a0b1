"""Clinical prediction models: validation tables, smooth curves, hospitals, updating, sample sizes, censored outcomes."""
