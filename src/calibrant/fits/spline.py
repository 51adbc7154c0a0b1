r"""Fit a monotone spline of the log-odds to a tally, by penalized maximum likelihood.

The slope of the curve is piecewise linear between K knots and constant beyond the outer ones. So the curve is a
quadratic spline with straight ends; it is non-decreasing if and only if no slope at a knot is negative, and its
roughness is a sum over neighboring slopes. The problem to solve is small: K bounds, on at most some hundred cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.fits.curves import Curve, tabulate
from calibrant.fits.scaling import DEFAULT, Scaling, Support, Targets, fit_platt
from calibrant.maps import Axis, LogitAffineMap, Map
from calibrant.messages import InputError, Note
from calibrant.numerics import Floats, Grid, expit, logit
from calibrant.solvers import Derivatives, damped_newton, softplus
from calibrant.tallies import Tally, end_notes
from calibrant.tallies.cells import mass_below

KNOTS = 24
"""Default maximum number of knots."""

PENALTIES = 4.0 ** np.arange(9.0, -6.0, -1.0)
"""Penalties that are tried, from smooth to rough."""

MIN_CURVE_FREEDOM = 0.05
"""A curve with fewer effective parameters beyond the two of a line is replaced by the line, which is the map of Platt
scaling except for the merging of cells."""

MAX_CRITERION_RISE = 6.0
"""Rise of the criterion above its minimum, in nats, at which rougher curves are not tried."""

MAX_EXACT_CELLS = 1 << 16
"""Exact tallies of more cells are put on the grid first, which is faster than taking their logarithms."""

MASS_GROUPS, WIDTH_GROUPS, MAX_CELLS = 256, 128, 512
"""Tallies of more cells than the last number are merged into groups: limits on the mass and the width of a group."""

MIN_RELATIVE_RANGE = 1e-6
"""Scores with a smaller range relative to their size support at most an intercept and a slope."""

RIDGE = 1e-12
"""Relative ridge for the solution of linear systems."""

ROUGH_TOLERANCE, NEWTON_TOLERANCE = 1e-2, 1e-10
"""Expected decrease, in nats, at which Newton's method stops: while penalties are compared, and at the end."""


@dataclass(frozen=True)
class SplineFit:
    """A fitted spline as a map, notes for the user, the penalty, and the effective number of parameters."""

    map: Map
    notes: tuple[Note, ...]
    penalty: float
    freedom: float


@dataclass(frozen=True, eq=False)
class _Cells:
    """Positions, weights and (possibly soft) events."""

    x: Floats
    n: Floats
    events: Floats


def fit_spline(
    tally: Tally, how: Scaling = DEFAULT, *, n_knots: int = KNOTS, penalty: float | None = None
) -> SplineFit:
    """The spline of :class:`~calibrant.calibrators.binary.spline.SplineCalibrator`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(20_000)
    >>> fit = fit_spline(Tally.from_arrays(scores, rng.random(20_000) < scores**3))
    >>> fit.map.apply(np.array([0.5, 0.8])).round(2).tolist(), round(fit.freedom, 1)
    ([0.13, 0.52], 6.7)
    """
    _check(n_knots, penalty)
    if not tally.has_interior:
        return _platt(tally, how)
    ends, read = tally.ends, end_notes(tally)
    support = Support.of(tally)
    targets = Targets.of(support, how)
    cells = _cells(tally, targets)
    low, high = float(cells.x[0]), float(cells.x[-1])
    center, half = low / 2 + high / 2, high / 2 - low / 2
    if len(cells.x) < 3 or half <= MIN_RELATIVE_RANGE * abs(center) or penalty == np.inf:
        return _platt(tally, how)
    unit = _Cells((cells.x - center) / half, cells.n, cells.events)
    line = _line(unit)
    knots, spread = _knots(unit, line, n_knots)
    tried = PENALTIES if penalty is None else np.array([penalty])
    best, coefficients, freedom = _search(unit, line, knots, spread, tried)
    if penalty is None and freedom < 2.0 + MIN_CURVE_FREEDOM:
        axis: Axis = "log-odds" if tally.score_type == "probability" else "score"
        straight = LogitAffineMap(line[1] / half, line[0] - line[1] * center / half, axis, *ends)
        return SplineFit(how.finish(straight, tally), (*read, *targets.notes), float("inf"), 2.0)
    fitted = how.finish(tabulate(_Spline(tally.score_type, ends, center, half, knots, coefficients)), tally)
    return SplineFit(fitted, (*read, *targets.notes), best, freedom)


def _check(n_knots: int, penalty: float | None) -> None:
    if not (isinstance(n_knots, int | np.integer) and 2 <= n_knots <= 100):
        raise InputError("n_knots", f"must be an integer from 2 to 100, got {n_knots!r}")
    if penalty is not None and not penalty > 0:
        raise InputError("penalty", f"must be positive, or None to choose it, got {penalty!r}")


def _platt(tally: Tally, how: Scaling) -> SplineFit:
    fitted, notes = fit_platt(tally, how)
    return SplineFit(fitted, notes, float("inf"), 2.0)


