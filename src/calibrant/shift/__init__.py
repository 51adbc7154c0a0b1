"""Correct for changed base rates without a refit: sampling correction, known or estimated rates, late labels."""

from calibrant.shift.classes import ClassRates, ClassShift
from calibrant.shift.intercept import match_mean
from calibrant.shift.judged import JudgedCalibration, JudgedFigure, estimate_calibration
from calibrant.shift.label_shift import LabelShift, estimate_label_shift
from calibrant.shift.maturity import Matured, select_mature
from calibrant.shift.mean_rate import MeanRate, estimate_rate
from calibrant.shift.mixture import MixtureFit
from calibrant.shift.sampling import SamplingCorrection

__all__ = [
    "ClassRates",
    "ClassShift",
    "JudgedCalibration",
    "JudgedFigure",
    "LabelShift",
    "Matured",
    "MeanRate",
    "MixtureFit",
    "SamplingCorrection",
    "estimate_calibration",
    "estimate_label_shift",
    "estimate_rate",
    "match_mean",
    "select_mature",
]
