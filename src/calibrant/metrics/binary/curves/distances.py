r"""Intervals for the distances between a spline calibration curve and the diagonal (ICI, E50, E90, Emax).

The spline is linear in its coefficients, :math:`\operatorname{logit} c_b(s) = b^\top x(s)`, and the diagonal has
coefficients :math:`b_0`. The fitted ones are about normal, :math:`\hat b \sim N(b, V(b))`, with the inverse information
as V, or the cluster sandwich (CR3: sums :math:`S_g` by cluster become :math:`(I - A_g A^{-1})^{-1} S_g`), which is not
taken below the variance of independent rows in any direction, since few clusters underestimate it. A distance
:math:`D(\hat b)` is biased upward, so quantiles of bootstrap samples are not an interval for :math:`D(b)`: a calibrated
model has D = 0, and every sample is above it. Instead a test is inverted along lines from the diagonal,

.. math:: b_\lambda = b_0 + \lambda d, \qquad
          H_\lambda \text{ is kept if } D(\hat b)
          \text{ lies between the quantiles of } D(b_\lambda + V(b_\lambda)^{1/2} t),

where t has Student's t distribution, with the degrees of freedom of the minority class or of the clusters. The interval
holds :math:`D(b_\lambda)` for all kept :math:`\lambda`, and begins at 0 if the diagonal itself is kept. The spread
of D depends on the direction d: a shift of the whole curve makes D more variable than a wave of the same size. So three
directions are used, all scaled to the observed ICI: the fitted curve, its best intercept and slope, and its best shift;
the interval is the smallest that holds all three.

A loess or lowess is linear in the event rates r of the cells, :math:`c = L r`, so its values at the cells are the
coefficients: :math:`V(b) = L \operatorname{diag}(b (1 - b) / n) L^\top` for independent rows, and the sums of
residuals by cluster, smoothed, for clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.metrics.draws import crossing, sample_cells
from calibrant.metrics.smoothers import Method, SplineCurve, fit_spline, smoothing
from calibrant.numerics import Floats, covariance_root, expit
from calibrant.tallies import Clusters, Tally

DRAWS = 600
"""Random coefficients at each step, if no more are asked for."""

NAMES = ("ici", "e50", "e90", "emax")
"""The distances, in their order."""

STEPS = np.array([-4.0, -3.0, -2.3, -1.6, -0.8, 0.0, 0.8, 1.6, 2.3, 3.0, 4.5, 7.0])
"""Distance of the steps from the fitted curve, in standard errors along the line."""

TINY = 1e-9
"""Distances below this are 0: rounding of the log-odds."""


Covariance = Callable[[Floats], Floats]
"""From true coefficients to the covariance of the fitted ones, or to a root of it."""


@dataclass(frozen=True, eq=False)
class CurveIntervals:
    """Standard errors, and ends of intervals, of ICI, E50, E90 and Emax; and the number of independent units."""

    se: Floats
    low: Floats
    high: Floats
    units: float


def spline_intervals(
    data: Tally | Clusters, draws: int = DRAWS, random_state: int = 0, confidence: float = 0.95
) -> CurveIntervals | None:
    """Intervals of the four distances; None without a curve, or with fewer than two independent units.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(1000)
    >>> found = spline_intervals(Tally.from_arrays(scores, rng.random(1000) < scores))
    >>> found.low.tolist(), bool((found.high > 0.0).all())
    ([0.0, 0.0, 0.0, 0.0], True)
    """
    found = fitted_model(data)
    if found is None or not found[1] >= 2.0:
        return None
    model, units, covariance = found

    def away(d: Floats) -> float:
        return float(d @ np.linalg.pinv(covariance(model.diagonal + d), hermitian=True) @ d)

    directions = [(d, away(d)) for d in _directions(model, covariance)]
    noise = _noise(draws, len(model.fitted), units, random_state)
    return _intervals(model, directions, lambda b: covariance_root(covariance(b)), noise, units, confidence)


def smoother_intervals(
    data: Tally | Clusters, method: Method, draws: int = DRAWS, random_state: int = 0, confidence: float = 0.95
) -> CurveIntervals | None:
    """The same for a loess or lowess; None with one class, or with fewer than two independent units."""
    data = data.in_effective_rows()
    tally = data.tally if isinstance(data, Clusters) else data
    counts = (np.asarray(each, dtype=np.float64) for each in (tally.n, tally.events))
    scores, place = sample_cells(np.asarray(tally.scores), np.asarray(tally.n, dtype=np.float64))
    n, events = (np.bincount(place, each, len(scores)).astype(np.float64) for each in counts)
    units = min(float(events.sum()), float((n - events).sum()))
    if not units >= 2.0:
        return None
    weights = smoothing(method, scores, n)
    model, least = Model(scores, n, weights @ (events / n), scores), 0.5 / float(n.sum())

    def root(b: Floats) -> Floats:
        p = np.clip(b, least, 1.0 - least)
        return np.asarray(weights * np.sqrt(p * (1.0 - p) / n))

    own: Floats | None = None
    if isinstance(data, Clusters):
        cell, size = place[data.cell], data.size
        units = min(float(data.n.sum() ** 2 / (np.bincount(data.cluster, data.n, size) ** 2).sum()), units)
        sums = np.zeros((len(scores), size))
        np.add.at(sums, (cell, data.cluster), data.events - data.n * model.fitted[cell])
        own = np.asarray(weights @ (sums / n[:, None]) * np.sqrt(size / (size - 1.0)))
        independent, together = (np.sqrt((each * each).sum(axis=1)) for each in (root(model.fitted), own))
        own *= np.maximum(independent / np.maximum(together, TINY), 1.0)[:, None]

    def spread(b: Floats) -> Floats:
        return root(b) if own is None else own

    noise = _noise(draws, spread(model.fitted).shape[1], units, random_state)
    line, gap = fit_spline(scores, n, events, 0).at(scores), model.fitted - scores
    directions = []
    for d in (gap, line - scores, scores * (1.0 - scores) * np.sign(float(gap @ n) or 1.0)):
        d = model.scaled(np.where(np.isfinite(d), d, gap))
        error = float((noise @ spread(model.diagonal + d).T @ (n * d)).std())
        directions.append((d, (float(n @ (d * d)) / max(error, TINY)) ** 2))
    return _intervals(model, directions, spread, noise, units, confidence)


def _intervals(
    model: Model,
    directions: list[tuple[Floats, float]],
    root: Covariance,
    noise: Floats,
    units: float,
    confidence: float,
) -> CurveIntervals:
    ends = [_along(model, d, away, root, noise, confidence) for d, away in directions]
    spread = model.distances(model.fitted + noise @ root(model.fitted).T)
    low, high = np.min([each[0] for each in ends], axis=0), np.max([each[1] for each in ends], axis=0)
    high[-1] = max(high[-1], _highest_maximum(model, root, noise, confidence))
    high = np.maximum(np.minimum(high, 1.0), low)
    return CurveIntervals(spread.std(axis=0, ddof=1), low, high, units)


def fitted_model(data: Tally | Clusters, most_knots: int = 5) -> tuple[SplineModel, float, Covariance] | None:
    """The fitted spline, the number of independent units, and the covariance of coefficients; None without a curve."""
    data = data.in_effective_rows()
    tally = data.tally if isinstance(data, Clusters) else data
    counts = (np.asarray(each, dtype=np.float64) for each in (tally.n, tally.events))
    scores, place = sample_cells(np.asarray(tally.scores), np.asarray(tally.n, dtype=np.float64))
    n, events = (np.bincount(place, each, len(scores)).astype(np.float64) for each in counts)
    curve = fit_spline(scores, n, events, most_knots)
    if not isinstance(curve, SplineCurve):
        return None
    model = SplineModel(scores, n, events, curve)
    return model, *_covariance(model, data, place)


class Model:
    """Distances of a curve as a function of its coefficients, which are its values at the cells."""

    def __init__(self, scores: Floats, n: Floats, fitted: Floats, diagonal: Floats) -> None:
        self.scores, self.n, self.fitted, self.diagonal = scores, n, fitted, diagonal
        self.observed = self.distances(self.fitted[None])[0]

    def rates(self, b: Floats) -> Floats:
        """Event rate of each cell."""
        return b

    def moved(self, root: Floats) -> Floats:
        """How much each random number moves each cell, on the scale on which coefficients are added."""
        return root

    def shifted(self, errors: Floats) -> Floats:
        """Rates of the fitted curve moved by these errors."""
        return self.fitted + errors

    def scaled(self, d: Floats) -> Floats:
        """A direction as long as from the diagonal to the observed ICI."""
        for _ in range(4):
            own = self.distances((self.diagonal + d)[None])[0, 0]
            if own > TINY and self.observed[0] > TINY:
                d = d * min(self.observed[0] / own, 10.0)
        return d

    def distances(self, b: Floats) -> Floats:
        """Mean, median, 90 % quantile and maximum over rows, for each line of coefficients."""
        gap = np.abs(self.rates(b) - self.scores)
        gap[gap < TINY] = 0.0
        order = np.argsort(gap, axis=1)
        ranked = np.take_along_axis(gap, order, axis=1)
        upto = np.cumsum(self.n[order], axis=1)
        total, line = float(self.n.sum()), np.arange(len(gap))
        found = [np.asarray(gap @ self.n) / total]
        for share in (0.5, 0.9):
            found.append(ranked[line, np.argmax(upto >= share * total * (1.0 - 1e-12), axis=1)])
        return np.stack([*found, ranked[:, -1]], axis=1)


class SplineModel(Model):
    """The same for a spline, whose coefficients are those of its features."""

    def __init__(self, scores: Floats, n: Floats, events: Floats, curve: SplineCurve) -> None:
        self.events, self.curve, self.features = events, curve, curve.features(scores)
        diagonal = np.zeros(len(curve.coefficients))
        diagonal[: min(len(diagonal), 2)] = (curve.center, curve.spread)[: len(diagonal)]
        super().__init__(scores, n, curve.coefficients, diagonal)

    def rates(self, b: Floats) -> Floats:
        """Event rate of each cell."""
        return expit(np.asarray(b @ self.features))

    def moved(self, root: Floats) -> Floats:
        """How much each random number moves the log-odds of each cell."""
        return self.features.T @ root

    def shifted(self, errors: Floats) -> Floats:
        """Rates of the fitted curve, moved by these errors of its log-odds."""
        return expit(self.fitted @ self.features + errors)

    def information(self, b: Floats) -> Floats:
        """Expected information about the coefficients."""
        p = self.rates(b)
        return np.asarray((self.features * (self.n * p * (1.0 - p))) @ self.features.T)


def _covariance(model: SplineModel, data: Tally | Clusters, place: NDArray[np.intp]) -> tuple[float, Covariance]:
    """Independent units, and the covariance of the coefficients if their true values are given."""
    hits = float(model.events.sum())
    rarer = min(hits, float(model.n.sum()) - hits)
    if isinstance(data, Tally):
        return rarer, lambda b: _inverse(model.information(b))
    cell, cluster, size = place[data.cell], data.cluster, data.size
    rows = np.bincount(cluster, data.n, size)
    p, width = model.rates(model.fitted), len(model.fitted)
    residual, variance = data.events - data.n * p[cell], data.n * (p * (1.0 - p))[cell]
    x = model.features[:, cell]
    sums: Floats = np.stack([np.bincount(cluster, residual * each, size).astype(np.float64) for each in x], axis=1)
    parts = np.empty((size, width, width))
    for i in range(width):
        for j in range(i, width):
            parts[:, i, j] = parts[:, j, i] = np.bincount(cluster, variance * x[i] * x[j], size)
    inverse = _inverse(model.information(model.fitted))
    left = (1.0 + 1e-9) * np.eye(width) - parts @ inverse
    sums = np.asarray(np.linalg.solve(left, sums[:, :, None])[:, :, 0], dtype=np.float64)
    meat = _at_least(sums.T @ sums, model.information(model.fitted))

    def sandwich(b: Floats) -> Floats:
        bread = _inverse(model.information(b))
        return np.asarray(bread @ meat @ bread)

    return min(float(rows.sum() ** 2 / (rows * rows).sum()), rarer), sandwich


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)


def _at_least(meat: Floats, information: Floats) -> Floats:
    """The variance of the score, in no direction below that of independent rows."""
    root = covariance_root(information)
    inverse = np.linalg.pinv(root)
    values, vectors = np.linalg.eigh(inverse @ meat @ inverse.T)
    turned = root @ vectors
    return np.asarray((turned * np.maximum(values, 1.0)) @ turned.T)


def _noise(draws: int, width: int, units: float, random_state: int) -> Floats:
    rng = np.random.default_rng([int(random_state), 7])
    normal = rng.standard_normal((draws, width))
    return np.asarray(normal * np.sqrt((units - 1.0) / rng.chisquare(units - 1.0, draws))[:, None])


def _directions(model: SplineModel, covariance: Covariance) -> list[Floats]:
    """Fitted curve, its best intercept and slope, and its best shift, as far from the diagonal as the fitted one."""
    gap, information = model.fitted - model.diagonal, model.information(model.fitted)
    wide = [len(gap)] + [size for size in (2, 1) if size < len(gap)]
    made = []
    for size in wide:
        d = np.zeros(len(gap))
        d[:size] = np.linalg.lstsq(information[:size, :size], information[:size] @ gap, rcond=None)[0]
        if not np.abs(d).max() > TINY:
            d[0] = np.sqrt(max(float(covariance(model.diagonal)[0, 0]), TINY))
        made.append(model.scaled(d))
    return made


def _along(
    model: Model, d: Floats, away: float, root: Covariance, noise: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Lowest and highest distances that are kept along a line, whose square length in standard errors is ``away``."""
    size = float(np.sqrt(max(away, 1e-12)))
    if size < 1.0:  # nearer than a standard error
        d, size = d / size, 1.0
    steps = np.unique(np.concatenate([[0.0], np.maximum(1.0 + STEPS / size, 0.0)]))
    truths, upto, below = [], [], []
    draws = len(noise)
    for step in steps.tolist():
        b = model.diagonal + step * d
        truths.append(model.distances(b[None])[0])
        samples = model.distances(b + noise @ root(b).T)
        shares = ((samples <= model.observed).mean(axis=0), (samples < model.observed).mean(axis=0))
        above, under = (special.ndtri(np.clip(each, 0.5 / draws, 1.0 - 0.5 / draws)) for each in shares)
        upto.append(above)
        below.append(under)
    errors = float(special.ndtri(0.5 + confidence / 2.0))
    low, high = np.empty(4), np.empty(4)
    for place, seen in enumerate(model.observed):
        path = np.array([each[place] for each in truths])
        low[place] = min(crossing(path, np.array([each[place] for each in below]), errors), float(seen))
        high[place] = max(crossing(path, np.array([each[place] for each in upto]), -errors), float(seen))
    return low, high


