r"""How a monotone spline of the log-odds is fitted, from a tally to a map, by penalised maximum likelihood.

The slope of the curve is piecewise linear between K knots and constant beyond the outer ones, so the curve is a
quadratic spline with straight ends, it never falls if and only if no slope at a knot is negative, and its roughness is
a sum over neighbouring slopes. A small problem with K bounds is all that is solved, on at most some hundred cells.
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
PENALTIES = 4.0 ** np.arange(9.0, -6.0, -1.0)
"""What is tried, roughest last."""
HARDLY = 0.05
"""A curve with so few parameters more than a line's two is not kept: the line is taken instead, which is Platt's map
but for the joining of cells."""
GIVE_UP = 6.0
"""How far the criterion may rise above its least value, in nats, before rougher curves are left untried."""

GRIDDED_CELLS = 1 << 16
"""Exact tallies of more cells are put on the grid first, which is faster than their logarithms."""
MASS_GROUPS, WIDTH_GROUPS, KEPT_CELLS = 256, 128, 512
"""Tallies of more cells than the last are joined in groups of equal mass, none wider than a share of the range."""

NARROW = 1e-6
"""Scores whose range is a smaller share of their size than this show a level and a slope at most."""

RIDGE = 1e-12
ROUGHLY, SETTLED = 1e-2, 1e-10
"""Expected descents, in nats, at which Newton's method ends: while penalties are compared, and at the last."""


@dataclass(frozen=True)
class SplineFit:
    """A fitted spline as a map, what its user must know, the penalty, and the effective number of parameters."""

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
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    if len(cells.x) < 3 or half <= NARROW * abs(centre) or penalty == np.inf:
        return _platt(tally, how)
    unit = _Cells((cells.x - centre) / half, cells.n, cells.events)
    line = _line(unit)
    knots, spread = _knots(unit, line, n_knots)
    tried = PENALTIES if penalty is None else np.array([penalty])
    best, coefficients, freedom = _search(unit, line, knots, spread, tried)
    if penalty is None and freedom < 2.0 + HARDLY:
        axis: Axis = "log-odds" if tally.kind == "probability" else "score"
        straight = LogitAffineMap(line[1] / half, line[0] - line[1] * centre / half, axis, *ends)
        return SplineFit(how.finish(straight, tally), (*read, *targets.notes), float("inf"), 2.0)
    fitted = how.finish(tabulate(_Spline(tally.kind, ends, centre, half, knots, coefficients)), tally)
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
    """Cells by log-odds (or real score), few enough to pass over a hundred times."""
    ends = tally.ends
    if tally.kind == "probability" and tally.resolution == "exact" and len(tally) > GRIDDED_CELLS:
        tally = tally.coarsen(Grid())
    x = logit(tally.scores, ends) if tally.kind == "probability" else tally.scores
    n, events = tally.n.astype(np.float64), tally.events.astype(np.float64)
    starts = np.flatnonzero(np.append(True, x[1:] > x[:-1]))  # scores beyond an end share its log-odds
    if len(starts) > KEPT_CELLS:
        starts = _group_starts(x, n)
    weight, hits = np.add.reduceat(n, starts), np.add.reduceat(events, starts)
    means = np.add.reduceat(x * (n / n.max()), starts) / np.add.reduceat(n / n.max(), starts)
    return _Cells(means, weight, hits * targets.hit + (weight - hits) * targets.miss)


def _group_starts(x: Floats, n: Floats) -> NDArray[np.intp]:
    """First cell of each group; inside one the curve is so nearly straight that its mean stands for its cells."""
    before = mass_below(n)
    mass = np.floor(before * (MASS_GROUPS / n.sum()))
    width = np.floor((x / 2 - x[0] / 2) * (WIDTH_GROUPS / (x[-1] / 2 - x[0] / 2)))
    return np.flatnonzero(np.append(True, (mass[1:] > mass[:-1]) | (width[1:] > width[:-1])))


def _line(cells: _Cells) -> Floats:
    """Level and slope of the best line that does not fall: the curve with one knot."""
    return _minimize(_basis(cells.x, np.zeros(1)), cells, np.zeros((2, 2)), np.zeros(2))[1]


def _knots(cells: _Cells, line: Floats, n_knots: int) -> tuple[Floats, float]:
    """Knots at quantiles, half of rows and half of Fisher information, and the standard deviation of the positions.

    By rows alone, rare events would have hardly a knot where they happen; by information alone, a wrong first guess of
    the rates could leave a tail without one.
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
    """One, and the integrals of the hat functions that carry the slope; the outer hats go on for ever."""
    gaps = np.diff(knots)[:, None]
    past = np.clip(x - knots[:-1, None], 0.0, gaps)
    ramps = past**2 / (2 * gaps) + np.maximum(x - knots[1:, None], 0.0)
    slopes = np.vstack([x - knots[0], ramps])
    slopes[:-1] -= slopes[1:]
    return np.vstack([np.ones(len(x)), slopes])


def _roughness(knots: Floats) -> Floats:
    r"""The matrix of :math:`\int (f'')^2`, the sum over gaps of the squared change of slope by the gap's width."""
    change = np.diff(np.eye(len(knots)), axis=0) / np.sqrt(np.diff(knots))[:, None]
    matrix = np.zeros((len(knots) + 1, len(knots) + 1))
    matrix[1:, 1:] = np.einsum("ij,ik->jk", change, change)
    return matrix


