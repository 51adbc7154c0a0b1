"""Clinical prediction models: validation, clusters, updating, decision curves, sample sizes, censored outcomes."""

from calibrant.clinical.checklist import TripodItem, TripodTable, tripod
from calibrant.clinical.clusters import ClusterRow, ClusterValidation, validate_clusters
from calibrant.clinical.course import SurvivalCourse, validate_horizons
from calibrant.clinical.decisions import DecisionBand, decision_curve
from calibrant.clinical.horizon import SurvivalValidation
from calibrant.clinical.internal import InternalValidation, internal_validation
from calibrant.clinical.planning import ValidationPlan, plan_validation
from calibrant.clinical.pooling import RandomEffects, random_effects
from calibrant.clinical.survival import validate_survival
from calibrant.clinical.updating import ModelUpdate, UpdateTest, update_model
from calibrant.clinical.validation import Validation, validate
from calibrant.messages import public_names

__all__ = [
    "ClusterRow",
    "ClusterValidation",
    "DecisionBand",
    "InternalValidation",
    "ModelUpdate",
    "RandomEffects",
    "SurvivalCourse",
    "SurvivalValidation",
    "TripodItem",
    "TripodTable",
    "UpdateTest",
    "Validation",
    "ValidationPlan",
    "decision_curve",
    "internal_validation",
    "plan_validation",
    "random_effects",
    "tripod",
    "update_model",
    "validate",
    "validate_clusters",
    "validate_horizons",
    "validate_survival",
]

__dir__ = public_names(__all__)
