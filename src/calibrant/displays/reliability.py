"""The reliability diagram: what happened against what was said, and how far chance alone would stray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option
from calibrant.displays import style
from calibrant.displays.base import Display, check_level
from calibrant.displays.panels import axis_of_counts, panel_below
from calibrant.displays.rates import (
    Points,
    Series,
    binned_points,
    even_edges,
    few_cells,
    heaped,
    isotonic_points,
    telling_range,
)
from calibrant.displays.style import AxesKind, Layout, Linear, LogOdds
from calibrant.maps import StepMap
from calibrant.messages import InputError, plural
from calibrant.metrics.binary.bins import Bins, Scores, Strategy, tally_of
from calibrant.numerics import Floats
from calibrant.tallies import Tally

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CurveKind = Literal["isotonic", "bins"]

BARS = 50


class ReliabilityDisplay(Display):
    r"""Reliability diagram with a band of what chance alone would do.

    The curve is the isotonic regression of labels on scores (CORP, Dimitriadis, Gneiting and Jordan 2021),

    .. math:: \hat\pi = \arg\min_{\pi\ \text{increasing}} \sum_c n_c \Bigl(\frac{e_c}{n_c} - \pi(s_c)\Bigr)^2,

    over cells c with score :math:`s_c`, :math:`n_c` rows and :math:`e_c` events, drawn straight between scores; or,
    with ``curve="bins"``, the share of events in each bin against its mean score. The grey is where the same curve
    would lie if the scores were right: for the isotonic curve from 500 simulated data sets with
    :math:`e_c \sim \mathrm{Binomial}(n_c, s_c)`, at each score by itself; for bins the region in which
    :math:`\mathrm{Binomial}(n_b, \bar s_b)` stays (Rosenberg, acceptance intervals), which is a little wide when
    scores differ within a bin. Scores heaped on few values are points whose area follows the rows, with nothing in
    between: the share of events at each score as it is, not pooled to rise, with its own acceptance interval.

    Guarantee: no finite-sample guarantee; each interval keeps a perfect model with about ``level``, not all together.
    Cost: one sort, then 500 isotonic regressions of at most about 1,000 cells, under a second for 10^6 rows.

    Reference: Dimitriadis, Gneiting, Jordan 2021, sections 2 and 3; Rosenberg, reliability diagrams.

    Attributes
    ----------
    series
        Numbers of each model, in the order drawn.
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
    Inside the grey: no evidence against calibration. Outside it lie 86 % of the rows; a perfect model has about 10 %
    there, or fewer.
    """

    size = (5.4, 6.2)
    counts_ax_: Axes

    def __init__(
        self, series: Sequence[Series], *, curve: CurveKind = "isotonic", level: float = 0.9, axes: AxesKind = "auto"
    ) -> None:
        check_option("curve", curve, get_args(CurveKind))
        check_option("axes", axes, get_args(AxesKind))
        self.series = tuple(series)
        self.curve = curve
        self.level = level
        first = self.series[0]
        size = float(first.cells.size.sum())
        self.axes = style.axes_kind(axes, size, size * first.events / first.rows)

    @classmethod
    def from_predictions(
        cls,
        scores: Scores,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        after: Scores | None = None,
        curve: CurveKind = "isotonic",
        n_bins: int = 10,
        strategy: Strategy | None = None,
        edges: ArrayLike | StepMap | None = None,
        acceptance: bool = False,
        level: float = 0.9,
        axes: AxesKind = "auto",
        label: str | None = None,
        random_state: int = 0,
    ) -> ReliabilityDisplay:
        """Compute the diagram of rows, or of a :class:`Tally` alone; nothing is drawn before :meth:`plot`.

        Parameters
        ----------
        after
            Scores of the same rows after calibration (or a tally of them): drawn over the first.
        curve
            ``"isotonic"``, which needs no choice of bins (heaped scores are shown one by one), or ``"bins"``.
        n_bins, strategy, edges
            As for :func:`calibrant.metrics.ece`, for ``"bins"`` and for ``acceptance``. By default bins have
            equal mass, and on log-odds axes equal width in log-odds: of rare events most are in the top bin by mass.
        acceptance
            Lay the binned rates with their acceptance intervals over an isotonic curve.
        level
            Share of perfect models that stay in the grey, at each score or bin.
        axes
            ``"linear"``, ``"log-odds"``, or ``"auto"``: log-odds when fewer than 5 % of the rows are events, or more
            than 95 %.
        random_state
            Seed of the simulated labels.

        Notes
        -----
        Importance weights count with the effective number of rows of each cell or bin when the grey is computed: an
        approximation, outside which a perfect model can have more than ``1 - level`` of its weight.
        """
        check_option("curve", curve, get_args(CurveKind))
        check_option("axes", axes, get_args(AxesKind))
        check_level(level)
        tallies = [(label or ("" if after is None else "before"), tally_of(scores, y, sample_weight))]
        if after is not None:
            tallies.append(("after", tally_of(after, *(() if isinstance(after, Tally) else (y, sample_weight)))))
        size = tallies[0][1].effective_size
        axes = style.axes_kind(axes, size, size * tallies[0][1].positives / tallies[0][1].total)
        series = []
        for name, tally in tallies:
            if heaped(tally):  # pooled rates would not be the rates at the scores that are shown
                cells = binned_points(Bins.of(tally, strategy="distinct"), level)
            else:
                cells = isotonic_points(few_cells(tally), level, random_state)
            bins = None
            if curve == "bins" or acceptance:
                even = edges is None and strategy is None and axes == "log-odds"
                inner = even_edges(cells, n_bins) if even else edges
                bins = binned_points(Bins.of(tally, n_bins=n_bins, strategy=strategy or "mass", edges=inner), level)
            rows, events = float(tally.total), float(tally.positives)
            series.append(Series(name, cells, bins, rows, events, tally.counts, heaped(tally)))
        return cls(series, curve=curve, level=level, axes=axes)

    def overlay(self, other: ReliabilityDisplay, labels: Sequence[str] | None = None) -> ReliabilityDisplay:
        """Both diagrams in one picture, ``other`` on top; the grey is that of the last."""
        both = (*self.series, *other.series)
        names = [one.label or f"model {place}" for place, one in enumerate(both, 1)] if labels is None else list(labels)
        if len(names) != len(both):
            raise InputError("labels", f"must hold one name for each of the {len(both)} curves, got {len(names)}")
        if len(both) > len(style.COLOURS):
            most = f"at most {len(style.COLOURS)} curves can be told apart"
            raise InputError("other", f"brings the picture to {len(both)} curves", most)
        if (self.curve, self.level) != (other.curve, other.level):
            raise InputError("other", "must have the same curve and level as this display")
        named = [replace(one, label=name) for one, name in zip(both, names, strict=True)]
        return ReliabilityDisplay(named, curve=self.curve, level=self.level, axes=self.axes)

    @property
    def data(self) -> dict[str, Any]:
        """Every number in the picture, as plain lists."""
        return {
            "display": "reliability",
            "curve": self.curve,
            "level": self.level,
            "axes": self.axes,
            "series": [
                {
                    "label": one.label,
                    "rows": one.rows,
                    "events": one.events,
                    "outside": self._shown(one).outside,
                    "heaped": one.heaped,
                    "cells": one.cells.to_dict(),
                    "bins": None if one.bins is None else one.bins.to_dict(),
                }
                for one in self.series
            ],
        }

    @property
    def caption(self) -> str:
        """What the picture shows, in words."""
        first = self.series[0]
        head = f"{plural(int(first.rows), 'row')}, {plural(int(first.events), 'event')}"
        if not first.counted:
            head = f"Weights of {first.rows:,.6g}, of events {first.events:,.6g}"
        head += f" ({style.percent(first.events / first.rows, 3)})."
        share = f"about {style.percent(1.0 - self.level, 3)}"
        hedge = ", or fewer" if all(one.counted for one in self.series) else " (approximate under weights)"
        shares = [style.percent(self._shown(one).outside, 2) for one in self.series]
        if len(self.series) == 1:
            told = f"Outside it lie {shares[0]} of the rows; a perfect model has {share} there{hedge}."
        else:
            named = ", ".join(f"{one.label} {text}" for one, text in zip(self.series, shares, strict=True))
            told = f"Rows outside their own grey: {named}; a perfect model has {share}{hedge}."
        return f"{head}\nInside the grey: no evidence against calibration. {told}"

    def _shown(self, one: Series) -> Points:
        return one.bins if self.curve == "bins" and one.bins is not None else one.cells

    @property
    def layout(self) -> Layout:
        """How probabilities are laid out on both axes."""
        if self.axes == "linear":
            return Linear()
        shown = [one.cells for one in self.series] + [one.bins for one in self.series if one.bins is not None]
        ends = np.array([telling_range(one.cells) for one in self.series])
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
        self._draw_counts(layout)
        style.caption(ax, "Reliability", self.caption)
        style.place_legend(ax, drawn)

    def draw_curves(self, ax: Axes, layout: Layout) -> list[tuple[Floats, Floats]]:
        """Diagonal, grey and curves alone, without words; returns the points that a legend must not cover."""
        layout.set(ax, "x")
        layout.set(ax, "y")
        ends = np.array(layout.limits)
        ax.plot(ends, ends, **style.GUIDE_LINE, label="perfect calibration", zorder=1.5)
        drawn = [style.along(layout, ends, ends)]
        for place, one in enumerate(self.series):
            drawn += self._draw_series(ax, layout, place, one)
        return drawn

    def _draw_series(self, ax: Axes, layout: Layout, place: int, one: Series) -> list[tuple[Floats, Floats]]:
        last = place == len(self.series) - 1
        kind = "bins" if self.curve == "bins" else "each score" if one.heaped else "isotonic regression"
        name = one.label or kind
        colour, dash, marker = self._look(place)
        points, drawn = self._shown(one), []
        whose = f", {one.label}" if len(self.series) > 1 else ""
        grey = f"{style.percent(self.level, 3)} of perfect models\nstay in the grey (pointwise{whose})"
        as_points = self.curve == "bins" or one.heaped
        if last:
            _draw_band(ax, points, grey, layout if as_points else None)
            drawn.append(style.upright(points.score, points.low, points.high))
        if as_points:
            _draw_markers(ax, points, colour, marker, name)
        else:
            ax.plot(points.score, points.rate, color=colour, linestyle=dash, linewidth=1.8, label=name, zorder=3)
            drawn.append(style.along(layout, points.score, points.rate))
        if self.curve == "isotonic" and one.bins is not None:
            ax.vlines(one.bins.score, one.bins.low, one.bins.high, colors=colour, linewidth=1.3, zorder=1.4)
            _draw_markers(ax, one.bins, colour, marker, "bins, with acceptance intervals" if last else None)
            drawn.append(style.upright(one.bins.score, one.bins.low, one.bins.high))
        return [*drawn, (points.score, points.rate)]

    def _look(self, place: int) -> tuple[str, Any, str]:
        """Colour, dashes and marker; the last curve is the solid one."""
        turn = len(self.series) - 1 - place
        return style.COLOURS[turn], style.DASHES[turn], style.MARKERS[turn]

    def _draw_counts(self, layout: Layout) -> None:
        panel = self.counts_ax_
        ink = panel.xaxis.label.get_color()
        counts = [self._histogram(one, layout) for one in self.series]
        if len(self.series) == 1:
            edges, events, others = counts[0]
            panel.stairs(others, edges, fill=True, linewidth=0.0, label="no event", **style.BAND)
            panel.stairs(events, edges, color=ink, linewidth=1.3, label="event")
            heights = np.concatenate([events, others])
        else:
            for place, (edges, events, others) in enumerate(counts):
                colour, dash, _ = self._look(place)
                name = self.series[place].label
                panel.stairs(events + others, edges, color=colour, linestyle=dash, linewidth=1.3, label=name)
            heights = np.concatenate([events + others for _, events, others in counts])
        axis_of_counts(panel, heights[heights > 0], "y", self.series[0].counted)
        panel.set_xlabel("Score (predicted probability)")
        panel.legend(
            fontsize="small", ncols=2, loc="lower right", bbox_to_anchor=(1.0, 0.97), frameon=False, borderaxespad=0.0
        )

    def _histogram(self, one: Series, layout: Layout) -> tuple[Floats, Floats, Floats]:
        """Edges, events and other rows: even in the layout, or a narrow bar for each heap."""
        ends = layout.forward(np.array(layout.limits))
        places = layout.forward(one.cells.score)
        width = float(np.ptp(ends)) / BARS
        # A bar's middle, not its edge, on round scores such as 0 and 1.
        edges = ends[0] + width * (np.arange(BARS + 2) - 0.5)
        index = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, BARS)
        events = np.bincount(index, one.cells.events, minlength=BARS + 1)
        rows = np.bincount(index, one.cells.n, minlength=BARS + 1)
        return layout.inverse(edges), np.asarray(events, dtype=np.float64), np.maximum(rows - events, 0.0)


def _draw_band(ax: Axes, points: Points, label: str, as_bars: Layout | None) -> None:
    """The grey: an area, or, in a layout, a bar at each score as broad as there is room for."""
    if as_bars is None:
        ax.fill_between(points.score, points.low, points.high, linewidth=0.0, **style.BAND, label=label, zorder=1)
        return
    places = as_bars.forward(points.score) / np.ptp(as_bars.forward(np.array(as_bars.limits)))
    room = (float(np.median(np.diff(places))) if len(places) > 1 else 1.0) * style.width_in_points(ax)
    broad = float(np.clip(0.6 * room, 2.5, 10.0))
    ax.vlines(points.score, points.low, points.high, linewidth=broad, **style.BAND, label=label, zorder=1)


def _draw_markers(ax: Axes, points: Points, colour: str, marker: str, label: str | None) -> None:
    area = 16.0 + 50.0 * points.n / points.n.max()
    ax.scatter(
        points.score,
        points.rate,
        s=area,
        c=colour,
        marker=marker,
        label=label,
        zorder=3,
        edgecolors="white",
        linewidths=0.6,
    )
