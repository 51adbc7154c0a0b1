"""Plot of a fitted calibration map, with the intervals of its certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.arrays.columns import check_option
from calibrant.calibration import Calibration, as_calibration
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.displays.drawing.style import AxesKind, Layout, Linear, LogOdds
from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.maps import ComposeMap, LogitAffineMap, Map
from calibrant.messages import InputError
from calibrant.numerics import Floats, expit, logit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_POINTS = 600
"""Scores at which a smooth map is evaluated."""
MAX_LOG_ODDS = 6.0
"""Maps of logits are drawn up to these log-odds."""


class MapDisplay(Display):
    r"""Plot of a fitted map m(s) against the score s, with the identity for comparison.

    If there is a certificate, the interval that it guarantees for the true event rate of each bin is drawn in gray;
    bins that it does not cover have none. For scores that are log-odds the identity is
    :math:`\operatorname{expit}(s)`; for other real scores there is none.

    Guarantee: that of the certificate; the curve itself has no finite-sample guarantee.
    Cost: one evaluation of the map at some hundred scores and at its knots.

    Reference: Gupta (2023), section 1.2, for maps of one score.

    Attributes
    ----------
    score, output
        Points of the curve.
    score_type
        Type of the scores: it decides where the identity is drawn.
    certificate
        The certificate, the reason why there is none, or None.
    axes
        ``"linear"`` or ``"log-odds"``.
    name
        Name of the map in the plot.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> from calibrant.maps import StepMap
    >>> display = MapDisplay.from_map(StepMap([0.5], [0.1, 0.8]))
    >>> display.data["output"][0], display.data["output"][-1]
    (0.1, 0.8)
    """

    size = (5.4, 5.2)

    def __init__(
        self,
        score: Floats,
        output: Floats,
        *,
        score_type: ScoreType = "probability",
        certificate: Certificate | NoCertificate | None = None,
        axes: Literal["linear", "log-odds"] = "linear",
        name: str = "map",
    ) -> None:
        check_option("axes", axes, ("linear", "log-odds"))
        self.score = np.asarray(score, dtype=np.float64)
        self.output = np.asarray(output, dtype=np.float64)
        self.score_type = score_type
        self.certificate = certificate
        self.axes = axes
        self.name = name

    @classmethod
    def from_map(
        cls, fitted: Any, *, axes: AxesKind = "auto", score_range: tuple[float, float] | None = None
    ) -> MapDisplay:
        """Compute the plot of a map, a :class:`Calibration` or a fitted calibrator; draw it with :meth:`plot`.

        Parameters
        ----------
        fitted
            The map, :class:`Calibration` or fitted calibrator.
        axes
            ``"linear"``, ``"log-odds"``, or ``"auto"``: log-odds if fewer than 5 % or more than 95 % of the rows that
            the map was fitted to were events.
        score_range
            Range of scores to show. By default all probabilities (on log-odds axes the range in which the map varies),
            or for other scores the range in which the map varies.
        """
        check_option("axes", axes, get_args(AxesKind))
        calibration = as_calibration(fitted)
        if calibration.map.columns:
            raise InputError(
                "fitted",
                "is a map by segment, with one curve for each segment",
                "draw one of them, as in MapDisplay.from_map(map.maps[0])",
            )
        data, kind = calibration.provenance, calibration.score_type
        if kind == "probability" and _takes_any_score(calibration.map):
            kind = "real"
        if axes == "auto":
            axes = "linear" if data is None else style.axes_kind("auto", data.n, data.events)
        base = 0.5 if data is None else data.events / data.n
        low, high = score_range or _default_range(calibration.map, kind, axes, base)
        if not low < high:
            raise InputError("score_range", f"must be two increasing numbers, got ({low}, {high})")
        score = _places(calibration.map, low, high, kind, axes)
        output = calibration.map.apply(score)
        if output.shape != score.shape:
            raise InputError("fitted", "must map one score to one probability to be drawn")
        name = type(calibration.map).__name__ if data is None else data.method
        chosen: Literal["linear", "log-odds"] = "log-odds" if axes == "log-odds" else "linear"
        return cls(score, output, score_type=kind, certificate=calibration.certificate, axes=chosen, name=name)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        certificate = self.certificate
        intervals = None
        if isinstance(certificate, Certificate):
            left, right = self._bin_ends(certificate)
            intervals = {
                "left": left.tolist(),
                "right": right.tolist(),
                "output": certificate.outputs[certificate.covered].tolist(),
                "low": certificate.lower[certificate.covered].tolist(),
                "high": certificate.upper[certificate.covered].tolist(),
            }
        return {
            "display": "map",
            "name": self.name,
            "score_type": self.score_type,
            "axes": self.axes,
            "score": self.score.tolist(),
            "output": self.output.tolist(),
            "intervals": intervals,
            "certificate": None if certificate is None else str(certificate),
        }

    @property
    def caption(self) -> str:
        """The guarantee in one sentence, or why there is none."""
        if self.certificate is None:
            return (
                "Above the dotted line the map raises scores, below it lowers them."
                if self.score_type != "real"
                else ""
            )
        if isinstance(self.certificate, Certificate):
            return next(iter(self.certificate.about.sentences(self.certificate)))
        return str(self.certificate)

    def _bin_ends(self, certificate: Certificate) -> tuple[Floats, Floats]:
        """Edges of the covered bins, clipped to the range shown."""
        ends = np.concatenate([[self.score[0]], cast(ScoreBins, certificate.about).knots, [self.score[-1]]])
        ends = np.clip(ends, self.score[0], self.score[-1])
        return ends[:-1][certificate.covered], ends[1:][certificate.covered]

    def _draw_on(self, ax: Axes) -> None:
        x, y = self._layouts()
        x.set(ax, "x")
        y.set(ax, "y")
        drawn = [(self.score, self.output)]
        if self.score_type != "real":
            same = self.score if self.score_type == "probability" else expit(self.score)
            ax.plot(self.score, same, **style.GUIDE_LINE, label="identity")
            drawn.append((self.score, same))
        if isinstance(self.certificate, Certificate):
            drawn += self._draw_intervals(ax, self.certificate)
        ax.plot(self.score, self.output, color=style.color(ax, 0), linewidth=1.8, label=self.name, zorder=3)
        ax.set_xlabel({"probability": "Score", "logit": "Score (log-odds)", "real": "Score"}[self.score_type])
        ax.set_ylabel("Calibrated probability")
        self._head(ax, "Calibration map")
        style.place_legend(ax, drawn)

    def _draw_intervals(self, ax: Axes, certificate: Certificate) -> list[tuple[Floats, Floats]]:
        left, right = self._bin_ends(certificate)
        x = np.column_stack([left, right, right]).reshape(-1)
        low, high = (_with_gaps(end[certificate.covered]) for end in (certificate.lower, certificate.upper))
        sure = style.percent(1.0 - certificate.alpha, 6)
        label = f"true event rate of the bin,\n{certificate.coverage} confidence {sure}"
        ax.fill_between(x, low, high, linewidth=0.0, **style.band(ax), label=label, zorder=1)
        bottom, top = certificate.lower[certificate.covered], certificate.upper[certificate.covered]
        return [style.upright(left + share * (right - left), bottom, top) for share in np.linspace(0.0, 1.0, 9)]

    def _layouts(self) -> tuple[Layout, Layout]:
        vertical: Layout = Linear()
        if self.axes == "log-odds":
            inside = self.output[(self.output > 0.0) & (self.output < 1.0)]
            ends = [inside.min(initial=0.99), inside.max(initial=0.01)]
            if self.score_type == "probability":
                shown = self.score[(self.score > 0.0) & (self.score < 1.0)]
                ends = [min(ends[0], shown.min(initial=1.0)), max(ends[1], shown.max(initial=0.0))]
            zero = min(self.output.min(), self.score[0] if self.score_type == "probability" else 1.0) < ends[0]
            one = max(self.output.max(), self.score[-1] if self.score_type == "probability" else 0.0) > ends[1]
            vertical = LogOdds.over(*ends, zero=bool(zero), one=bool(one))
        if self.score_type == "probability":
            return vertical, vertical
        return Raw((float(self.score[0]), float(self.score[-1]))), vertical


class Raw(Linear):
    """Scores of any kind, with ticks chosen by matplotlib."""

    def set(self, ax: Axes, which: Literal["x", "y"]) -> None:
        """Set the limits only."""
        getattr(ax, f"set_{which}lim")(*self.limits)


def _first(mapping: Map) -> Map:
    return mapping.maps[0] if isinstance(mapping, ComposeMap) else mapping


def _knots(mapping: Map) -> Floats:
    """Scores at which the first stage of the map bends or jumps."""
    return np.asarray(getattr(_first(mapping), "knots", np.zeros(0)), dtype=np.float64)


def _takes_any_score(mapping: Map) -> bool:
    """Whether the form of a bare map shows that its scores are not probabilities."""
    first, knots = _first(mapping), _knots(mapping)
    affine = isinstance(first, LogitAffineMap) and first.on == "score"
    return affine or bool(len(knots) and (knots[0] < 0.0 or knots[-1] > 1.0))


def _default_range(mapping: Map, score_type: ScoreType, axes: AxesKind, base: float) -> tuple[float, float]:
    knots, first = _knots(mapping), _first(mapping)
    if score_type == "probability":
        if axes == "linear":
            return 0.0, 1.0
        return _informative_range(mapping, knots[(knots > 0.0) & (knots < 1.0)], base)
    if len(knots):
        room = 0.08 * float(np.ptp(knots)) or 1.0
        return float(knots[0]) - room, float(knots[-1]) + room
    if isinstance(first, LogitAffineMap) and first.on == "score" and first.slope != 0.0:
        ends = sorted(((-MAX_LOG_ODDS - first.intercept) / first.slope, (MAX_LOG_ODDS - first.intercept) / first.slope))
        return ends[0], ends[1]
    return -MAX_LOG_ODDS, MAX_LOG_ODDS


def _informative_range(mapping: Map, knots: Floats, base: float) -> tuple[float, float]:
    """Range in which the map varies: around its knots and outputs, and on both sides of the base rate."""
    rare = max(min(base, 1.0 - base), 1e-6) / 50.0
    outputs = mapping.apply(knots)
    inside = (outputs > 0.0) & (outputs < 1.0)
    low, high = 0.1, 0.9
    if base <= 0.5:
        least = float(outputs[inside].min(initial=1.0)) / 3.0 if inside.any() else rare
        low = max(float(knots.min(initial=1.0)) / 3.0, least) if len(knots) else rare
    else:
        least = float(1.0 - outputs[inside].max(initial=0.0)) / 3.0 if inside.any() else rare
        high = 1.0 - (max(float(1.0 - knots.max(initial=0.0)) / 3.0, least) if len(knots) else rare)
    return min(low, 0.1), max(high, 0.9)


def _places(mapping: Map, low: float, high: float, score_type: ScoreType, axes: AxesKind) -> Floats:
    """Scores to evaluate: evenly over the axis, and on both sides of every knot, so that steps are vertical."""
    even = np.linspace(low, high, CURVE_POINTS)
    if score_type == "probability" and axes == "log-odds":
        bottom, top = logit(np.array([low, high])).tolist()
        even = np.concatenate([[low], expit(np.linspace(bottom, top, CURVE_POINTS))[1:-1], [high]])
    knots = _knots(mapping)
    knots = knots[(knots > low) & (knots < high)]
    return np.unique(np.concatenate([even, knots, np.nextafter(knots, -np.inf)]))


def _with_gaps(values: Floats) -> Floats:
    """Each value at both ends of its bin, then a gap, so that neighboring bins are not joined."""
    return np.column_stack([values, values, np.full(len(values), np.nan)]).reshape(-1)


display_of.register(Calibration, MapDisplay.from_map)
