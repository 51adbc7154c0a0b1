"""Calibrant: probabilities that mean what they say, with a proof of how far off they can be."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where each public name lives; "" for a sub-package that is public itself.
_HOMES = {
    "AutoCalibrator": "calibrators.select",
    "BayesianBinning": "calibrators.bayesian",
    "BetaScaling": "calibrators.parametric",
    "BinwiseShift": "calibrators.scale_bin",
    "CalibrantWarning": "arrays",
    "CalibratedClassifier": "calibrators.classifier",
    "Calibration": "export.document",
    "CanonicalValidityDisplay": "displays",
    "Certificate": "guarantees.certificates",
    "ClassAutoCalibrator": "calibrators.class_select",
    "ClassCalibration": "export.class_document",
    "ClassCertificate": "guarantees.class_certificates",
    "ClassErrorDisplay": "displays",
    "ClassWiseDisplay": "displays",
    "ClassWiseHistogramBinning": "calibrators.class_binning",
    "CrossVennAbers": "calibrators.cross_venn",
    "DirichletScaling": "calibrators.class_scaling",
    "DocumentError": "export.errors",
    "Grid": "numerics",
    "GroupedTally": "tallies",
    "HistogramBinning": "calibrators.binning",
    "InputError": "arrays",
    "IsotonicBinning": "calibrators.isotonic",
    "IsotonicCalibrator": "calibrators.isotonic",
    "LabelShift": "shift",
    "LogitShift": "calibrators.parametric",
    "MapDisplay": "displays",
    "MatrixScaling": "calibrators.class_scaling",
    "ParityError": "export.errors",
    "PathCalibrator": "calibrators.hierarchy",
    "PlanDisplay": "displays",
    "PlattScaling": "calibrators.parametric",
    "Reduction": "calibrators.reduction",
    "Refusal": "guarantees.certificates",
    "ReliabilityDisplay": "displays",
    "SamplingCorrection": "shift",
    "ScalingBinning": "calibrators.scale_bin",
    "SegmentCalibrator": "calibrators.segments",
    "SimplexBinning": "calibrators.simplex",
    "SimplexDisplay": "displays",
    "SplineCalibrator": "calibrators.spline",
    "StructuredScaling": "calibrators.class_scaling",
    "Tally": "tallies",
    "TallyStore": "engine",
    "Taxonomy": "maps",
    "TemperatureScaling": "calibrators.parametric",
    "TopLabelDisplay": "displays",
    "TopLabelHistogramBinning": "calibrators.class_binning",
    "ValidityDisplay": "displays",
    "VectorScaling": "calibrators.class_scaling",
    "VennAbers": "calibrators.venn_abers",
    "Verdict": "verdict",
    "bayes_action": "decisions",
    "calibrate": "calibrators.calibrate",
    "check": "verdict",
    "compare": "verdict",
    "crossfit": "calibrators.crossfit",
    "label_shift": "shift",
    "load": "export.document",
    "mature": "maturity",
    "mean_rate": "shift",
    "metrics": "",
    "notions": "",
    "online": "",
    "plan": "guarantees.planning",
    "report": "reporting",
    "shift_to": "shift",
    "split": "calibrators.splitting",
    "tally": "engine",
    "threshold": "decisions",
    "verify": "export.verifying",
    "walk_forward": "calibrators.splitting",
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
