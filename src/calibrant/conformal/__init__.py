"""Conformal prediction: sets that hold a new outcome with a guaranteed probability, around any model."""

from calibrant.conformal.classes.cumulative import CumulativeSets
from calibrant.conformal.classes.least_ambiguous import LeastAmbiguousSets
from calibrant.conformal.classes.sets import ClassSets
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.cross import CrossConformal
from calibrant.conformal.distributions.recalibration import (
    DistributionCalibration,
    RecalibratedForecast,
    recalibrate_distributions,
)
from calibrant.conformal.families import Distribution, Family, Quantiles, Residual, Scaled
from calibrant.conformal.forests.out_of_bag import OutOfBagConformal
from calibrant.conformal.forests.qoob import QOOB
from calibrant.conformal.full import RidgeConformal
from calibrant.conformal.nested import Band, Nested
from calibrant.conformal.quantiles import conformal_quantile, p_values
from calibrant.conformal.repeated import RepeatedSplitConformal
from calibrant.conformal.sets import PredictionSets, SetSummary
from calibrant.conformal.split import SplitConformal, split_intervals
from calibrant.messages import public_names

__all__ = [
    "QOOB",
    "Band",
    "ClassSets",
    "Coverage",
    "CrossConformal",
    "CumulativeSets",
    "Distribution",
    "DistributionCalibration",
    "Family",
    "LeastAmbiguousSets",
    "Nested",
    "OutOfBagConformal",
    "PredictionSets",
    "Quantiles",
    "RecalibratedForecast",
    "RepeatedSplitConformal",
    "Residual",
    "RidgeConformal",
    "Scaled",
    "SetSummary",
    "SplitConformal",
    "conformal_quantile",
    "p_values",
    "recalibrate_distributions",
    "split_intervals",
]

__dir__ = public_names(__all__)
