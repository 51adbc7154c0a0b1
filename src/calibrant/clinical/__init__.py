"""Clinical prediction models: validation tables, smooth curves, hospitals, updating, sample sizes, censored outcomes."""

from calibrant.clinical.survival import SurvivalValidation, validate_survival

__all__ = ["SurvivalValidation", "validate_survival"]
