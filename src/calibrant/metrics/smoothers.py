"""Flexible calibration curves: event rate as a function of the score, fitted on cells.

Each ``fit_...`` takes scores (ascending and distinct), rows and events by cell, and returns an object with
``at(scores)`` and ``notes``. Weights are repetition: a cell of n rows counts as n rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import Note, Voice, note
from calibrant.numerics import Ends, Floats, expit, logit
from calibrant.solvers import fit_logistic, pool_adjacent

Method = Literal["spline", "loess", "lowess", "isotonic"]

KNOT_QUANTILES = {5: (0.05, 0.275, 0.5, 0.725, 0.95), 4: (0.05, 0.35, 0.65, 0.95), 3: (0.1, 0.5, 0.9)}
"""Where Harrell (2015, Table 2.3) puts the knots of a restricted cubic spline."""

ROWS_PER_KNOT = 5
"""Minority-class rows that each knot needs; with fewer, the number of knots is reduced."""

LOESS_SPAN, MOST_PLACES, ANCHORS, PLACES_AT_ONCE = 0.75, 2_000, 500, 64
"""loess in R: share of the rows in each local fit. Number of places above which fits are interpolated, that of the
places between which they are, and that of places whose fits are computed together."""

SPAN, DELTA = 2.0 / 3.0, 0.01
"""lowess in R: share of the rows in each local fit, and share of the range over which fits are interpolated."""


class Curve(Protocol):
    """A fitted curve."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on the fit."""

    def at(self, scores: Floats) -> Floats:
        """Fitted event rate at these scores."""


@dataclass(frozen=True, eq=False)
class SplineCurve:
    """Logistic regression on a restricted cubic spline of the log-odds."""

    knots: Floats
    coefficients: Floats
    covariance: Floats
    center: float
    spread: float
    ends: Ends
    notes: tuple[Note, ...] = ()

    def at(self, scores: Floats) -> Floats:
        """Fitted event rate at these scores."""
        return expit(np.einsum("j,jc->c", self.coefficients, self.features(scores)))

    def band(self, scores: Floats, quantile: float) -> tuple[Floats, Floats]:
        """Ends of pointwise Wald intervals on the log-odds: ``quantile`` standard errors to both sides."""
        features = self.features(scores)
        z = np.einsum("j,jc->c", self.coefficients, features)
        se = np.sqrt(np.maximum(np.einsum("jc,jk,kc->c", features, self.covariance, features), 0.0))
        return expit(z - quantile * se), expit(z + quantile * se)

    def features(self, scores: Floats) -> Floats:
        """Rows: 1, the standardized log-odds, and the cubics of the spline."""
        unit = (logit(scores, self.ends) - self.center) / self.spread
        return _spline_features(unit, self.knots)[: len(self.coefficients)]


@dataclass(frozen=True, eq=False)
class LineCurve:
    """Linear interpolation between fitted points, constant beyond the ends."""

    scores: Floats
    rates: Floats
    notes: tuple[Note, ...] = ()

    def at(self, scores: Floats) -> Floats:
        """Fitted event rate at these scores."""
        return np.asarray(np.interp(scores, self.scores, self.rates))


@dataclass(frozen=True, eq=False)
class StepCurve:
    """Rates that change where a block begins."""

    starts: Floats
    rates: Floats
    notes: tuple[Note, ...] = ()

    def at(self, scores: Floats) -> Floats:
        """Fitted event rate at these scores."""
        return np.asarray(self.rates[np.maximum(np.searchsorted(self.starts, scores, side="right") - 1, 0)])


