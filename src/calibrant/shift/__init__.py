"""Repair without a refit: undo a sampling recipe, move to a known or an estimated base rate, count from few labels."""

from calibrant.shift.intercept import shift_to
from calibrant.shift.label_shift import LabelShift, label_shift
from calibrant.shift.labelled_slice import MeanRate, mean_rate
from calibrant.shift.mixture import MixtureFit
from calibrant.shift.sampling import SamplingCorrection

__all__ = ["LabelShift", "MeanRate", "MixtureFit", "SamplingCorrection", "label_shift", "mean_rate", "shift_to"]
