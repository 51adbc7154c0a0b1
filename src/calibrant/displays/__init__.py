"""Plots: each display first computes its numbers (``data``), then draws them with ``plot``."""

from calibrant.displays.base import display_of as display_of
from calibrant.displays.clinical.forest import ForestDisplay
from calibrant.displays.clinical.horizon import HorizonDisplay
from calibrant.displays.decisions import DecisionCurveDisplay
from calibrant.displays.distribution import DistributionDisplay
from calibrant.displays.lights import GradeLightsDisplay
from calibrant.displays.live.backtest import BacktestDisplay
from calibrant.displays.live.monitor import MonitorDisplay
from calibrant.displays.map import MapDisplay
from calibrant.displays.multiclass.error import MulticlassErrorDisplay
from calibrant.displays.multiclass.panels import ClasswiseDisplay
from calibrant.displays.multiclass.reliability import TopLabelBinDisplay, TopLabelDisplay
from calibrant.displays.multiclass.simplex import CanonicalValidityDisplay, SimplexDisplay
from calibrant.displays.parity import ParityDisplay
from calibrant.displays.plan import PlanDisplay
from calibrant.displays.prediction_sets import PredictionSetsDisplay
from calibrant.displays.reliability import ReliabilityDisplay
from calibrant.displays.risk_coverage import RiskCoverageDisplay
from calibrant.displays.trade_off import TradeOffDisplay
from calibrant.displays.validity import ValidityDisplay
from calibrant.messages import public_names

__all__ = [
    "BacktestDisplay",
    "CanonicalValidityDisplay",
    "ClasswiseDisplay",
    "DecisionCurveDisplay",
    "DistributionDisplay",
    "ForestDisplay",
    "GradeLightsDisplay",
    "HorizonDisplay",
    "MapDisplay",
    "MonitorDisplay",
    "MulticlassErrorDisplay",
    "ParityDisplay",
    "PlanDisplay",
    "PredictionSetsDisplay",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SimplexDisplay",
    "TopLabelBinDisplay",
    "TopLabelDisplay",
    "TradeOffDisplay",
    "ValidityDisplay",
]

__dir__ = public_names(__all__)