def fit_spline(scores: Floats, n: NDArray[Any], events: NDArray[Any], most_knots: int = 5) -> Curve:
    """Maximum likelihood with five knots, or as many as the data support; NaN where the likelihood has no maximum."""
    ends = Ends.of(scores)
    z = logit(scores, ends)
    hits, misses = float(events.sum()), float((n - events).sum())
    if not (hits > 0.0 and misses > 0.0):
        return _undefined(curve_of_one_class())
    if _separated(z, n, events):
        return _undefined(curve_of_separated_classes())
    center, spread = (z[0] + z[-1]) / 2.0, max((z[-1] - z[0]) / 2.0, 1e-9)
    unit, rows, observed = (z - center) / spread, n.astype(np.float64), events.astype(np.float64)
    for knots in _knot_choices(unit, rows, min(hits, misses), most_knots):
        features = _spline_features(unit, knots)
        size = len(features) if z[-1] > z[0] else 1
        cells = [(features[:size], rows, observed)]
        fit = fit_logistic(lambda cells=cells: cells, size)  # type: ignore[misc]
        if fit.converged:
            notes = () if len(knots) == 5 else (_fewer_knots(len(knots), size > 1),)
            covariance = _inverse_information(features[:size], rows, fit.coefficients)
            return SplineCurve(knots, fit.coefficients, covariance, center, spread, ends, notes)
    return _undefined(curve_did_not_settle())


def _inverse_information(features: Floats, rows: Floats, coefficients: Floats) -> Floats:
    """Covariance of the coefficients by maximum likelihood."""
    p = expit(np.einsum("j,jc->c", coefficients, features))
    return np.linalg.pinv(np.einsum("jc,c,kc->jk", features, rows * p * (1.0 - p), features), hermitian=True)


def _knot_choices(unit: Floats, rows: Floats, rarer: float, most: int) -> list[Floats]:
    choices = []
    for count, shares in KNOT_QUANTILES.items():
        if count > most:
            continue
        knots = row_quantiles(unit, rows, shares)
        if rarer >= ROWS_PER_KNOT * count and len(unit) > count and (np.diff(knots) > 1e-6).all():
            choices.append(knots)
    return [*choices, np.zeros(0)]


def _spline_features(unit: Floats, knots: Floats) -> Floats:
    """Rows: 1, the log-odds, and for all knots but two a cubic that is linear beyond the outer knots."""
    columns = [np.ones(len(unit)), unit]
    if len(knots):
        *inner, before, last = knots
        tail = [np.maximum(unit - knot, 0.0) ** 3 for knot in (before, last)]
        scale = (last - knots[0]) ** 2
        for knot in inner:
            left, right = (last - knot) / (last - before), (before - knot) / (last - before)
            columns.append((np.maximum(unit - knot, 0.0) ** 3 - left * tail[0] + right * tail[1]) / scale)
    return np.stack(columns)


def fit_lowess(scores: Floats, n: NDArray[Any], events: NDArray[Any]) -> LineCurve:
    """Local straight lines with tricube weights on the nearest two thirds of the rows, as R's lowess with iter = 0."""
    rows, total = n.astype(np.float64), float(n.sum())
    upto = np.cumsum(rows)
    size = max(min(int(total), int(SPAN * total + 1e-7)), 2)
    anchors = _anchors(scores)
    first = _windows(scores, upto, scores[anchors], size)
    rates = (events.T / rows).T
    fitted = [
        _local_line(scores, rows, rates, upto, float(scores[anchor]), start, size)
        for anchor, start in zip(anchors.tolist(), first.tolist(), strict=True)
    ]
    return LineCurve(scores[anchors], np.array(fitted))


def smoothing(method: Method, scores: Floats, n: Floats) -> Floats:
    """The matrix by which a loess or lowess makes its values at the cells from their rates.

    Examples
    --------
    >>> weights = smoothing("lowess", np.arange(20) / 20, np.ones(20))
    >>> bool(np.allclose(weights @ (np.arange(20) / 20), np.arange(20) / 20))
    True
    """
    if method == "loess":
        return LoessCurve(scores, n, scores).weights(scores)
    lines = fit_lowess(scores, n, np.diag(n))
    places = np.interp(scores, lines.scores, np.arange(len(lines.scores)))  # between which lines, and how far
    first = np.minimum(places.astype(np.intp), max(len(lines.scores) - 2, 0))
    share = (places - first)[:, None]
    after = lines.rates[np.minimum(first + 1, len(lines.rates) - 1)]
    return np.asarray((1.0 - share) * lines.rates[first] + share * after)


def _anchors(scores: Floats) -> NDArray[np.intp]:
    """Cells at which a line is fitted: the first, the last, and the furthest within delta of each one before.

    At most two of them fall into one delta, so there are about 200.
    """
    delta, last = DELTA * float(scores[-1] - scores[0]), len(scores) - 1
    chosen = [0]
    while chosen[-1] < last:
        reach = int(np.searchsorted(scores, scores[chosen[-1]] + delta, side="right")) - 1
        chosen.append(max(chosen[-1] + 1, reach))
    return np.array(chosen)