# ------------------------------------------------------------------------------------------------------------- the data


def _cells(tally: Tally, targets: Targets) -> _Cells:
    """Cells by log-odds (or real score), few enough for a hundred passes."""
    ends = tally.ends
    if tally.score_type == "probability" and tally.resolution == "exact" and len(tally) > MAX_EXACT_CELLS:
        tally = tally.coarsen(Grid())
    x = logit(tally.scores, ends) if tally.score_type == "probability" else tally.scores
    n, events = tally.n.astype(np.float64), tally.events.astype(np.float64)
    starts = np.flatnonzero(np.append(True, x[1:] > x[:-1]))  # scores beyond an end share its log-odds
    if len(starts) > MAX_CELLS:
        starts = _group_starts(x, n)
    weight, hits = np.add.reduceat(n, starts), np.add.reduceat(events, starts)
    means = np.add.reduceat(x * (n / n.max()), starts) / np.add.reduceat(n / n.max(), starts)
    return _Cells(means, weight, hits * targets.hit + (weight - hits) * targets.miss)


def _group_starts(x: Floats, n: Floats) -> NDArray[np.intp]:
    """First cell of each group; within a group the curve is nearly straight, so that the mean represents its cells."""
    before = mass_below(n)
    mass = np.floor(before * (MASS_GROUPS / n.sum()))
    width = np.floor((x / 2 - x[0] / 2) * (WIDTH_GROUPS / (x[-1] / 2 - x[0] / 2)))
    return np.flatnonzero(np.append(True, (mass[1:] > mass[:-1]) | (width[1:] > width[:-1])))


def _line(cells: _Cells) -> Floats:
    """Intercept and slope of the best non-decreasing line: the curve with one knot."""
    return _minimize(_basis(cells.x, np.zeros(1)), cells, np.zeros((2, 2)), np.zeros(2))[1]


def _knots(cells: _Cells, line: Floats, n_knots: int) -> tuple[Floats, float]:
    """Knots at quantiles, half of rows and half of Fisher information, and the standard deviation of the positions.

    By rows alone, rare events would have few knots where they occur; by information alone, a wrong initial estimate of
    the rates could leave a tail without knots.
    """
    p = expit(line[0] + line[1] * cells.x)
    information = cells.n * p * (1.0 - p)
    share = cells.n / cells.n.sum() + information / information.sum()
    share /= share.sum()
    mean = float((share * cells.x).sum())
    spread = float(np.sqrt((share * (cells.x - mean) ** 2).sum()))
    count = min(n_knots, len(cells.x))
    knots = np.interp((np.arange(count) + 0.5) / count, mass_below(share), cells.x)
    apart = np.append(True, np.diff(knots) > 1e-4 * spread)
    return knots[apart], spread


# -------------------------------------------------------------------------------------------------------------- the fit


def _basis(x: Floats, knots: Floats) -> Floats:
    """Constant 1, and the integrals of the hat functions of the slope; the outer hats are constant beyond the knots."""
    gaps = np.diff(knots)[:, None]
    past = np.clip(x - knots[:-1, None], 0.0, gaps)
    ramps = past**2 / (2 * gaps) + np.maximum(x - knots[1:, None], 0.0)
    slopes = np.vstack([x - knots[0], ramps])
    slopes[:-1] -= slopes[1:]
    return np.vstack([np.ones(len(x)), slopes])


def _roughness(knots: Floats) -> Floats:
    r"""The matrix of :math:`\int (f'')^2`, the sum over intervals of the squared change of slope over the width."""
    change = np.diff(np.eye(len(knots)), axis=0) / np.sqrt(np.diff(knots))[:, None]
    matrix = np.zeros((len(knots) + 1, len(knots) + 1))
    matrix[1:, 1:] = np.einsum("ij,ik->jk", change, change)
    return matrix


def _search(
    cells: _Cells, line: Floats, knots: Floats, spread: float, penalties: Floats
) -> tuple[float, Floats, float]:
    """The penalty with the lowest criterion, its coefficients and their effective number.

    Every other penalty is tried first, starting with the smoothest, then the neighbors of the best.
    """
    basis, roughness = _basis(cells.x, knots), _roughness(knots) * spread**3
    reached: dict[int, tuple[float, Floats]] = {}

    def visit(index: int, start: Floats) -> float:
        matrix = penalties[index] * roughness
        state, beta = _minimize(basis, cells, matrix, start, ROUGH_TOLERANCE)
        reached[index] = _criterion(state, matrix, penalties[index]), beta
        return reached[index][0]

    beta, least = np.append(line[0] + line[1] * knots[0], np.full(len(knots), line[1])), np.inf
    for index in range(0, len(penalties), 2):
        criterion = visit(index, beta)
        beta, least = reached[index][1], min(least, criterion)
        if criterion > least + MAX_CRITERION_RISE:
            break
    best = min(reached, key=lambda index: reached[index][0])
    for index in {best - 1, best + 1} & set(range(len(penalties))):
        visit(index, reached[best][1])
    best = min(reached, key=lambda index: reached[index][0])
    state, beta = _minimize(basis, cells, penalties[best] * roughness, reached[best][1])
    return float(penalties[best]), beta, _freedom(state, penalties[best] * roughness, beta)


