"""Correct for a changed population: base rates without a refit, density ratios under covariate shift, late labels."""

from calibrant.arrays.sides import RatioWeights, known_weights
from calibrant.guarantees.weighted import weighted_bernstein, weighted_epsilon, weighted_interval
from calibrant.messages import public_names
from calibrant.shift.classes import ClassShift
from calibrant.shift.covariate.density_ratio import DensityRatio, estimate_density_ratio
from calibrant.shift.intercept import match_mean
from calibrant.shift.judged import JudgedCalibration, JudgedFigure, estimate_calibration
from calibrant.shift.label_shift import LabelShift, estimate_label_shift
from calibrant.shift.maturity import Matured, select_mature
from calibrant.shift.mean_rate import ClassRates, MeanRate, estimate_rate
from calibrant.shift.mixture import MixtureFit
from calibrant.shift.sampling import SamplingCorrection

__all__ = [
    "ClassRates",
    "ClassShift",
    "DensityRatio",
    "JudgedCalibration",
    "JudgedFigure",
    "LabelShift",
    "Matured",
    "MeanRate",
    "MixtureFit",
    "RatioWeights",
    "SamplingCorrection",
    "estimate_calibration",
    "estimate_density_ratio",
    "estimate_label_shift",
    "estimate_rate",
    "known_weights",
    "match_mean",
    "select_mature",
    "weighted_bernstein",
    "weighted_epsilon",
    "weighted_interval",
]

__dir__ = public_names(__all__)