def _windows(scores: Floats, upto: Floats, centers: Floats, size: int) -> NDArray[np.intp]:
    """Rank of the first of the ``size`` rows nearest to each center, by bisection on the rank."""
    low = np.zeros(len(centers), dtype=np.intp)
    high = np.full(len(centers), max(int(upto[-1]) - size, 0), dtype=np.intp)
    while (low < high).any():
        middle = (low + high) // 2
        settled = centers - _row(scores, upto, middle) <= _row(scores, upto, middle + size) - centers
        low, high = np.where(settled, low, np.minimum(middle + 1, high)), np.where(settled, middle, high)
    return low


def _row(scores: Floats, upto: Floats, rank: NDArray[np.intp]) -> Floats:
    """Score of the row of each rank, from 0."""
    return np.asarray(scores[np.minimum(np.searchsorted(upto, rank, side="right"), len(scores) - 1)])


def _local_line(scores: Floats, rows: Floats, rates: Floats, upto: Floats, center: float, start: int, size: int) -> Any:
    """Height at ``center`` of the line fitted to the window that begins at rank ``start``."""
    ends = _row(scores, upto, np.array([start, start + size - 1]))
    reach = max(center - float(ends[0]), float(ends[1]) - center)
    a = int(np.searchsorted(upto, start, side="right"))
    b = int(np.searchsorted(scores, center + 0.999 * reach, side="right"))
    x, weight = scores[a:b], rows[a:b].copy()
    weight[0] = upto[a] - start  # the window may contain only some rows of a tied score
    distance = np.abs(x - center)
    if reach > 0.0:
        kernel = np.where(distance <= 0.001 * reach, 1.0, (1.0 - np.minimum(distance / reach, 1.0) ** 3) ** 3)
        weight *= np.where(distance <= 0.999 * reach, kernel, 0.0)
    weight /= weight.sum()
    mean = float((weight * x).sum())
    spread = float((weight * (x - mean) ** 2).sum())
    if spread > (0.001 * float(scores[-1] - scores[0])) ** 2:
        weight *= 1.0 + (center - mean) / spread * (x - mean)
    return weight @ rates[a:b]


@dataclass(frozen=True, eq=False)
class LoessCurve:
    r"""Local quadratics with tricube weights on the nearest three quarters of the rows: R's loess, computed directly.

    The fit at a place is a weighted sum of the rates of the cells, :math:`\sum_c l_c(s)\, r_c`.
    """

    scores: Floats
    n: Floats
    rates: Floats
    notes: tuple[Note, ...] = ()

    @property
    def window(self) -> float:
        """Number of rows in each local fit."""
        total = float(self.n.sum())
        return max(float(np.floor(LOESS_SPAN * total + 1e-5)), min(total, 3.0))

    def at(self, scores: Floats) -> Floats:
        """Fitted event rate at these scores; it can be outside [0, 1]."""
        return self._evaluated(np.asarray(scores, dtype=np.float64), lambda weights: weights @ self.rates)

    def band(self, scores: Floats, quantile: float) -> tuple[Floats, Floats]:
        """Ends of pointwise normal intervals in [0, 1]; the variance of a row is that of the fitted rate."""
        least = 0.5 / self.window
        rates = np.clip(self.at(self.scores), least, 1.0 - least)
        variance = rates * (1.0 - rates) / self.n
        scores = np.asarray(scores, dtype=np.float64)
        half = quantile * np.sqrt(self._evaluated(scores, lambda weights: weights**2 @ variance))
        fitted = self.at(scores)
        return np.clip(fitted - half, 0.0, 1.0), np.clip(fitted + half, 0.0, 1.0)

    def _evaluated(self, places: Floats, function: Callable[[Floats], Floats]) -> Floats:
        if len(places) > MOST_PLACES:
            anchors = np.unique(np.quantile(places, np.linspace(0.0, 1.0, ANCHORS)))
            return np.asarray(np.interp(places, anchors, self._evaluated(anchors, function)))
        parts = [places[start : start + PLACES_AT_ONCE] for start in range(0, len(places), PLACES_AT_ONCE)]
        return np.concatenate([function(self.weights(part)) for part in parts] or [np.zeros(0)])

    def weights(self, places: Floats) -> Floats:
        """Weight of each cell in the fit at each place, one line per place."""
        upto, size = np.cumsum(self.n), int(self.window)
        first = _windows(self.scores, upto, places, size)
        lowest, highest = _row(self.scores, upto, first), _row(self.scores, upto, first + size - 1)
        reach = np.maximum(np.maximum(places - lowest, highest - places), np.finfo(float).tiny)[:, None]
        away = self.scores[None, :] - places[:, None]
        distance = np.abs(away)
        kernel = self.n * np.where(distance < reach, (1.0 - np.minimum(distance / reach, 1.0) ** 3) ** 3, 0.0)
        alone = ~(kernel.sum(axis=1) > 0.0)
        kernel[alone] = np.where(distance[alone] <= reach[alone], self.n, 0.0)
        x = np.minimum(np.maximum(away / reach, -1.0), 1.0)
        moments = [kernel.sum(axis=1)] + [(kernel * x**power).sum(axis=1) for power in (1, 2, 3, 4)]
        gram = np.array([[moments[i + j] for j in range(3)] for i in range(3)]).transpose(2, 0, 1)
        level = np.linalg.pinv(gram, rcond=1e-12, hermitian=True)[:, 0]
        return np.asarray((level[:, :1] + x * (level[:, 1:2] + x * level[:, 2:])) * kernel)


