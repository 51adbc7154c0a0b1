"""Online calibration: forecasters that learn from each outcome, adaptive and safe against adversaries."""

from importlib import import_module
from typing import Any

from calibrant.messages import MissingPackage, public_names
from calibrant.online.base import Forecaster, RowByRow, resume
from calibrant.online.classes.forecasters import OnlineMulticlass
from calibrant.online.classes.scaling import OnlineTemperature, OnlineVector
from calibrant.online.compiled import KernelForecaster
from calibrant.online.experts.aggregated import Aggregated
from calibrant.online.experts.as_is import Identity
from calibrant.online.experts.gradient import OnlineGradient
from calibrant.online.experts.improper import Aioli
from calibrant.online.experts.newton import OnlineBeta, OnlinePlatt
from calibrant.online.experts.restarts import Restarting
from calibrant.online.experts.windows import Refitted
from calibrant.online.games.foster import Foster99, TwoChoices
from calibrant.online.games.hedging import Hedging
from calibrant.online.games.multi import MultiExpert
from calibrant.online.games.prepared import PreparedFoster
from calibrant.online.games.tracking import Tracking
from calibrant.online.intervals.adaptive import AdaptiveIntervals
from calibrant.online.intervals.base import IntervalForecaster
from calibrant.online.intervals.tracking import QuantileTracking
from calibrant.online.parity.predictive import (
    CdfForecast,
    GaussianForecast,
    Predictive,
    QuantileForecast,
    SampleForecast,
)
from calibrant.online.parity.quantile_error import quantile_calibration_error, threshold_calibration_error
from calibrant.online.parity.results import DecisionResult, ParityResult, ParityTable
from calibrant.online.parity.stream import ParityStream, parity_stream
from calibrant.online.regression.calibrated import CalibratedRegression
from calibrant.online.regression.ridge import OnlineRidge
from calibrant.online.settings import read_only
from calibrant.online.stored import register

__all__ = [
    "AdaptiveIntervals",
    "Aggregated",
    "Aioli",
    "CalibratedRegression",
    "CdfForecast",
    "DecisionResult",
    "Forecaster",
    "Foster99",
    "GaussianForecast",
    "Hedging",
    "Identity",
    "IntervalForecaster",
    "KernelForecaster",
    "MultiExpert",
    "OnlineBeta",
    "OnlineClassifier",
    "OnlineGradient",
    "OnlineMulticlass",
    "OnlinePlatt",
    "OnlineRidge",
    "OnlineTemperature",
    "OnlineVector",
    "ParityResult",
    "ParityStream",
    "ParityTable",
    "Predictive",
    "PreparedFoster",
    "QuantileForecast",
    "QuantileTracking",
    "Refitted",
    "Restarting",
    "RiverClassifier",
    "RowByRow",
    "SampleForecast",
    "Tracking",
    "TwoChoices",
    "parity_stream",
    "quantile_calibration_error",
    "read_only",
    "register",
    "resume",
    "threshold_calibration_error",
]

__dir__ = public_names(__all__)

# Adapters import their library on first use: scikit-learn, and river, which is optional.
_ADAPTERS = {"OnlineClassifier": "scikit_learn", "RiverClassifier": "river"}


def __getattr__(name: str) -> Any:
    """Import an adapter on first use."""
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'calibrant.online' has no attribute {name!r}")
    try:
        return getattr(import_module(f"calibrant.online.adapters.{_ADAPTERS[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "river":
            raise
        raise MissingPackage("RiverClassifier", "river", "river") from None
