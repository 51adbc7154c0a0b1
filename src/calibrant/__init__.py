"""Calibrant: probabilities that mean what they say, with a proof of how far off they can be."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where each public name lives; "" for a sub-package that is public itself.
_HOMES = {
    "AutoCalibrator": "calibrators.auto",
    "BayesianBinning": "calibrators.binary.bayesian",
    "BetaScaling": "calibrators.binary.scaling",
    "BinwiseShift": "calibrators.binary.two_stage",
    "CalibrantWarning": "messages",
    "CalibratedClassifier": "calibrators.classifier",
    "Calibration": "calibration",
    "CanonicalValidityDisplay": "displays",
    "Certificate": "guarantees.certificate",
    "ClassAutoCalibrator": "calibrators.multiclass.auto",
    "ClassErrorDisplay": "displays",
    "ClassWiseDisplay": "displays",
    "ClassWiseHistogramBinning": "calibrators.multiclass.binning",
    "CrossVennAbers": "calibrators.cross_venn_abers",
    "DirichletScaling": "calibrators.multiclass.scaling",
    "DocumentError": "export.errors",
    "Grid": "numerics",
    "GroupedTally": "tallies",
    "HistogramBinning": "calibrators.binary.binning",
    "InputError": "messages",
    "IsotonicBinning": "calibrators.binary.isotonic",
    "IsotonicCalibrator": "calibrators.binary.isotonic",
    "LabelShift": "shift",
    "LogitShift": "calibrators.binary.scaling",
    "MapDisplay": "displays",
    "MatrixScaling": "calibrators.multiclass.scaling",
    "ParityError": "export.errors",
    "PathCalibrator": "calibrators.multiclass.hierarchy",
    "PlanDisplay": "displays",
    "PlattScaling": "calibrators.binary.scaling",
    "Reduction": "calibrators.multiclass.reduction",
    "Refusal": "guarantees.refusal",
    "ReliabilityDisplay": "displays",
    "SamplingCorrection": "shift",
    "ScalingBinning": "calibrators.binary.two_stage",
    "SegmentCalibrator": "calibrators.segments",
    "SimplexBinning": "calibrators.multiclass.simplex",
    "SimplexDisplay": "displays",
    "SplineCalibrator": "calibrators.binary.spline",
    "StructuredScaling": "calibrators.multiclass.scaling",
    "Tally": "tallies",
    "TallyStore": "engine",
    "Taxonomy": "maps",
    "TemperatureScaling": "calibrators.temperature",
    "TopLabelDisplay": "displays",
    "TopLabelHistogramBinning": "calibrators.multiclass.binning",
    "ValidityDisplay": "displays",
    "VectorScaling": "calibrators.multiclass.scaling",
    "VennAbers": "calibrators.binary.venn_abers",
    "Verdict": "verdict",
    "bayes_action": "decisions",
    "calibrate": "calibrators.calibrate",
    "check": "verdict",
    "compare": "verdict",
    "crossfit": "calibrators.crossfit",
    "displays": "",
    "label_shift": "shift",
    "load": "calibration",
    "mature": "maturity",
    "mean_rate": "shift",
    "metrics": "",
    "notions": "",
    "online": "",
    "plan": "guarantees.planning",
    "report": "reporting",
    "shift_to": "shift",
    "split": "selection.split",
    "tally": "engine",
    "threshold": "decisions",
    "verify": "export.verify",
    "walk_forward": "selection.split",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing the package stays as cheap as importing numpy."""
    if name == "__version__":
        return import_module("calibrant.guarantees.provenance").library_version()
    if name not in _HOMES:
        raise AttributeError(f"module 'calibrant' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(import_module(f"calibrant.{home}"), name) if home else import_module(f"calibrant.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return [*__all__, "__version__"]
