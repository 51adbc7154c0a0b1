"""Calibration by decision trees on features, for one score or for several classes."""

from calibrant.calibrators.trees.base import TreeCalibrator
from calibrant.calibrators.trees.methods import CalibrationTree, ProbabilityCalibrationTree

__all__ = ["CalibrationTree", "ProbabilityCalibrationTree", "TreeCalibrator"]