def fit_loess(scores: Floats, n: NDArray[Any], events: NDArray[Any]) -> Curve:
    """Local quadratics on the nearest three quarters of the rows, as R's loess with surface = "direct"."""
    rows = np.asarray(n, dtype=np.float64)
    kept = rows > 0.0
    return LoessCurve(scores[kept], rows[kept], np.asarray(events, dtype=np.float64)[kept] / rows[kept])


def fit_isotonic(scores: Floats, n: NDArray[Any], events: NDArray[Any]) -> Curve:
    """Isotonic regression: rates of the pooled blocks."""
    starts = pool_adjacent(n, events)
    return StepCurve(scores[starts], np.add.reduceat(events, starts) / np.add.reduceat(n, starts))


SMOOTHERS: dict[str, Callable[[Floats, NDArray[Any], NDArray[Any]], Curve]] = {
    "spline": fit_spline,
    "loess": fit_loess,
    "lowess": fit_lowess,
    "isotonic": fit_isotonic,
}


def _separated(z: Floats, n: NDArray[Any], events: NDArray[Any]) -> bool:
    """Whether a threshold on z, which is not constant, has all events on one side and all others on the other side."""
    hits, misses = z[events > 0], z[events < n]
    return bool(z[0] < z[-1] and (misses[-1] <= hits[0] or hits[-1] <= misses[0]))


def row_quantiles(values: Floats, n: NDArray[Any], shares: tuple[float, ...]) -> Floats:
    """Quantiles of ascending values repeated n times each, interpolated between rows as R and numpy do by default."""
    upto = np.cumsum(n.astype(np.float64))
    place = (upto[-1] - 1.0) * np.asarray(shares) * (1.0 + 1e-15)
    rank = np.floor(place).astype(np.intp)
    low, high = _row(values, upto, rank), _row(values, upto, rank + 1)
    return np.asarray(low + (place - rank) * (high - low))


def _undefined(why: Note) -> Curve:
    return LineCurve(np.array([0.0, 1.0]), np.full(2, np.nan), (why,))


curve_of_one_class = note("curve-of-one-class", "only one class is present: the likelihood has no maximum")
curve_of_separated_classes = note(
    "curve-of-separated-classes", "the classes are separated by the {nouns.score}: the likelihood has no maximum"
)
curve_did_not_settle = note("curve-did-not-settle", "Newton's method did not converge")


@note("fewer-knots")
def _fewer_knots(voice: Voice, knots: int, sloped: bool) -> str:
    simpler = f"{knots} knots" if knots else "a straight line on the log-odds" if sloped else "a constant"
    return f"too few data for five knots: fitted {simpler}"
