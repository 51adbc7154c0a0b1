"""A fitted map as a curve: what becomes of each score, and what is promised about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from calibrant.arrays import Kind
from calibrant.arrays.columns import check_option
from calibrant.calibration import as_calibration
from calibrant.displays import style
from calibrant.displays.base import Display
from calibrant.displays.style import AxesKind, Layout, Linear, LogOdds
from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.refusal import Refusal
from calibrant.maps import ComposeMap, LogitAffineMap, Map
from calibrant.messages import InputError
from calibrant.numerics import Floats, expit, logit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = 600
"""Scores at which a smooth map is evaluated."""
FAR = 6.0
"""Log-odds up to which maps of logits are drawn."""


class MapDisplay(Display):
    r"""The fitted map m(s) against the score s, beside the identity.

    Where a certificate speaks about the map, the interval that it promises for the true event rate of each bin is drawn
    grey; a bin about which nothing is promised has none. Scores that are log-odds are compared with
    :math:`\operatorname{expit}(s)`; other real scores have no identity.

    Guarantee: the certificate's; the curve itself has no finite-sample guarantee.
    Cost: one evaluation of the map at some hundred scores and at its knots.

    Reference: 002 section 1.2, for maps of one score.

    Attributes
    ----------
    score, output
        Points of the curve.
    certificate
        What is promised, why nothing is, or None.
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
        kind: Kind = "probability",
        certificate: Certificate | Refusal | None = None,
        axes: Literal["linear", "log-odds"] = "linear",
        name: str = "map",
    ) -> None:
        check_option("axes", axes, ("linear", "log-odds"))
        self.score = np.asarray(score, dtype=np.float64)
        self.output = np.asarray(output, dtype=np.float64)
        self.kind = kind
        self.certificate = certificate
        self.axes = axes
        self.name = name

    @classmethod
    def from_map(
        cls, fitted: Any, *, axes: AxesKind = "auto", score_range: tuple[float, float] | None = None
    ) -> MapDisplay:
        """Compute the picture of a map, a :class:`Calibration` or a fitted calibrator; draw it with :meth:`plot`.

        Parameters
        ----------
        axes
            ``"linear"``, ``"log-odds"``, or ``"auto"``: log-odds when fewer than 5 % of the rows behind the map were
            events, or more than 95 %.
        score_range
            Scores to show; by default all probabilities (on log-odds axes those that the map tells apart), or the range
            in which a map of other scores moves.
        """
        check_option("axes", axes, get_args(AxesKind))
        calibration = as_calibration(fitted)
        if calibration.map.columns:
            raise InputError(
                "fitted",
                "is a map by group, with a curve for each group",
                "draw one of them, as in MapDisplay.from_map(map.maps[0])",
            )
        data, kind = calibration.provenance, calibration.kind
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
        return cls(score, output, kind=kind, certificate=calibration.certificate, axes=chosen, name=name)

    @property
    def data(self) -> dict[str, Any]:
        """Every number in the picture, as plain lists."""
        promise = self.certificate
        intervals = None
        if isinstance(promise, Certificate):
            left, right = self._bin_ends(promise)
            intervals = {
                "left": left.tolist(),
                "right": right.tolist(),
                "output": promise.outputs[promise.promised].tolist(),
                "low": promise.lower[promise.promised].tolist(),
                "high": promise.upper[promise.promised].tolist(),
            }
        return {
            "display": "map",
            "name": self.name,
            "kind": self.kind,
            "axes": self.axes,
            "score": self.score.tolist(),
            "output": self.output.tolist(),
            "intervals": intervals,
            "promise": None if promise is None else str(promise),
        }

    @property
    def caption(self) -> str:
        """The promise in one sentence, or why there is none."""
        if self.certificate is None:
            return "Above the dotted line scores are raised, below it lowered." if self.kind != "real" else ""
        if isinstance(self.certificate, Certificate):
            return next(iter(self.certificate.about.sentences(self.certificate)))
        return str(self.certificate)

    def _bin_ends(self, promise: Certificate) -> tuple[Floats, Floats]:
        """Ends of the promised bins, the outer ones cut to the range shown."""
        ends = np.concatenate([[self.score[0]], cast(ScoreBins, promise.about).knots, [self.score[-1]]])
        ends = np.clip(ends, self.score[0], self.score[-1])
        return ends[:-1][promise.promised], ends[1:][promise.promised]

    def _draw_on(self, ax: Axes) -> None:
        x, y = self._layouts()
        x.set(ax, "x")
        y.set(ax, "y")
        drawn = [(self.score, self.output)]
        if self.kind != "real":
            same = self.score if self.kind == "probability" else expit(self.score)
            ax.plot(self.score, same, **style.GUIDE_LINE, label="score kept as it is")
            drawn.append((self.score, same))
        if isinstance(self.certificate, Certificate):
            drawn += self._draw_intervals(ax, self.certificate)
        ax.plot(self.score, self.output, color=style.COLOURS[0], linewidth=1.8, label=self.name, zorder=3)
        ax.set_xlabel({"probability": "Score", "logit": "Score (log-odds)", "real": "Score"}[self.kind])
        ax.set_ylabel("Calibrated probability")
        style.caption(ax, "Calibration map", self.caption)
        style.place_legend(ax, drawn)

    def _draw_intervals(self, ax: Axes, promise: Certificate) -> list[tuple[Floats, Floats]]:
        left, right = self._bin_ends(promise)
        x = np.column_stack([left, right, right]).reshape(-1)
        low, high = (_with_gaps(end[promise.promised]) for end in (promise.lower, promise.upper))
        sure = style.percent(1.0 - promise.alpha, 6)
        label = f"true event rate of the bin,\n{promise.mode} confidence {sure}"
        ax.fill_between(x, low, high, linewidth=0.0, **style.BAND, label=label, zorder=1)
        bottom, top = promise.lower[promise.promised], promise.upper[promise.promised]
        return [style.upright(left + share * (right - left), bottom, top) for share in np.linspace(0.0, 1.0, 9)]

    def _layouts(self) -> tuple[Layout, Layout]:
        vertical: Layout = Linear()
        if self.axes == "log-odds":
            inside = self.output[(self.output > 0.0) & (self.output < 1.0)]
            ends = [inside.min(initial=0.99), inside.max(initial=0.01)]
            if self.kind == "probability":
                shown = self.score[(self.score > 0.0) & (self.score < 1.0)]
                ends = [min(ends[0], shown.min(initial=1.0)), max(ends[1], shown.max(initial=0.0))]
            zero = min(self.output.min(), self.score[0] if self.kind == "probability" else 1.0) < ends[0]
            one = max(self.output.max(), self.score[-1] if self.kind == "probability" else 0.0) > ends[1]
            vertical = LogOdds.over(*ends, zero=bool(zero), one=bool(one))
        if self.kind == "probability":
            return vertical, vertical
        return Raw((float(self.score[0]), float(self.score[-1]))), vertical