def _criterion(state: Derivatives, matrix: Floats, penalty: float) -> float:
    """Negative log posterior of the penalty, up to a constant.

    The marginal likelihood is by Laplace's method. The prior of 1 / sqrt(penalty), the variation of the slope over a
    standard deviation of the scores, is exponential with mean 1. With few rows it shrinks the curve toward a line; with
    many rows it has little effect.
    """
    half_log = 0.5 * float(np.linalg.slogdet(state.curvature + matrix)[1])
    return state.loss + half_log - 0.5 * (len(matrix) - 2) * float(np.log(penalty)) + float(penalty**-0.5)


def _freedom(state: Derivatives, matrix: Floats, beta: Floats) -> float:
    """Effective number of parameters: trace of the hat matrix over slopes that are not at their bound."""
    free = np.append(True, beta[1:] > 0.0)
    curvature, whole = state.curvature[free][:, free], (state.curvature + matrix)[free][:, free]
    spread = np.linalg.lstsq(whole, curvature, rcond=None)[0]  # slopes between two tied scores may have no effect
    return float(np.trace(spread))


def _minimize(
    basis: Floats, cells: _Cells, roughness: Floats, start: Floats, settled: float = NEWTON_TOLERANCE
) -> tuple[Derivatives, Floats]:
    """Newton's method with bounds: each step minimizes the quadratic model within them."""
    found = damped_newton(
        lambda beta: _state(basis, cells, roughness, beta),
        lambda beta, state: _bounded_minimum(state.curvature + roughness, state.gradient, beta) - beta,
        start,
        lambda _: settled,
        lambda beta: np.append(beta[0], np.maximum(beta[1:], 0.0)),
    )
    return found.there, found.point


def _state(basis: Floats, cells: _Cells, roughness: Floats, beta: Floats) -> Derivatives:
    """Penalized loss and its gradient, and the Hessian of the loss without penalty."""
    z = np.einsum("j,jc->c", beta, basis)
    value, p = softplus(z)
    pull = np.einsum("jk,k->j", roughness, beta)
    loss = (cells.n * value - cells.events * z).sum() + 0.5 * (beta * pull).sum()
    gradient = np.einsum("jc,c->j", basis, cells.n * p - cells.events) + pull
    curvature = np.einsum("jc,kc->jk", basis * (cells.n * p * (1.0 - p)), basis)
    return Derivatives(float(loss), gradient, curvature)


def _bounded_minimum(matrix: Floats, gradient: Floats, start: Floats) -> Floats:
    """Minimum of the quadratic with this gradient at ``start``, all coefficients except the first at least zero.

    Active-set method: move toward the minimum with some coefficients fixed at zero, fix the first one that reaches
    zero, and release the one with the most negative gradient. Finite, because the value decreases with each set.
    """
    matrix = matrix + RIDGE * matrix.max() * np.eye(len(start))
    if (start[1:] > 0.0).all():
        straight = start - np.linalg.solve(matrix, gradient)
        if (straight[1:] >= 0.0).all():
            return np.asarray(straight)
    here, fixed, slope = start, np.append(False, (start[1:] <= 0.0) & (gradient[1:] > 0.0)), gradient
    for _ in range(10 * len(start)):
        here, met = _walk(matrix, slope, here, ~fixed)
        slope = gradient + np.einsum("jk,k->j", matrix, here - start)
        if met is not None:
            fixed[met] = True
            continue
        pull = np.where(fixed, slope, 0.0)
        if pull.min() >= -1e-9 * np.abs(slope).max(initial=NEWTON_TOLERANCE):
            break
        fixed[int(np.argmin(pull))] = False
    return np.append(here[0], np.maximum(here[1:], 0.0))


def _walk(matrix: Floats, slope: Floats, here: Floats, free: NDArray[np.bool_]) -> tuple[Floats, int | None]:
    """Move toward the minimum over free coefficients until one would become negative; and which one that is."""
    move = np.zeros(len(here))
    move[free] = np.linalg.solve(matrix[free][:, free], -slope[free])
    blocked = free & (here + move < 0.0)
    blocked[0] = False
    if not blocked.any():
        return here + move, None
    reach = np.where(blocked, here / np.where(blocked, -move, 1.0), np.inf)
    met = int(np.argmin(reach))
    there = here + reach[met] * move
    there[met] = 0.0
    return there, met


@dataclass(frozen=True, eq=False)
class _Spline(Curve):
    """The fitted log-odds."""

    coefficients: Floats

    def at(self, u: Floats) -> tuple[Floats, Floats, Floats]:
        """Value, first and second derivative."""
        slopes = self.coefficients[1:]
        value = np.einsum("j,jc->c", self.coefficients, _basis(u, self.knots))
        bends = np.concatenate([[0.0], np.diff(slopes) / np.diff(self.knots), [0.0]])
        return value, np.interp(u, self.knots, slopes), bends[np.searchsorted(self.knots, u)]
