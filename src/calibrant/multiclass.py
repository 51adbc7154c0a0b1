"""Calibrators of several classes, and the taxonomy of classes; loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import calibrators, maps
from calibrant.messages import public_names

if TYPE_CHECKING:
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
    from calibrant.calibrators.temperature import TemperatureScaling as TemperatureScaling
    from calibrant.maps import Taxonomy as Taxonomy

__all__ = [
    "ClasswiseHistogramBinning",
    "DirichletScaling",
    "MatrixScaling",
    "MulticlassAutoCalibrator",
    "MulticlassSegmentCalibrator",
    "MultilabelCalibrator",
    "OneAgainstOne",
    "PathCalibrator",
    "Reduction",
    "SimplexBinning",
    "StructuredScaling",
    "Taxonomy",
    "TemperatureScaling",
    "TopLabelHistogramBinning",
    "VectorScaling",
]

__dir__ = public_names(__all__)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'calibrant.multiclass' has no attribute {name!r}")
    value = getattr(maps if name == "Taxonomy" else calibrators, name)
    globals()[name] = value
    return value
