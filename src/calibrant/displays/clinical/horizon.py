"""Plot of a validation at a horizon: predicted and observed risk, with censored follow-up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.clinical.horizon import SurvivalValidation
from calibrant.clinical.survival import validate_survival
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.messages import plural
from calibrant.metrics.estimates import plain
from calibrant.numerics import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class HorizonDisplay(Display):
    """Calibration plot at a horizon: a smooth curve with its 95 % band, and the observed risk by bin of predicted risk.

    The curve is a restricted cubic spline fitted with weights for censoring. Points are Kaplan-Meier or Aalen-Johansen
    estimates at the horizon, with 95 % intervals.

    Parameters
    ----------
    validation
        The result of :func:`calibrant.clinical.validate_survival`.

    Notes
    -----
    Edge cases: without a curve (one outcome, separated classes) the points alone are drawn; a bin whose follow-up ends
    before the horizon has no point.
    Guarantee: no finite-sample guarantee; the band is pointwise. Cost: that of the validation.
    Reference: McLernon et al. (2023), Assessing performance and clinical usefulness in prediction models with survival
    outcomes.

    Attributes
    ----------
    validation
        As passed.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.uniform(0.05, 0.6, 500)
    >>> death, end = rng.exponential(5 / -np.log1p(-risk)), rng.uniform(1, 12, 500)
    >>> display = HorizonDisplay.from_follow_up(risk, np.minimum(death, end), death <= end, horizon=5)
    >>> len(display.data["bins"])
    10
    """

    size = (5.0, 5.0)

    def __init__(self, validation: SurvivalValidation) -> None:
        self.validation = validation

    @classmethod
    def from_follow_up(
        cls, scores: Column, time: Column, event: Column, *, horizon: float, **options: Any
    ) -> HorizonDisplay:
        """Validate at a horizon; draw the result with :meth:`plot`.

        Parameters
        ----------
        scores, time, event, horizon
            As in :func:`calibrant.clinical.validate_survival`.
        **options
            Further options of that function.

        Returns
        -------
        HorizonDisplay
            The computed plot.
        """
        return cls(validate_survival(scores, time, event, horizon=horizon, **options))

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        curve = self.validation.curve
        names = ("scores", "rates", "low", "high")
        return {
            "display": "horizon",
            "horizon": self.validation.horizon,
            "curve": {name: plain(getattr(curve, name)) for name in names},
            "bins": [each.to_dict() for each in self.validation.bins],
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        found = self.validation
        ratio = found.observed_over_expected
        ends = "" if ratio.low is None else f" (95 % CI {ratio.low:.2f} to {ratio.high:.2f})"
        return (
            f"{plural(found.rows, 'row')}, {plural(found.events, 'event')} by time {found.horizon:g}, {found.lost:,} "
            f"censored before.\nO/E {ratio.value:.2f}{ends}. Band and bars: 95 %, pointwise."
        )

    def _draw_on(self, ax: Axes) -> None:
        found, curve = self.validation, self.validation.curve
        bins = [each for each in found.bins if math.isfinite(each.observed)]
        values = [value for each in bins for value in (each.predicted, each.observed, each.high or 0.0)]
        most = min(1.0, 1.05 * max([float(curve.scores.max()), *values]))
        ax.plot([0.0, most], [0.0, most], **style.GUIDE_LINE, zorder=1)
        if curve.low is not None and curve.high is not None:
            ax.fill_between(curve.scores, curve.low, curve.high, **style.shade(ax, style.color(ax, 0)), zorder=1)
        ax.plot(curve.scores, curve.rates, color=style.color(ax, 0), linewidth=1.8, zorder=2, label="smooth curve")
        for each in bins:
            if each.low is not None and each.high is not None:
                ax.plot([each.predicted] * 2, [each.low, each.high], color=style.ink(ax), linewidth=1.0, zorder=3)
        x, y = (np.array([getattr(each, name) for each in bins]) for name in ("predicted", "observed"))
        ax.plot(x, y, "o", color=style.ink(ax), markersize=4.5, zorder=4, label="observed, by bin")
        scale = style.Linear((0.0, most))
        scale.set(ax, "x")
        scale.set(ax, "y")
        ax.set_xlabel(f"Predicted risk by time {found.horizon:g}")
        ax.set_ylabel("Observed risk")
        style.place_legend(ax, [(curve.scores, curve.rates), (x, y)])
        self._head(ax, "Calibration at the horizon")


display_of.register(SurvivalValidation, HorizonDisplay)