def _highest_maximum(model: Model, root: Covariance, noise: Floats, confidence: float) -> float:
    r"""Upper end of Emax along the lines on which single points of the curve move fastest.

    The points are the one farthest from the diagonal, and the one whose pointwise band reaches farthest. At a point
    with features x the line is :math:`\hat b \pm \lambda V x`.
    """
    own = root(model.fitted)
    moved = model.moved(own)
    p = model.rates(model.fitted)
    errors = np.sqrt((moved * moved).sum(axis=1))
    wanted, found = float(special.ndtri(0.5 + confidence / 2.0)), 0.0
    reach = np.stack([np.abs(model.shifted(side * wanted * errors) - model.scores) for side in (-1.0, 1.0)])
    side, cell = np.unravel_index(int(reach.argmax()), reach.shape)
    farthest = int(np.abs(p - model.scores).argmax())
    above = bool(p[farthest] >= model.scores[farthest])
    for place, sign in ((int(cell), 2.0 * float(side) - 1.0), (farthest, 2.0 * above - 1.0)):
        if not errors[place] > TINY:
            continue
        d = sign * (own @ moved[place]) / errors[place]
        steps = STEPS[STEPS >= 0.0]
        path, levels = [], []
        for step in steps.tolist():
            b = model.fitted + step * d
            path.append(float(model.distances(b[None])[0, -1]))
            samples = model.distances(b + noise @ root(b).T)[:, -1]
            share = np.clip((samples <= model.observed[-1]).mean(), 0.5 / len(noise), 1.0 - 0.5 / len(noise))
            levels.append(float(special.ndtri(share)))
        found = max(found, crossing(np.array(path), np.array(levels), -wanted))
    return found
