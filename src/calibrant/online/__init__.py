"""Online calibration: forecasters that learn from each outcome, adaptive and safe against adversaries."""

from importlib import import_module
from typing import Any

from calibrant.online.as_is import AsIs
from calibrant.online.base import Forecaster, resume
from calibrant.online.classes import OnlineClasses, OnlineTemperature
from calibrant.online.foster import Foster99, TwoChoices
from calibrant.online.hedging import Hedging
from calibrant.online.improper import Aioli
from calibrant.online.kernel_forecaster import KernelForecaster
from calibrant.online.multi import MultiExpert
from calibrant.online.newton import OnlineBeta, OnlinePlatt
from calibrant.online.parity import ParityStream, parity_stream
from calibrant.online.parity_results import DecisionResult, ParityResult, ParityTable
from calibrant.online.predictive import (
    CdfForecast,
    GaussianForecast,
    Predictive,
    QuantileForecast,
    SampleForecast,
)
from calibrant.online.quantile_error import quantile_calibration_error
from calibrant.online.regression import CalibratedRegression
from calibrant.online.restarts import Restarting
from calibrant.online.tracking import Tracking
from calibrant.online.windows import Refitted

__all__ = [
    "Aioli",
    "AsIs",
    "CalibratedRegression",
    "CdfForecast",
    "DecisionResult",
    "Forecaster",
    "Foster99",
    "GaussianForecast",
    "Hedging",
    "KernelForecaster",
    "MultiExpert",
    "OnlineBeta",
    "OnlineClasses",
    "OnlineClassifier",
    "OnlinePlatt",
    "OnlineTemperature",
    "ParityResult",
    "ParityStream",
    "ParityTable",
    "Predictive",
    "QuantileForecast",
    "Refitted",
    "Restarting",
    "RiverClassifier",
    "SampleForecast",
    "Tracking",
    "TwoChoices",
    "parity_stream",
    "quantile_calibration_error",
    "resume",
]

# Adapters load what they adapt to when they are first used: scikit-learn, and river, which need not be there.
_ADAPTERS = {"OnlineClassifier": "classifier", "RiverClassifier": "river"}


def __getattr__(name: str) -> Any:
    """Load an adapter when it is first used."""
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'calibrant.online' has no attribute {name!r}")
    try:
        return getattr(import_module(f"calibrant.online.{_ADAPTERS[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "river":
            raise
        raise ImportError("RiverClassifier needs river: pip install river") from None
