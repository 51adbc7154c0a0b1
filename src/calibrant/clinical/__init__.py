"""Clinical prediction models: validation, clusters, updating, decision curves, sample sizes, censored outcomes."""

from calibrant.clinical.clusters import ClusterRow, ClusterValidation, validate_clusters
from calibrant.clinical.decisions import DecisionBand, decision_curve
from calibrant.clinical.pooling import RandomEffects, random_effects
from calibrant.clinical.tripod import TripodItem, TripodTable, tripod
from calibrant.clinical.updating import ModelUpdate, UpdateTest, update_model
from calibrant.clinical.validate import Validation, validate

__all__ = [
    "ClusterRow",
    "ClusterValidation",
    "DecisionBand",
    "ModelUpdate",
    "RandomEffects",
    "TripodItem",
    "TripodTable",
    "UpdateTest",
    "Validation",
    "decision_curve",
    "random_effects",
    "tripod",
    "update_model",
    "validate",
    "validate_clusters",
]
