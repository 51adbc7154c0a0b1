"""Reliability diagrams: observed event rates against predicted probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option
from calibrant.arrays.labels import label_column
from calibrant.clinical.validation import Validation
from calibrant.displays.base import Display, calibrated_scores, check_confidence, display_of, event_scores
from calibrant.displays.drawing import style
from calibrant.displays.drawing.panels import axis_of_counts, name_halves, panel_below
from calibrant.displays.drawing.style import AxesKind, Layout, Linear, LogOdds
from calibrant.displays.rates import (
    Points,
    Series,
    Smooth,
    binned_points,
    even_edges,
    few_cells,
    few_distinct,
    informative_range,
    isotonic_points,
    smooth_curve,
)
from calibrant.maps import StepMap
from calibrant.messages import InputError, plural
from calibrant.metrics.binary.bins import Bins, GroupedScores, Strategy, grouped_or_tally, tally_of
from calibrant.metrics.variance import FEWEST_CLUSTERS
from calibrant.numerics import Floats
from calibrant.reading import located
from calibrant.tallies import Clusters, Tally

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CurveKind = Literal["isotonic", "bins", "spline", "loess"]
SMOOTH = ("spline", "loess")
"""Curves with a confidence band of their own."""

BARS = 50
"""Bars of the histogram of scores."""
FEW_EVENTS = 10
"""Number of events, or of rows without one, below which the caption says that the picture shows little."""


class ReliabilityDisplay(Display):
    r"""Reliability diagram with the expected range of a calibrated model.

    The curve is the isotonic regression of labels on scores (CORP, Dimitriadis, Gneiting and Jordan 2021),

    .. math:: \hat\pi = \arg\min_{\pi\ \text{increasing}} \sum_c n_c \Bigl(\frac{e_c}{n_c} - \pi(s_c)\Bigr)^2,

    over cells c with score :math:`s_c`, :math:`n_c` rows and :math:`e_c` events, drawn straight between scores,
    where the ten lowest and the ten highest rows (at most a tenth of them) each count as one score; or,
    with ``curve="bins"``, the event rate of each bin against its mean score. The gray band shows where the same curve
    would lie for a calibrated model: for the isotonic curve pointwise, from 500 simulated data sets with
    :math:`e_c \sim \mathrm{Binomial}(n_c, s_c)`; for bins the acceptance interval of
    :math:`\mathrm{Binomial}(n_b, \bar s_b)` (Rosenberg), which is slightly too wide if scores differ within a bin. If
    there are only few distinct scores, each is a point whose area follows the number of rows: the event rate at that
    score, not pooled, with its own acceptance interval.

    With ``curve="spline"`` the curve is smooth and has its own confidence band instead of the gray one: logistic
    regression on a restricted cubic spline of the log-odds (:func:`calibrant.metrics.calibration_curve`), with
    pointwise Wald intervals on the log-odds. Where the band excludes the diagonal, the rate differs significantly from
    the score. With ``groups`` the band allows for dependent rows, by the cluster sandwich. In simulations with 100 to
    1,700 events the 95 % band covered a smooth truth at 95 % to 96 % of the rows.
    ``curve="loess"`` is R's ``loess`` (local quadratics on three quarters of the rows), with normal intervals on the
    rates, cut at 0 and 1; they leave out the bias of smoothing.

    Guarantee: no finite-sample guarantee; each interval covers a calibrated model with probability of about
    ``confidence``, not all of them together.
    Cost: one sort, then 500 isotonic regressions of at most about 1,000 cells; under a second for 10^6 rows.

    Reference: Dimitriadis, Gneiting and Jordan (2021), sections 2 and 3; Rosenberg, reliability diagrams; Harrell
    (2015), Regression Modeling Strategies, section 2.4.5, for the spline.

    Attributes
    ----------
    series
        Numbers of each model, in the order drawn.
    curve
        ``"isotonic"``, ``"bins"``, ``"spline"`` or ``"loess"``.
    confidence
        Share of calibrated models within the gray band, at each score or bin; confidence level of a smooth curve.
    axes
        ``"linear"`` or ``"log-odds"``.
    ax_, counts_ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> display = ReliabilityDisplay.from_predictions(scores, rng.random(2000) < scores**2)
    >>> display.data["series"][0]["outside"] > 0.5
    True
    >>> print(display.caption)
    2,000 rows, 661 events (33.1 %).
    Inside the gray band: no evidence against calibration. 86 % of the rows are outside; for a calibrated model about
    10 %, or fewer.
    """

    size = (5.4, 6.2)
    counts_ax_: Axes

    def __init__(
        self,
        series: Sequence[Series],
        *,
        curve: CurveKind = "isotonic",
        confidence: float = 0.9,
        axes: AxesKind = "auto",
    ) -> None:
        check_option("curve", curve, get_args(CurveKind))
        check_option("axes", axes, get_args(AxesKind))
        self.series = tuple(series)
        self.curve = curve
        self.confidence = confidence
        first = self.series[0]
        size = float(first.cells.size.sum())
        self.axes = style.axes_kind(axes, size, size * first.events / first.rows)

    @classmethod
    def from_predictions(
        cls,
        scores: GroupedScores,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        after: Any = None,
        curve: CurveKind = "isotonic",
        n_bins: int = 10,
        strategy: Strategy | None = None,
        edges: ArrayLike | StepMap | None = None,
        acceptance: bool = False,
        confidence: float | None = None,
        axes: AxesKind = "auto",
        label: str | None = None,
        random_state: int = 0,
        groups: ArrayLike | None = None,
    ) -> ReliabilityDisplay:
        """Compute the diagram of rows, or of a :class:`Tally`; draw it with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight
            Probabilities, labels and weights, or a tally or tallies by cluster alone.
        after
            A fitted calibrator, or the scores of the same rows after calibration (or a tally of them), drawn on top.
        curve
            ``"isotonic"``, which needs no bins (few distinct scores are shown one by one), ``"bins"``, or ``"spline"``
            or ``"loess"`` for a smooth curve with its own confidence band.
        n_bins, strategy, edges
            As in :func:`calibrant.metrics.ece`, for ``"bins"`` and for ``acceptance``. By default bins have equal
            mass, and on log-odds axes equal width in log-odds, because most rare events are in the top bin by mass.
        acceptance
            Add binned rates with their acceptance intervals to an isotonic curve.
        confidence
            Share of calibrated models within the gray band, at each score or bin (90 % if left out); for a smooth curve
            the confidence level of its band (95 % if left out).
        axes
            ``"linear"``, ``"log-odds"``, or ``"auto"``: log-odds if fewer than 5 % or more than 95 % of the rows are
            events. Linear axes show only a part of 0 to 100 % if all scores and rates are in it.
        label
            Name of the model in title and legend.
        random_state
            Seed of the simulated labels.
        groups
            Cluster of each row, such as the hospital, for the band of a spline; at least ten clusters.

        Notes
        -----
        With importance weights the gray band uses the effective sample size of each cell or bin. This is an
        approximation: a calibrated model can have more than ``1 - confidence`` of its weight outside.
        """
        check_option("curve", curve, get_args(CurveKind))
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        check_option("axes", axes, get_args(AxesKind))
        if confidence is None:
            confidence = 0.95 if curve in SMOOTH else 0.9
        check_confidence(confidence)
        if groups is not None and curve != "spline":
            raise InputError("groups", "are for the confidence band of a spline", "pass curve='spline', or no groups")
        counted = scores if isinstance(scores, Clusters) else None
        given: Any = counted.tally if counted else scores
        after = calibrated_scores(after, given)
        tallies = [(label or ("" if after is None else "before"), tally_of(given, y, sample_weight))]
        if after is not None:
            tallies.append(("after", tally_of(after, *(() if isinstance(after, Tally) else (y, sample_weight)))))
        size = tallies[0][1].effective_size
        axes = style.axes_kind(axes, size, size * tallies[0][1].positives / tallies[0][1].total)
        series = []
        for name, tally in tallies:
            if few_distinct(tally):  # isotonic rates would not be the rates at these scores
                cells = binned_points(Bins.of(tally, strategy="distinct"), confidence)
            else:
                cells = isotonic_points(few_cells(tally), confidence, random_state)
            bins = None
            if curve == "bins" or acceptance:
                even = edges is None and strategy is None and axes == "log-odds"
                inner = even_edges(cells, n_bins) if even else edges
                bins = binned_points(
                    Bins.of(tally, n_bins=n_bins, strategy=strategy or "mass", edges=inner), confidence
                )
            clusters = counted if counted and curve == "spline" and counted.size >= FEWEST_CLUSTERS else None
            if groups is not None:
                clusters = _clusters(
                    after if name == "after" and after is not None else scores, y, sample_weight, groups
                )
            smooth = smooth_curve(clusters or tally, confidence, curve) if curve in SMOOTH else None
            rows, events = float(tally.total), float(tally.positives)
            series.append(Series(name, cells, bins, rows, events, tally.counts, few_distinct(tally), smooth))
        return cls(series, curve=curve, confidence=confidence, axes=axes)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        positive: Any = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Compute the diagram of a fitted classifier on rows that it was not trained on.

        Parameters
        ----------
        estimator
            A fitted classifier with ``predict_proba`` and ``classes_``.
        X, y, sample_weight
            Rows for ``predict_proba``, their labels and weights.
        positive
            The class whose probability is drawn, against the rest; by default the second of two classes.
        **options
            As in :meth:`from_predictions`.

        Returns
        -------
        ReliabilityDisplay
            The computed diagram.

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(900, 2))
        >>> y = np.where(X[:, 0] + rng.normal(size=900) > 0, "yes", "no")
        >>> model = LogisticRegression().fit(X[:300], y[:300])
        >>> ReliabilityDisplay.from_estimator(model, X[300:], y[300:]).data["series"][0]["rows"]
        600.0
        """
        scores, event = event_scores(estimator, X, positive)
        return cls.from_predictions(scores, label_column(y, "y") == event, sample_weight, **options)

    def overlay(self, other: ReliabilityDisplay, labels: Sequence[str] | None = None) -> ReliabilityDisplay:
        """Both diagrams in one plot, ``other`` on top; the gray band is that of the last curve."""
        both = (*self.series, *other.series)
        names = [one.label or f"model {place}" for place, one in enumerate(both, 1)] if labels is None else list(labels)
        if len(names) != len(both):
            raise InputError("labels", f"must have one name for each of the {len(both)} curves, got {len(names)}")
        if len(both) > len(style.COLORS):
            most = f"at most {len(style.COLORS)} curves can be distinguished"
            raise InputError("other", f"makes {len(both)} curves in one plot", most)
        if (self.curve, self.confidence) != (other.curve, other.confidence):
            raise InputError("other", "must have the same curve and confidence as this display")
        named = [replace(one, label=name) for one, name in zip(both, names, strict=True)]
        return ReliabilityDisplay(named, curve=self.curve, confidence=self.confidence, axes=self.axes)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        return {
            "display": "reliability",
            "curve": self.curve,
            "confidence": self.confidence,
            "axes": self.axes,
            "series": [
                {
                    "label": one.label,
                    "rows": one.rows,
                    "events": one.events,
                    "outside": self._outside(one),
                    "rate_bound": one.rate_bound,
                    "tied": one.few_distinct,
                    "cells": one.cells.to_dict(),
                    "bins": None if one.bins is None else one.bins.to_dict(),
                    "smooth": None if one.smooth is None else one.smooth.to_dict(),
                }
                for one in self.series
            ],
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        first = self.series[0]
        head = f"{plural(int(first.rows), 'row')}, {plural(int(first.events), 'event')}"
        if not first.counted:
            head = f"Total weight {first.rows:,.6g}, of events {first.events:,.6g}"
        head += f" ({style.percent(first.events / first.rows, 3)})."
        fewest = min(first.events, first.rows - first.events)
        if first.counted and fewest < FEW_EVENTS <= first.rows:
            which = "events" if fewest == first.events else "rows without an event"
            head += f" Fewer than {FEW_EVENTS} {which}: only a large miscalibration would show."
        if self.curve in SMOOTH:
            return f"{head}\n{self._smooth_caption()}"
        if len(self.series) == 1 and not self._outside(first) and first.rate_bound is not None:
            top = style.percent(first.rate_bound, 2)
            seen = f"No event was seen. That agrees with these scores, and with any event rate up to {top}"
            return f"{head}\n{seen} (95 % confidence)."
        share = f"about {style.percent(1.0 - self.confidence, 3)}"
        hedge = ", or fewer" if all(one.counted for one in self.series) else " (approximate under weights)"
        shares = [style.percent(self._outside(one) or 0.0, 2) for one in self.series]
        if len(self.series) == 1:
            found = f"{shares[0]} of the rows are outside; for a calibrated model {share}{hedge}."
        else:
            named = ", ".join(f"{one.label} {text}" for one, text in zip(self.series, shares, strict=True))
            found = f"Rows outside their own band: {named}; for a calibrated model {share}{hedge}."
        return f"{head}\nInside the gray band: no evidence against calibration. {found}"

    def _smooth_caption(self) -> str:
        if any(one.smooth is None for one in self.series):
            return "No smooth curve: it needs both classes, and scores that do not separate them."
        band = f"{style.percent(self.confidence, 3)} confidence band of the curve"
        other = " The band is about the curve, not about what a calibrated model would show."
        shares = [style.percent(self._outside(one) or 0.0, 2) for one in self.series]
        if len(self.series) == 1:
            return f"The {band} (pointwise) excludes perfect calibration for {shares[0]} of the rows.{other}"
        named = ", ".join(f"{one.label} {text}" for one, text in zip(self.series, shares, strict=True))
        return f"Rows for which the {band} (pointwise) excludes perfect calibration: {named}.{other}"

    def _outside(self, one: Series) -> float | None:
        if self.curve in SMOOTH:
            return None if one.smooth is None else one.smooth.outside
        return self._shown(one).outside

    def _shown(self, one: Series) -> Points:
        return one.bins if self.curve == "bins" and one.bins is not None else one.cells

    @property
    def layout(self) -> Layout:
        """Scale of both axes."""
        shown: list[Points | Smooth] = [self._shown(one) for one in self.series]
        shown += [one.bins for one in self.series if one.bins is not None]
        if self.curve in SMOOTH:
            shown = [one.smooth for one in self.series if one.smooth is not None] or shown
        if self.axes == "linear":
            drawn = np.concatenate([np.concatenate([points.score, points.rate]) for points in shown])
            return Linear.over(float(drawn.min()), float(drawn.max()))
        ends = np.array([informative_range(one.cells) for one in self.series])
        rates = np.concatenate([points.rate for points in shown])
        rates = rates[(rates > 0.0) & (rates < 1.0)]
        low, high = min(ends[:, 0].min(), rates.min(initial=1.0)), max(ends[:, 1].max(), rates.max(initial=0.0))
        all_low = min(float(min(p.score.min(), p.rate.min())) for p in shown)
        all_high = max(float(max(p.score.max(), p.rate.max())) for p in shown)
        return LogOdds.over(low, high, zero=all_low < low, one=all_high > high)

    def _draw_on(self, ax: Axes) -> None:
        self.counts_ax_ = panel_below(ax)
        layout = self.layout
        drawn = self.draw_curves(ax, layout)
        ax.set_ylabel("Event rate")
        ax.tick_params(axis="x", labelbottom=False)
        counts = self.draw_counts(self.counts_ax_, layout)
        if len(self.series) == 1:
            name_halves(self.counts_ax_, ("events", counts[0][1]), ("no events", counts[0][2]))
        self.counts_ax_.set_xlabel("Score (predicted probability)")
        name = self.series[0].label if len(self.series) == 1 else ""
        self._head(ax, f"Reliability: {name}" if name else "Reliability", [self.counts_ax_])
        style.place_legend(ax, drawn)

    def draw_curves(self, ax: Axes, layout: Layout) -> list[tuple[Floats, Floats]]:
        """Draw diagonal, gray band and curves without text; return the points that a legend must not cover."""
        layout.set(ax, "x")
        layout.set(ax, "y")
        ends = np.array(layout.limits)
        ax.plot(ends, ends, **style.GUIDE_LINE, label="perfect calibration", zorder=1.5)
        drawn = [style.along(layout, ends, ends)]
        for place, one in enumerate(self.series):
            drawn += self._draw_series(ax, layout, place, one)
        return drawn

    def _draw_series(self, ax: Axes, layout: Layout, place: int, one: Series) -> list[tuple[Floats, Floats]]:
        if self.curve in SMOOTH:
            return self._draw_smooth(ax, layout, place, one)
        last = place == len(self.series) - 1
        kind = "bins" if self.curve == "bins" else "each score" if one.few_distinct else "isotonic regression"
        name = one.label or kind
        color, dash, marker = self._look(ax, place)
        points, drawn = self._shown(one), []
        whose = f", {one.label}" if len(self.series) > 1 else ""
        gray = f"expected if calibrated\n({style.percent(self.confidence, 3)}, pointwise{whose})"
        as_points = self.curve == "bins" or one.few_distinct
        if last:
            _draw_band(ax, points, gray, layout if as_points else None)
            drawn.append(style.upright(points.score, points.low, points.high))
        if as_points:
            _draw_markers(ax, points, color, marker, name)
        else:
            ax.plot(points.score, points.rate, color=color, linestyle=dash, linewidth=1.8, label=name, zorder=3)
            drawn.append(style.along(layout, points.score, points.rate))
        if self.curve == "isotonic" and one.bins is not None:
            ax.vlines(one.bins.score, one.bins.low, one.bins.high, colors=color, linewidth=1.3, zorder=1.4)
            _draw_markers(ax, one.bins, color, marker, "bins, with acceptance intervals" if last else None)
            drawn.append(style.upright(one.bins.score, one.bins.low, one.bins.high))
        return [*drawn, (points.score, points.rate)]

    def _draw_smooth(self, ax: Axes, layout: Layout, place: int, one: Series) -> list[tuple[Floats, Floats]]:
        smooth = one.smooth
        if smooth is None:
            return []
        color, dash, _ = self._look(ax, place)
        band = (
            f"{style.percent(self.confidence, 3)} confidence band of the curve"
            if place == len(self.series) - 1
            else None
        )
        ax.fill_between(smooth.score, smooth.low, smooth.high, **style.shade(ax, color), label=band, zorder=1)
        name = one.label or f"smooth curve ({self.curve})"
        ax.plot(smooth.score, smooth.rate, color=color, linestyle=dash, linewidth=1.8, label=name, zorder=3)
        reach = style.upright(smooth.score, smooth.low, smooth.high)
        return [reach, style.along(layout, smooth.score, smooth.rate)]

    def _look(self, ax: Axes, place: int) -> tuple[str, Any, str]:
        """Color, dashes and marker; the last curve is the solid one."""
        turn = len(self.series) - 1 - place
        other = (turn + turn // len(style.COLORS)) % len(style.COLORS)  # where colors repeat, dashes and markers differ
        return style.color(ax, turn % len(style.COLORS)), style.DASHES[other], style.MARKERS[other]

    def draw_counts(self, panel: Axes, layout: Layout, *, low: bool = False) -> list[tuple[Floats, Floats, Floats]]:
        """Draw a histogram of the scores without text; return edges, events and non-events of each series.

        One series has its events upward and its non-events downward; several have all their rows.

        Parameters
        ----------
        panel, layout
            Axes to draw on, and the ranges of the diagram.
        low
            Whether the panel is low, with room for few ticks.

        Returns
        -------
        list of tuple
            Edges, events and non-events of each series.
        """
        counts = [self._histogram(one, layout) for one in self.series]
        alone = len(self.series) == 1
        if alone:
            edges, events, others = counts[0]
            panel.stairs(events, edges, fill=True, linewidth=0.0, color=self._look(panel, 0)[0], alpha=0.85)
            panel.stairs(-others, edges, fill=True, linewidth=0.0, **style.band(panel))
            panel.axhline(0.0, color=style.GUIDE, linewidth=0.6)
            heights = np.concatenate([events, others])
        else:
            for place, (edges, events, others) in enumerate(counts):
                color, dash, _ = self._look(panel, place)
                panel.stairs(events + others, edges, color=color, linestyle=dash, linewidth=1.3)
            heights = np.concatenate([events + others for _, events, others in counts])
        axis_of_counts(panel, heights[heights > 0], "y", self.series[0].counted, mirrored=alone, low=low)
        return counts

    def _histogram(self, one: Series, layout: Layout) -> tuple[Floats, Floats, Floats]:
        """Edges, events and non-events of a histogram with even bars in the layout."""
        ends = layout.forward(np.array(layout.limits))
        places = layout.forward(one.cells.score)
        width = float(np.ptp(ends)) / BARS
        # Round scores such as 0 and 1 are at the middle of a bar, not at its edge.
        edges = ends[0] + width * (np.arange(BARS + 2) - 0.5)
        index = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, BARS)
        events = np.bincount(index, one.cells.events, minlength=BARS + 1)
        rows = np.bincount(index, one.cells.n, minlength=BARS + 1)
        return layout.inverse(edges), np.asarray(events, dtype=np.float64), np.maximum(rows - events, 0.0)


def _clusters(scores: Any, y: Any, sample_weight: Any, groups: Any) -> Clusters:
    found = grouped_or_tally(scores, y, sample_weight, groups)
    assert isinstance(found, Clusters)
    if found.size < FEWEST_CLUSTERS:
        fix = f"a band needs at least {FEWEST_CLUSTERS}; leave groups out if rows are independent"
        raise InputError("groups", f"has {found.size} clusters", fix)
    return found


def _draw_band(ax: Axes, points: Points, label: str, as_bars: Layout | None) -> None:
    """The gray band: an area, or, if a layout is given, a bar at each score, as wide as space permits."""
    if as_bars is None:
        ax.fill_between(points.score, points.low, points.high, linewidth=0.0, **style.band(ax), label=label, zorder=1)
        return
    places = as_bars.forward(points.score) / np.ptp(as_bars.forward(np.array(as_bars.limits)))
    room = (float(np.median(np.diff(places))) if len(places) > 1 else 1.0) * style.width_in_points(ax)
    broad = float(np.clip(0.6 * room, 2.5, 10.0))
    ax.vlines(points.score, points.low, points.high, linewidth=broad, **style.band(ax), label=label, zorder=1)


def _draw_markers(ax: Axes, points: Points, color: str, marker: str, label: str | None) -> None:
    area = 16.0 + 50.0 * points.n / points.n.max()
    ax.scatter(
        points.score,
        points.rate,
        s=area,
        c=color,
        marker=marker,
        label=label,
        zorder=3,
        edgecolors="white",
        linewidths=0.6,
    )


@display_of.register
def _(found: Validation) -> ReliabilityDisplay:
    if found.tally is None:
        raise InputError("validation", "does not hold its rows", "plot what calibrant.clinical.validate returned")
    curve: CurveKind = "isotonic" if found.curve == "lowess" else found.curve  # which has no band to draw
    return ReliabilityDisplay.from_predictions(found.tally, curve=curve)
