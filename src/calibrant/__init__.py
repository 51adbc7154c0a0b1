"""Calibrant: probabilities that mean what they say, with a proof of how far off they can be."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant import abstention as abstention
    from calibrant import calibrators as calibrators
    from calibrant import clinical as clinical
    from calibrant import conformal as conformal
    from calibrant import credit as credit
    from calibrant import decisions as decisions
    from calibrant import displays as displays
    from calibrant import engine as engine
    from calibrant import live as live
    from calibrant import maps as maps
    from calibrant import metrics as metrics
    from calibrant import multiclass as multiclass
    from calibrant import notions as notions
    from calibrant import online as online
    from calibrant import shift as shift
    from calibrant.calibration import Calibration as Calibration
    from calibrant.calibration import load as load
    from calibrant.calibrators.auto import AutoCalibrator as AutoCalibrator
    from calibrant.calibrators.binary.binning import HistogramBinning as HistogramBinning
    from calibrant.calibrators.binary.isotonic import IsotonicCalibrator as IsotonicCalibrator
    from calibrant.calibrators.binary.scaling import BetaScaling as BetaScaling
    from calibrant.calibrators.binary.scaling import PlattScaling as PlattScaling
    from calibrant.calibrators.binary.spline import SplineCalibrator as SplineCalibrator
    from calibrant.calibrators.binary.venn_abers import VennAbers as VennAbers
    from calibrant.calibrators.calibrate import calibrate as calibrate
    from calibrant.calibrators.classifier import CalibratedClassifier as CalibratedClassifier
    from calibrant.calibrators.crossfit import crossfit as crossfit
    from calibrant.calibrators.segments import SegmentCalibrator as SegmentCalibrator
    from calibrant.calibrators.temperature import TemperatureScaling as TemperatureScaling
    from calibrant.calibrators.trees import CalibrationTree as CalibrationTree
    from calibrant.calibrators.trees import ProbabilityCalibrationTree as ProbabilityCalibrationTree
    from calibrant.displays import ReliabilityDisplay as ReliabilityDisplay
    from calibrant.engine import TallyStore as TallyStore
    from calibrant.engine import tally as tally
    from calibrant.export.errors import DocumentError as DocumentError
    from calibrant.export.errors import ExportMismatchError as ExportMismatchError
    from calibrant.export.verify import verify as verify
    from calibrant.guarantees.certificate import Certificate as Certificate
    from calibrant.guarantees.no_certificate import NoCertificate as NoCertificate
    from calibrant.guarantees.planning import plan as plan
    from calibrant.messages import CalibrantWarning as CalibrantWarning
    from calibrant.messages import InputError as InputError
    from calibrant.reporting import report as report
    from calibrant.selection.split import split_rows as split_rows
    from calibrant.selection.split import walk_forward as walk_forward
    from calibrant.shift import SamplingCorrection as SamplingCorrection
    from calibrant.tallies import Tally as Tally
    from calibrant.verdict import Verdict as Verdict
    from calibrant.verdict import check as check
    from calibrant.verdict import compare as compare

    __version__: str

# Where each public name lives; "" for a namespace that is public itself.
_HOMES = {
    "AutoCalibrator": "calibrators.auto",
    "BetaScaling": "calibrators.binary.scaling",
    "CalibrantWarning": "messages",
    "CalibratedClassifier": "calibrators.classifier",
    "Calibration": "calibration",
    "CalibrationTree": "calibrators.trees",
    "Certificate": "guarantees.certificate",
    "DocumentError": "export.errors",
    "ExportMismatchError": "export.errors",
    "HistogramBinning": "calibrators.binary.binning",
    "InputError": "messages",
    "IsotonicCalibrator": "calibrators.binary.isotonic",
    "NoCertificate": "guarantees.no_certificate",
    "PlattScaling": "calibrators.binary.scaling",
    "ProbabilityCalibrationTree": "calibrators.trees",
    "ReliabilityDisplay": "displays",
    "SamplingCorrection": "shift",
    "SegmentCalibrator": "calibrators.segments",
    "SplineCalibrator": "calibrators.binary.spline",
    "Tally": "tallies",
    "TallyStore": "engine",
    "TemperatureScaling": "calibrators.temperature",
    "VennAbers": "calibrators.binary.venn_abers",
    "Verdict": "verdict",
    "abstention": "",
    "calibrate": "calibrators.calibrate",
    "calibrators": "",
    "check": "verdict",
    "clinical": "",
    "compare": "verdict",
    "conformal": "",
    "credit": "",
    "crossfit": "calibrators.crossfit",
    "decisions": "",
    "displays": "",
    "engine": "",
    "live": "",
    "load": "calibration",
    "maps": "",
    "metrics": "",
    "multiclass": "",
    "notions": "",
    "online": "",
    "plan": "guarantees.planning",
    "report": "reporting",
    "shift": "",
    "split_rows": "selection.split",
    "tally": "engine",
    "verify": "export.verify",
    "walk_forward": "selection.split",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing the package stays as cheap as importing numpy."""
    if name == "__version__":
        return import_module("calibrant.guarantees.provenance").library_version()
    if name not in _HOMES:
        raise AttributeError(f"module 'calibrant' has no attribute {name!r}{_elsewhere(name)}")
    home = _HOMES[name]
    value = getattr(import_module(f"calibrant.{home}"), name) if home else import_module(f"calibrant.{name}")
    globals()[name] = value
    return value


def _elsewhere(name: str) -> str:
    """Where a name is that was looked for here, for an error."""
    spaces = [] if name.startswith("_") else [space for space, home in _HOMES.items() if not home]
    found = [space for space in spaces if name in import_module(f"calibrant.{space}").__all__]
    return f": it is calibrant.{found[0]}.{name}" if found else ""


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return [*__all__, "__version__"]
