"""Clinical prediction models: validation, clusters, updating, decision curves, sample sizes, censored outcomes."""

from calibrant.clinical.course import SurvivalCourse, validate_horizons
from calibrant.clinical.horizon import SurvivalValidation
from calibrant.clinical.internal import InternalValidation, internal_validation
from calibrant.clinical.planning import ValidationPlan, plan_validation
from calibrant.clinical.survival import validate_survival

__all__ = [
    "InternalValidation",
    "SurvivalCourse",
    "SurvivalValidation",
    "ValidationPlan",
    "internal_validation",
    "plan_validation",
    "validate_horizons",
    "validate_survival",
]
