"""Calibration of predictive distributions: the share of ranks up to each level, with a band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.conformal import DistributionCalibration, recalibrate_distributions
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 201


class DistributionDisplay(Display):
    """Share of outcomes whose rank F(y) in the forecasts is at or below each level, with a band for all levels at once.

    Forecasts that are calibrated have a curve near the diagonal: 30 % of the outcomes have a rank of at most 30 %. A
    curve that is flat in the middle, above the diagonal at the left and below it at the right, shows distributions that
    are too narrow.

    Notes
    -----
    Edge cases: distributions with jumps, such as those of counts, have a curve below the diagonal also if they are
    right; ``calibration.rejects`` takes that into account.
    Guarantee: finite-sample for the band, at all levels at once, if rows are independent draws of one population.
    Cost: one sort. Reference: Gneiting et al. (2007); Massart (1990) for the band.

    Attributes
    ----------
    calibration
        The numbers.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> from calibrant.online import GaussianForecast
    >>> display = DistributionDisplay.from_predictions(GaussianForecast(np.zeros(4), 1.0), [-1.0, 0.0, 0.0, 1.0])
    >>> display.data["share"][100]  # at the median
    0.75
    """

    size = (5.2, 5.0)

    def __init__(self, calibration: DistributionCalibration) -> None:
        self.calibration = calibration
        self._levels = np.linspace(0.0, 1.0, POINTS)

    @classmethod
    def from_predictions(cls, forecast: Any, y: ArrayLike, *, alpha: float = 0.1) -> DistributionDisplay:
        """Compute the curve; draw it with :meth:`plot`.

        Parameters
        ----------
        forecast, y, alpha
            As in :func:`calibrant.conformal.recalibrate_distributions`.
        """
        return cls(recalibrate_distributions(forecast, y, alpha=alpha))

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        found, share = self.calibration, self.calibration.map.apply(self._levels)
        low, high = found.band(self._levels)
        curve = {"level": self._levels.tolist(), "share": share.tolist(), "low": low.tolist(), "high": high.tolist()}
        return {"display": "distribution", **curve, "n": found.n, "alpha": found.alpha, "rejects": found.rejects}

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        sure = style.percent(1.0 - self.calibration.alpha, 4)
        finding = "not calibrated" if self.calibration.rejects else "no sign of miscalibration"
        return f"{self.calibration.n:,} rows. Band: {sure}, at all levels at once. Forecasts: {finding}."

    def _draw_on(self, ax: Axes) -> None:
        share = self.calibration.map.apply(self._levels)
        low, high = self.calibration.band(self._levels)
        ax.plot([0, 1], [0, 1], color=style.GUIDE, linewidth=1.2, linestyle=(0, (5, 2)), zorder=1, label="calibrated")
        ax.fill_between(self._levels, low, high, color=style.COLORS[0], alpha=0.2, linewidth=0, zorder=2, label="band")
        ax.plot(self._levels, share, color=style.COLORS[0], linewidth=1.6, zorder=3, label="ranks")
        for which in ("x", "y"):
            style.percent_axis(ax, which, 0.0, 1.0, room=0.02)
        ax.set_xlabel("Rank F(y)")
        ax.set_ylabel("Outcomes up to this rank")
        self._head(ax, "Calibration of distributions")
        style.place_legend(ax, [(self._levels, share), (self._levels, low), (self._levels, high)])


display_of.register(DistributionCalibration, DistributionDisplay)
