"""Conformal prediction: sets that hold a new outcome with a guaranteed probability, around any model."""

from calibrant.conformal.classes.cumulative import CumulativeSets
from calibrant.conformal.classes.least_ambiguous import LeastAmbiguousSets
from calibrant.conformal.classes.sets import ClassSets
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.nested import Band, Nested
from calibrant.conformal.quantiles import conformal_quantile, p_values
from calibrant.conformal.sets import PredictionSets, SetSummary

__all__ = [
    "Band",
    "ClassSets",
    "Coverage",
    "CumulativeSets",
    "LeastAmbiguousSets",
    "Nested",
    "PredictionSets",
    "SetSummary",
    "conformal_quantile",
    "p_values",
]
