"""Clinical prediction models: validation tables, smooth curves, hospitals, updating, sample sizes, censored outcome."""

from calibrant.clinical.horizon import SurvivalValidation
from calibrant.clinical.internal import InternalValidation, internal_validation
from calibrant.clinical.planning import ValidationPlan, plan_validation
from calibrant.clinical.survival import validate_survival

__all__ = [
    "InternalValidation",
    "SurvivalValidation",
    "ValidationPlan",
    "internal_validation",
    "plan_validation",
    "validate_survival",
]