def _search(
    cells: _Cells, line: Floats, knots: Floats, spread: float, penalties: Floats
) -> tuple[float, Floats, float]:
    """The penalty of least criterion, with its coefficients and their effective number.

    Every other penalty first, from the smoothest on, then the neighbours of the best.
    """
    basis, roughness = _basis(cells.x, knots), _roughness(knots) * spread**3
    reached: dict[int, tuple[float, Floats]] = {}

    def visit(index: int, start: Floats) -> float:
        matrix = penalties[index] * roughness
        state, beta = _minimize(basis, cells, matrix, start, ROUGHLY)
        reached[index] = _criterion(state, matrix, penalties[index]), beta
        return reached[index][0]

    beta, least = np.append(line[0] + line[1] * knots[0], np.full(len(knots), line[1])), np.inf
    for index in range(0, len(penalties), 2):
        criterion = visit(index, beta)
        beta, least = reached[index][1], min(least, criterion)
        if criterion > least + GIVE_UP:
            break
    best = min(reached, key=lambda index: reached[index][0])
    for index in {best - 1, best + 1} & set(range(len(penalties))):
        visit(index, reached[best][1])
    best = min(reached, key=lambda index: reached[index][0])
    state, beta = _minimize(basis, cells, penalties[best] * roughness, reached[best][1])
    return float(penalties[best]), beta, _freedom(state, penalties[best] * roughness, beta)


def _criterion(state: Derivatives, matrix: Floats, penalty: float) -> float:
    """Minus the log of the posterior of the penalty, up to a constant.

    The marginal likelihood is Laplace's. The prior of 1 / sqrt(penalty), by how much the slope wanders over a standard
    deviation of the scores, is exponential with mean 1, which draws few rows towards a line and many rows nowhere.
    """
    half_log = 0.5 * float(np.linalg.slogdet(state.curvature + matrix)[1])
    return state.loss + half_log - 0.5 * (len(matrix) - 2) * float(np.log(penalty)) + float(penalty**-0.5)


def _freedom(state: Derivatives, matrix: Floats, beta: Floats) -> float:
    """Trace of the matrix that takes labels to fitted log-odds, over slopes that are free to move."""
    free = np.append(True, beta[1:] > 0.0)
    curvature, whole = state.curvature[free][:, free], (state.curvature + matrix)[free][:, free]
    spread = np.linalg.lstsq(whole, curvature, rcond=None)[0]  # slopes between two heaps of scores may have no say
    return float(np.trace(spread))


def _minimize(
    basis: Floats, cells: _Cells, roughness: Floats, start: Floats, settled: float = SETTLED
) -> tuple[Derivatives, Floats]:
    """Newton's method with bounds: each step is the best within them for the quadratic model."""
    found = damped_newton(
        lambda beta: _state(basis, cells, roughness, beta),
        lambda beta, state: _bounded_minimum(state.curvature + roughness, state.gradient, beta) - beta,
        start,
        lambda _: settled,
        lambda beta: np.append(beta[0], np.maximum(beta[1:], 0.0)),
    )
    return found.there, found.point


def _state(basis: Floats, cells: _Cells, roughness: Floats, beta: Floats) -> Derivatives:
    """Penalized loss and its gradient, and the curvature of the loss without penalty."""
    z = np.einsum("j,jc->c", beta, basis)
    value, p = softplus(z)
    pull = np.einsum("jk,k->j", roughness, beta)
    loss = (cells.n * value - cells.events * z).sum() + 0.5 * (beta * pull).sum()
    gradient = np.einsum("jc,c->j", basis, cells.n * p - cells.events) + pull
    curvature = np.einsum("jc,kc->jk", basis * (cells.n * p * (1.0 - p)), basis)
    return Derivatives(float(loss), gradient, curvature)


def _bounded_minimum(matrix: Floats, gradient: Floats, start: Floats) -> Floats:
    """Where the quadratic with this gradient at ``start`` is least, all coefficients but the first at least zero.

    Active sets: walk towards the minimum with some coefficients held at zero, hold the one that meets it on the way,
    let go of the one that pulls most; finite, as the value falls with each set.
    """
    matrix = matrix + RIDGE * matrix.max() * np.eye(len(start))
    if (start[1:] > 0.0).all():
        straight = start - np.linalg.solve(matrix, gradient)
        if (straight[1:] >= 0.0).all():
            return np.asarray(straight)
    here, held, slope = start, np.append(False, (start[1:] <= 0.0) & (gradient[1:] > 0.0)), gradient
    for _ in range(10 * len(start)):
        here, met = _walk(matrix, slope, here, ~held)
        slope = gradient + np.einsum("jk,k->j", matrix, here - start)
        if met is not None:
            held[met] = True
            continue
        pull = np.where(held, slope, 0.0)
        if pull.min() >= -1e-9 * np.abs(slope).max(initial=SETTLED):
            break
        held[int(np.argmin(pull))] = False
    return np.append(here[0], np.maximum(here[1:], 0.0))


def _walk(matrix: Floats, slope: Floats, here: Floats, free: NDArray[np.bool_]) -> tuple[Floats, int | None]:
    """As far towards the minimum over free coefficients as none turns negative, and which one stopped the walk."""
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
        """Value, slope and change of slope."""
        slopes = self.coefficients[1:]
        value = np.einsum("j,jc->c", self.coefficients, _basis(u, self.knots))
        bends = np.concatenate([[0.0], np.diff(slopes) / np.diff(self.knots), [0.0]])
        return value, np.interp(u, self.knots, slopes), bends[np.searchsorted(self.knots, u)]
