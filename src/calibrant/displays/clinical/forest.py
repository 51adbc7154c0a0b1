"""Forest plots: a measure by cluster, its pooled value, and what to expect in a new cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.clinical.clusters import SCALES, ClusterValidation, validate_clusters
from calibrant.clinical.tables import interval_text, number
from calibrant.clinical.validation import MEASURES
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.messages import InputError, plural
from calibrant.reading import located

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Measure = Literal["observed_over_expected", "intercept", "slope", "c_statistic"]

MOST_CLUSTERS = 60
"""Clusters that a plot can show."""
TICKS = {
    1.2: (0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15),
    2.6: (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 2.0),
    6.0: (0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0),
    100.0: (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
    math.inf: (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0),
}
"""Ticks of an axis of ratios, by the ratio of its ends, at most."""


def ratio_axis(ax: Axes) -> None:
    """Ticks of a logarithmic horizontal axis of ratios around 1."""
    low, high = ax.get_xlim()
    ticks = [each for each in next(some for most, some in TICKS.items() if high / low <= most) if low <= each <= high]
    ax.minorticks_off()
    ax.set_xticks(ticks, [f"{each:g}" for each in ticks])


class ForestDisplay(Display):
    r"""Forest plot of a validation by cluster: estimates with 95 % intervals, pooled value and prediction interval.

    Each square is the estimate of one cluster, its area follows the weight :math:`1 / (v_j + \tau^2)` of the cluster in
    the pooled value, and the line is its 95 % interval. The diamond is the pooled value with its 95 % interval; the
    line through it is the 95 % prediction interval, where the true value of a new cluster is expected.

    Parameters
    ----------
    validation
        The result of :func:`calibrant.clinical.validate_clusters`.
    measure
        ``"observed_over_expected"``, ``"intercept"``, ``"slope"`` or ``"c_statistic"``.

    Notes
    -----
    Edge cases: a cluster without an estimate is named, without a square. At most 60 clusters are drawn.
    Guarantee: no finite-sample guarantee; see :func:`calibrant.clinical.random_effects`. Cost: that of the validation.
    Reference: Riley et al. (2016), External validation of clinical prediction models using big datasets.

    Attributes
    ----------
    validation, measure
        As passed.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> hospital, risk = np.repeat(list("ABCD"), 200), rng.beta(1.0, 3.0, 800)
    >>> display = ForestDisplay.from_predictions(risk, rng.random(800) < risk, groups=hospital)
    >>> display.data["pooled"]["clusters"]
    4
    """

    def __init__(self, validation: ClusterValidation, measure: Measure = "slope") -> None:
        check_option("measure", measure, get_args(Measure))
        if len(validation.clusters) > MOST_CLUSTERS:
            raise InputError(
                "validation",
                f"has {len(validation.clusters)} clusters",
                f"draw at most {MOST_CLUSTERS}, such as the largest; the table has all of them",
            )
        self.validation, self.measure = validation, measure
        self.size = (5.6, max(2.6, 1.5 + 0.24 * (len(validation.clusters) + 1)))

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        measure: Measure = "slope",
    ) -> ForestDisplay:
        """Validate by cluster, and draw one measure with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, groups
            As in :func:`calibrant.clinical.validate_clusters`.
        measure
            The measure to draw.

        Returns
        -------
        ForestDisplay
            The computed plot.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        return cls(validate_clusters(scores, y, sample_weight, groups=groups), measure)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        lines = [
            {"cluster": str(each.cluster), "participants": each.participants, "events": each.events, **self._ends(each)}
            for each in self.validation.clusters
        ]
        pooled = self.validation.pooled.get(self.measure)
        return {
            "display": "forest",
            "measure": self.measure,
            "clusters": lines,
            "pooled": None if pooled is None else pooled.to_dict(),
        }

    def _ends(self, row: Any) -> dict[str, float | None]:
        found = getattr(row, self.measure)
        values = {"value": found.value, "low": found.low, "high": found.high}
        return {name: None if each is None or not math.isfinite(each) else float(each) for name, each in values.items()}

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        pooled = self.validation.pooled.get(self.measure)
        head = f"{plural(len(self.validation.clusters), 'cluster')}."
        if pooled is None:
            return f"{head} No pooled value: no cluster has enough events."
        text = f"{head} Pooled {number(pooled.value)} (95 % CI {interval_text(pooled.low, pooled.high)})."
        if math.isnan(pooled.prediction_low):
            return text
        expected = interval_text(pooled.prediction_low, pooled.prediction_high)
        return f"{text}\nNew cluster: 95 % prediction interval {expected}."

    def _draw_on(self, ax: Axes) -> None:
        lines = self.data["clusters"]
        ideal = MEASURES[self.measure][1]
        places = np.arange(len(lines), 0, -1.0)
        pooled = self.validation.pooled.get(self.measure)
        widths = [each["high"] - each["low"] for each in lines if None not in (each["low"], each["high"])]
        for place, each in zip(places, lines, strict=True):
            if each["value"] is None:
                continue
            side = 3.0
            if None not in (each["low"], each["high"]):
                ax.plot([each["low"], each["high"]], [place, place], color=style.color(ax, 0), linewidth=1.1, zorder=2)
                tau = 0.0 if pooled is None or not pooled.tau2 >= 0.0 else pooled.tau2
                side = 9.0 * math.sqrt(self._weight(each, tau) / max(self._weight(one, tau) for one in lines))
            ax.plot(each["value"], place, "s", color=style.color(ax, 0), markersize=max(side, 2.5), zorder=3)
        if pooled is not None:
            if not math.isnan(pooled.prediction_low):
                ends = [pooled.prediction_low, pooled.prediction_high]
                ax.plot(ends, [0.0, 0.0], color=style.ink(ax), linewidth=1.1, zorder=2)
            corners = ([pooled.low, pooled.value, pooled.high, pooled.value], [0.0, 0.3, 0.0, -0.3])
            ax.fill(*corners, color=style.ink(ax), zorder=3)
        if ideal is not None:
            ax.axvline(ideal, **style.GUIDE_LINE, zorder=1)
        if self.measure == "observed_over_expected":
            ax.set_xscale("log")
            ratio_axis(ax)
        elif widths:
            low, high = self._limits(lines, pooled)
            ax.set_xlim(low, high)
        names = [f"{style.short(each['cluster'])} ({each['events']}/{each['participants']})" for each in lines]
        ax.set_yticks([*places, 0.0], [*names, "pooled"])
        ax.set_ylim(-0.8, len(lines) + 0.8)
        ax.set_xlabel(MEASURES[self.measure][0])
        name = MEASURES[self.measure][0]
        self._head(ax, f"{name[0].upper()}{name[1:]} by cluster (events / participants)")

    def _weight(self, line: dict[str, Any], tau2: float) -> float:
        """Weight in the pooled value, from the interval on the scale of pooling."""
        into = SCALES[self.measure].into
        if None in (line["low"], line["high"]):
            return 0.0
        return 1.0 / (((into(line["high"]) - into(line["low"])) / 3.92) ** 2 + tau2 + 1e-12)

    @staticmethod
    def _limits(lines: list[dict[str, Any]], pooled: Any) -> tuple[float, float]:
        """Range of the axis: estimates and pooled intervals, and the lines of clusters up to twice that range."""
        values = [each["value"] for each in lines if each["value"] is not None]
        if pooled is not None:
            values += [pooled.low, pooled.high, pooled.prediction_low, pooled.prediction_high]
        values = [each for each in values if math.isfinite(each)]
        low, high = min(values), max(values)
        room = max(high - low, 1e-3)
        ends = [each[name] for each in lines for name in ("low", "high") if each[name] is not None]
        return max(min(ends), low - room) - 0.05 * room, min(max(ends), high + room) + 0.05 * room


display_of.register(ClusterValidation, ForestDisplay)
