"""Methods that fit a map to scores and labels: every estimator by name, loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant.messages import public_names

if TYPE_CHECKING:
    from calibrant.calibrators.auto import AutoCalibrator as AutoCalibrator
    from calibrant.calibrators.binary.bayesian import BayesianBinning as BayesianBinning
    from calibrant.calibrators.binary.binning import HistogramBinning as HistogramBinning
    from calibrant.calibrators.binary.isotonic import IsotonicBinning as IsotonicBinning
    from calibrant.calibrators.binary.isotonic import IsotonicCalibrator as IsotonicCalibrator
    from calibrant.calibrators.binary.scaling import BetaScaling as BetaScaling
    from calibrant.calibrators.binary.scaling import LogitShift as LogitShift
    from calibrant.calibrators.binary.scaling import PlattScaling as PlattScaling
    from calibrant.calibrators.binary.spline import SplineCalibrator as SplineCalibrator
    from calibrant.calibrators.binary.two_stage import BinwiseShift as BinwiseShift
    from calibrant.calibrators.binary.two_stage import ScalingBinning as ScalingBinning
    from calibrant.calibrators.binary.venn_abers import VennAbers as VennAbers
    from calibrant.calibrators.classifier import CalibratedClassifier as CalibratedClassifier
    from calibrant.calibrators.cross_venn_abers import CrossVennAbers as CrossVennAbers
    from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator as MulticlassAutoCalibrator
    from calibrant.calibrators.multiclass.binning import ClasswiseHistogramBinning as ClasswiseHistogramBinning
    from calibrant.calibrators.multiclass.binning import TopLabelHistogramBinning as TopLabelHistogramBinning
    from calibrant.calibrators.multiclass.hierarchy import PathCalibrator as PathCalibrator
    from calibrant.calibrators.multiclass.multilabel import MultilabelCalibrator as MultilabelCalibrator
    from calibrant.calibrators.multiclass.pairs import OneAgainstOne as OneAgainstOne
    from calibrant.calibrators.multiclass.reduction import Reduction as Reduction
    from calibrant.calibrators.multiclass.scaling import DirichletScaling as DirichletScaling
    from calibrant.calibrators.multiclass.scaling import MatrixScaling as MatrixScaling
    from calibrant.calibrators.multiclass.scaling import StructuredScaling as StructuredScaling
    from calibrant.calibrators.multiclass.scaling import VectorScaling as VectorScaling
    from calibrant.calibrators.multiclass.segments import MulticlassSegmentCalibrator as MulticlassSegmentCalibrator
    from calibrant.calibrators.multiclass.simplex import SimplexBinning as SimplexBinning
    from calibrant.calibrators.segments import SegmentCalibrator as SegmentCalibrator
    from calibrant.calibrators.temperature import TemperatureScaling as TemperatureScaling
    from calibrant.calibrators.trees.methods import CalibrationTree as CalibrationTree
    from calibrant.calibrators.trees.methods import ProbabilityCalibrationTree as ProbabilityCalibrationTree

_HOMES = {
    "AutoCalibrator": "auto",
    "BayesianBinning": "binary.bayesian",
    "BetaScaling": "binary.scaling",
    "BinwiseShift": "binary.two_stage",
    "CalibratedClassifier": "classifier",
    "CalibrationTree": "trees.methods",
    "ClasswiseHistogramBinning": "multiclass.binning",
    "CrossVennAbers": "cross_venn_abers",
    "DirichletScaling": "multiclass.scaling",
    "HistogramBinning": "binary.binning",
    "IsotonicBinning": "binary.isotonic",
    "IsotonicCalibrator": "binary.isotonic",
    "LogitShift": "binary.scaling",
    "MatrixScaling": "multiclass.scaling",
    "MulticlassAutoCalibrator": "multiclass.auto",
    "MulticlassSegmentCalibrator": "multiclass.segments",
    "MultilabelCalibrator": "multiclass.multilabel",
    "OneAgainstOne": "multiclass.pairs",
    "PathCalibrator": "multiclass.hierarchy",
    "PlattScaling": "binary.scaling",
    "ProbabilityCalibrationTree": "trees.methods",
    "Reduction": "multiclass.reduction",
    "ScalingBinning": "binary.two_stage",
    "SegmentCalibrator": "segments",
    "SimplexBinning": "multiclass.simplex",
    "SplineCalibrator": "binary.spline",
    "StructuredScaling": "multiclass.scaling",
    "TemperatureScaling": "temperature",
    "TopLabelHistogramBinning": "multiclass.binning",
    "VectorScaling": "multiclass.scaling",
    "VennAbers": "binary.venn_abers",
}

__all__ = sorted(_HOMES)

__dir__ = public_names(__all__)


def __getattr__(name: str) -> Any:
    """Load an estimator when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'calibrant.calibrators' has no attribute {name!r}")
    value = getattr(import_module(f"calibrant.calibrators.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
