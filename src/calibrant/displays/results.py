"""The display of each result that has a picture: what ``result.plot()`` draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.abstention.coverage import RiskCoverage
from calibrant.calibration import Calibration
from calibrant.clinical.clusters import ClusterValidation
from calibrant.clinical.decisions import DecisionBand
from calibrant.clinical.horizon import SurvivalValidation
from calibrant.clinical.validation import Validation
from calibrant.conformal.distributions.recalibration import DistributionCalibration
from calibrant.conformal.sets import PredictionSets
from calibrant.credit.panel import GradePanel
from calibrant.displays.base import Display
from calibrant.displays.clinical.forest import ForestDisplay
from calibrant.displays.clinical.horizon import HorizonDisplay
from calibrant.displays.decisions import DecisionCurveDisplay
from calibrant.displays.distribution import DistributionDisplay
from calibrant.displays.lights import GradeLightsDisplay
from calibrant.displays.live.backtest import BacktestDisplay
from calibrant.displays.live.monitor import MonitorDisplay
from calibrant.displays.map import MapDisplay
from calibrant.displays.multiclass.error import MulticlassErrorDisplay
from calibrant.displays.plan import PlanDisplay
from calibrant.displays.prediction_sets import PredictionSetsDisplay
from calibrant.displays.reliability import CurveKind, ReliabilityDisplay
from calibrant.displays.risk_coverage import RiskCoverageDisplay
from calibrant.displays.trade_off import TradeOffDisplay
from calibrant.displays.validity import ValidityDisplay
from calibrant.guarantees.planning import Plan
from calibrant.live.monitor import Monitor
from calibrant.live.replay.result import Backtest
from calibrant.messages import Drawn, InputError
from calibrant.metrics.binary.net_benefit import DecisionCurve
from calibrant.metrics.binary.validity import ValidityCurve
from calibrant.metrics.multiclass.errors import MulticlassErrors
from calibrant.metrics.properties import TradeOff


def display_of(result: Drawn) -> Display:
    """The display of a result, to be drawn with its ``plot``."""
    return next(DISPLAYS[cls] for cls in type(result).__mro__ if cls in DISPLAYS)(result)


def _validation(found: Validation) -> ReliabilityDisplay:
    if found.tally is None:
        raise InputError("validation", "does not hold its rows", "plot what calibrant.clinical.validate returned")
    curve: CurveKind = "isotonic" if found.curve == "lowess" else found.curve  # which has no band to draw
    return ReliabilityDisplay.from_predictions(found.tally, curve=curve)


def _band(found: DecisionBand) -> DecisionCurveDisplay:
    unknown = np.full(len(found.thresholds), np.nan)
    curve = DecisionCurve(found.thresholds, found.model, unknown, found.treat_all)
    return DecisionCurveDisplay({"model": curve}, {"model": (found.band_low, found.band_high)})


def _errors(found: MulticlassErrors) -> MulticlassErrorDisplay:
    counted = bool((found.rows == np.floor(found.rows)).all())
    return MulticlassErrorDisplay({"": found}, notion=found.notion, counted=counted)


def _plan(found: Plan) -> PlanDisplay:
    if found.notion is not None:
        raise InputError("plan", "is for several classes", "draw the bins of one class: PlanDisplay.from_sizes")
    given: dict[str, Any] = {"alpha": found.alpha, "coverage": found.coverage, "scheme": found.scheme}
    drawn = PlanDisplay.from_sizes([found.n], max_bins=max(100, round(1.6 * found.n_bins)), **given)
    return PlanDisplay(drawn.plans, chosen=[found])


DISPLAYS: dict[type, Callable[[Any], Display]] = {
    Backtest: BacktestDisplay.from_backtest,
    Calibration: MapDisplay.from_map,
    ClusterValidation: ForestDisplay,
    DecisionBand: _band,
    DecisionCurve: lambda curve: DecisionCurveDisplay({"model": curve}),
    DistributionCalibration: DistributionDisplay,
    GradePanel: GradeLightsDisplay,
    Monitor: MonitorDisplay.from_monitor,
    MulticlassErrors: _errors,
    Plan: _plan,
    PredictionSets: PredictionSetsDisplay,
    RiskCoverage: RiskCoverageDisplay,
    SurvivalValidation: HorizonDisplay,
    TradeOff: TradeOffDisplay,
    Validation: _validation,
    ValidityCurve: ValidityDisplay.from_curves,
}
"""The display of a result, by its class."""
