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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.metrics.draws import crossing, sample_cells
from calibrant.metrics.smoothers import SplineCurve, fit_spline
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
"""From true coefficients to the covariance of the fitted ones."""


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
    noise = _noise(draws, len(model.fitted), units, random_state)
    ends = [_along(model, direction, covariance, noise, confidence) for direction in _directions(model, covariance)]
    spread = model.distances(model.fitted + noise @ covariance_root(covariance(model.fitted)).T)
    low, high = np.min([each[0] for each in ends], axis=0), np.max([each[1] for each in ends], axis=0)
    high[-1] = max(high[-1], _highest_maximum(model, covariance, noise, confidence))
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


class SplineModel:
    """Spline features of the cells, and distances as a function of coefficients."""

    def __init__(self, scores: Floats, n: Floats, events: Floats, curve: SplineCurve) -> None:
        self.scores, self.n, self.events, self.curve, self.fitted = scores, n, events, curve, curve.coefficients
        self.features = curve.features(scores)
        self.diagonal = np.zeros(len(self.fitted))
        self.diagonal[0] = curve.center
        if len(self.diagonal) > 1:
            self.diagonal[1] = curve.spread
        self.observed = self.distances(self.fitted[None])[0]

    def rates(self, b: Floats) -> Floats:
        """Event rate of each cell."""
        return expit(np.asarray(b @ self.features))

    def information(self, b: Floats) -> Floats:
        """Expected information about the coefficients."""
        p = self.rates(b)
        return np.asarray((self.features * (self.n * p * (1.0 - p))) @ self.features.T)

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
        for _ in range(4):
            own = model.distances((model.diagonal + d)[None])[0, 0]
            if own > TINY and model.observed[0] > TINY:
                d = d * min(model.observed[0] / own, 10.0)
        made.append(d)
    return made


def _along(
    model: SplineModel, d: Floats, covariance: Covariance, noise: Floats, confidence: float
) -> tuple[Floats, Floats]:
    """Lowest and highest distances that are kept along a line."""
    size = float(np.sqrt(max(float(d @ np.linalg.pinv(covariance(model.diagonal + d), hermitian=True) @ d), 1e-12)))
    if size < 1.0:  # nearer than a standard error
        d, size = d / size, 1.0
    steps = np.unique(np.concatenate([[0.0], np.maximum(1.0 + STEPS / size, 0.0)]))
    truths, upto, below = [], [], []
    draws = len(noise)
    for step in steps.tolist():
        b = model.diagonal + step * d
        truths.append(model.distances(b[None])[0])
        samples = model.distances(b + noise @ covariance_root(covariance(b)).T)
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


def _highest_maximum(model: SplineModel, covariance: Covariance, noise: Floats, confidence: float) -> float:
    r"""Upper end of Emax along the lines on which single points of the curve move fastest.

    The points are the one farthest from the diagonal, and the one whose pointwise band reaches farthest. At a point
    with features x the line is :math:`\hat b \pm \lambda V x`.
    """
    v, x = covariance(model.fitted), model.features
    p = model.rates(model.fitted)
    errors = np.sqrt(np.maximum(np.einsum("ic,ij,jc->c", x, v, x), 0.0))
    wanted, found = float(special.ndtri(0.5 + confidence / 2.0)), 0.0
    reach = np.stack([np.abs(expit(model.fitted @ x + side * wanted * errors) - model.scores) for side in (-1.0, 1.0)])
    side, cell = np.unravel_index(int(reach.argmax()), reach.shape)
    farthest = int(np.abs(p - model.scores).argmax())
    above = bool(p[farthest] >= model.scores[farthest])
    for place, sign in ((int(cell), 2.0 * float(side) - 1.0), (farthest, 2.0 * above - 1.0)):
        if not errors[place] > TINY:
            continue
        d = sign * (v @ x[:, place]) / errors[place]
        steps = STEPS[STEPS >= 0.0]
        path, levels = [], []
        for step in steps.tolist():
            b = model.fitted + step * d
            path.append(float(model.distances(b[None])[0, -1]))
            samples = model.distances(b + noise @ covariance_root(covariance(b)).T)[:, -1]
            share = np.clip((samples <= model.observed[-1]).mean(), 0.5 / len(noise), 1.0 - 0.5 / len(noise))
            levels.append(float(special.ndtri(share)))
        found = max(found, crossing(np.array(path), np.array(levels), -wanted))
    return found
