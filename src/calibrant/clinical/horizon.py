"""Results of a validation at a horizon: the table, the calibration curve and the risks by bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.messages import Drawn, Note, plural
from calibrant.metrics.binary.curves.recalibration import CurveErrors
from calibrant.metrics.estimates import Estimate, Result
from calibrant.notebook import table_block
from calibrant.numerics import Floats

Link = Literal["logit", "cloglog"]
"""Scale of intercept and slope."""

Method = Literal["pseudo", "ipcw"]
"""How intercept and slope are estimated: from pseudo-observations, or with weights for censoring."""


@dataclass(frozen=True)
class RiskBin(Result):
    """Rows of similar risk: mean predicted risk, observed risk at the horizon, and its 95 % interval."""

    rows: int
    events: int
    predicted: float
    observed: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class HorizonCurve(Result):
    """Calibration curve at the horizon: ``rates[i]`` at ``scores[i]``, with a pointwise 95 % band."""

    scores: Floats
    rates: Floats
    low: Floats | None = None
    high: Floats | None = None
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, eq=False)
class SurvivalValidation(Drawn, Result):
    """Calibration and discrimination of predicted risks at a horizon, with 95 % intervals.

    Attributes
    ----------
    horizon
        Time by which the event is predicted.
    rows, events, competing, lost, at_horizon
        Rows; events and competing events by the horizon; rows censored before the horizon; rows known to be free of
        events at the horizon.
    expected
        Mean predicted risk.
    observed
        Observed risk at the horizon: Kaplan-Meier, or Aalen-Johansen with competing events.
    observed_over_expected
        Their ratio; 1 is ideal, and above 1 the predicted risks are too low.
    intercept, slope, slope_intercept
        Intercept with the slope fixed at 1 (0 is ideal), slope (1 is ideal) and the intercept estimated with it, on
        the scale of ``link``.
    auc
        Area under the ROC curve at the horizon.
    brier, scaled_brier
        Brier score at the horizon, and 1 - Brier / Brier of the observed risk for everyone.
    errors
        ICI, E50, E90 and Emax of the curve; biased upward, without interval.
    curve
        Calibration curve at the horizon, with a pointwise band.
    bins
        Observed and predicted risk in bins of predicted risk.
    link, method
        Scale and method of intercept and slope.
    notes
        What the reader must know, first what is assumed about censoring.
    """

    horizon: float
    rows: int
    events: int
    competing: int
    lost: int
    at_horizon: int
    expected: float
    observed: Estimate
    observed_over_expected: Estimate
    intercept: Estimate
    slope: Estimate
    slope_intercept: Estimate
    auc: Estimate
    brier: Estimate
    scaled_brier: Estimate
    errors: CurveErrors
    curve: HorizonCurve
    bins: tuple[RiskBin, ...]
    link: Link
    method: Method
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        lines = [self._head(), f"{'':<44}{'value':>9}{'low':>9}{'high':>9}   ideal"]
        lines += [f"{name:<44}{value:>9}{low:>9}{high:>9}{ideal:>8}" for name, value, low, high, ideal in self._rows()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the notes."""
        return table_block(
            ("", "value", "low", "high", "ideal"),
            self._rows(),
            title=self._head(),
            notes=[f"  {note}" for note in self.notes],
        )

    def _head(self) -> str:
        others = f", {plural(self.competing, 'competing event')}" if self.competing else ""
        return (
            f"Risk by time {self.horizon:g}: {plural(self.rows, 'row')}, {plural(self.events, 'event')}{others}, "
            f"{self.lost:,} censored before it"
        )

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        ideals = {"observed_over_expected": "1", "intercept": "0", "slope": "1", "slope_intercept": "0"}
        rows = [("mean predicted risk", f"{self.expected:.4f}", "", "", "")]
        for key, value in vars(self).items():
            if isinstance(value, Estimate):
                ends = ("" if end is None else f"{end:.4f}" for end in (value.low, value.high))
                low, high = ends
                rows.append((value.name, f"{value.value:.4f}", low, high, ideals.get(key, "")))
        rows.append(("ICI (mean distance of the curve)", f"{self.errors.ici:.4f}", "", "", ""))
        return rows