class Raw(Linear):
    """Scores of any kind as they are, matplotlib choosing the ticks."""

    def set(self, ax: Axes, which: Literal["x", "y"]) -> None:
        """Limits alone."""
        getattr(ax, f"set_{which}lim")(*self.limits)


def _first(mapping: Map) -> Map:
    return mapping.maps[0] if isinstance(mapping, ComposeMap) else mapping


def _knots(mapping: Map) -> Floats:
    """Scores at which the map bends or jumps, as far as they are scores and not images of another map."""
    return np.asarray(getattr(_first(mapping), "knots", np.zeros(0)), dtype=np.float64)


def _takes_any_score(mapping: Map) -> bool:
    """Whether a bare map gives away that its scores are no probabilities."""
    first, knots = _first(mapping), _knots(mapping)
    affine = isinstance(first, LogitAffineMap) and first.on == "score"
    return affine or bool(len(knots) and (knots[0] < 0.0 or knots[-1] > 1.0))


def _default_range(mapping: Map, kind: Kind, axes: AxesKind, base: float) -> tuple[float, float]:
    knots, first = _knots(mapping), _first(mapping)
    if kind == "probability":
        if axes == "linear":
            return 0.0, 1.0
        return _telling_range(mapping, knots[(knots > 0.0) & (knots < 1.0)], base)
    if len(knots):
        room = 0.08 * float(np.ptp(knots)) or 1.0
        return float(knots[0]) - room, float(knots[-1]) + room
    if isinstance(first, LogitAffineMap) and first.on == "score" and first.slope != 0.0:
        ends = sorted(((-FAR - first.intercept) / first.slope, (FAR - first.intercept) / first.slope))
        return ends[0], ends[1]
    return -FAR, FAR


def _telling_range(mapping: Map, knots: Floats, base: float) -> tuple[float, float]:
    """Scores between which the map moves: about its knots and outputs, and both sides of the base rate."""
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


def _places(mapping: Map, low: float, high: float, kind: Kind, axes: AxesKind) -> Floats:
    """Scores to evaluate: evenly over the axis, and both sides of every knot, so that steps stand upright."""
    even = np.linspace(low, high, STEPS)
    if kind == "probability" and axes == "log-odds":
        bottom, top = logit(np.array([low, high])).tolist()
        even = np.concatenate([[low], expit(np.linspace(bottom, top, STEPS))[1:-1], [high]])
    knots = _knots(mapping)
    knots = knots[(knots > low) & (knots < high)]
    return np.unique(np.concatenate([even, knots, np.nextafter(knots, -np.inf)]))


def _with_gaps(values: Floats) -> Floats:
    """Each value at both ends of its bin, then nothing: neighbouring bins must not be joined."""
    return np.column_stack([values, values, np.full(len(values), np.nan)]).reshape(-1)
