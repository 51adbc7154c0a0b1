"""What an automatic choice tries, simplest first, and the two fits that are shrunk towards keeping the model.

Nothing here is an estimator, so that a choice can be made without loading scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from calibrant.arrays import Kind
from calibrant.calibrators.choosing import Candidate
from calibrant.calibrators.cuts import counted, equal_masses
from calibrant.calibrators.pooling import fit_curve
from calibrant.calibrators.scaling import (
    FARTHEST_LOG_ODDS,
    fit_beta,
    fit_platt,
    fit_temperature,
)
from calibrant.calibrators.splines import fit_spline
from calibrant.maps import Axis, LogitAffineMap, Map, StepMap
from calibrant.numerics import Floats, expit, logit
from calibrant.tallies import Tally

LEVEL_SD, SLOPE_SD = 0.7, 0.35
"""Standard deviations of the prior of the level, in log-odds, and of the slope about 1."""

STEPS, HALVINGS, SETTLED = 50, 30, 1e-12

FEW, SOME, MANY, PLENTY = 10, 50, 100, 1_000
"""Rows of the rarer class from which on a slope, a free slope, a free curve and free steps are tried."""

ROWS_BY_BIN_ROOT, MOST_BINS, SCALED_BINS = 6.3, 100, 10

PROBABLE: tuple[Kind, ...] = ("probability", "logit")


# -------------------------------------------------------------------------------------------------------- shrunken fits


def fit_shrunken(tally: Tally, *, slope_sd: float | None = SLOPE_SD, level_sd: float = LEVEL_SD) -> LogitAffineMap:
    r"""A level and a slope on the log-odds, drawn towards 0 and 1 by a Gaussian prior: the most probable values.

    .. math:: \max_{a, d}\ \sum_i \log P(y_i \mid x_i + a + d (x_i - c))
              - \frac{a^2}{2 \sigma_a^2} - \frac{d^2}{2 \sigma_d^2}, \qquad d \ge -1,

    where x are the log-odds of the scores, c their mean weighted by s (1 - s), so that level and slope are nearly
    independent, :math:`\sigma_a` = ``level_sd`` and :math:`\sigma_d` = ``slope_sd``; without the latter d = 0. A
    standard deviation of 0.7 for the level is odds off by a factor of 2, and weighs as much as two events; one of 0.35
    for the slope is a model two thirds, or four thirds, as steep as it should be.

    Notes
    -----
    Edges: one class or separated classes are no trouble, as the prior holds the values. Real scores are not log-odds.
    Guarantee: no finite-sample guarantee.
    Cost: one pass per Newton step.

    Examples
    --------
    >>> tally = Tally.from_arrays([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1])
    >>> fitted = fit_shrunken(tally, slope_sd=None)  # maximum likelihood says -1.1
    >>> round(fitted.intercept, 3), fitted.slope
    (-0.33, 1.0)
    """
    axis: Axis = "log-odds" if tally.kind == "probability" else "score"
    centre = _centre(tally, axis)
    spread = [] if slope_sd is None else [slope_sd]
    values = _most_probable(tally, axis, centre, np.array([level_sd, *spread]), np.zeros(1 + len(spread)))
    if len(values) > 1 and values[1] < -1.0:  # no falling map: the slope is held at zero, and the level found again
        held = _most_probable(tally, axis, centre, np.array([level_sd]), np.zeros(1), stretch=-1.0)
        values = np.array([held[0], -1.0])
    stretch = float(values[1]) if len(values) > 1 else 0.0
    return LogitAffineMap(1.0 + stretch, float(values[0]) - stretch * centre, axis)


def _axis_values(scores: Floats, axis: Axis) -> Floats:
    return logit(scores) if axis == "log-odds" else np.clip(scores, -FARTHEST_LOG_ODDS, FARTHEST_LOG_ODDS)


def _centre(tally: Tally, axis: Axis) -> float:
    mass, moment = 0.0, 0.0
    for scores, n, _ in tally.pieces():
        x = _axis_values(scores, axis)
        p = expit(x)
        weight = n * p * (1.0 - p)
        mass, moment = mass + float(weight.sum()), moment + float((weight * x).sum())
    return moment / mass if mass > 0.0 else 0.0  # log-odds so far out that none of them tells anything


def _most_probable(
    tally: Tally, axis: Axis, centre: float, sds: Floats, values: Floats, *, stretch: float = 0.0
) -> Floats:
    """Newton's method with halved steps on the log posterior, which is concave."""
    loss, gradient, curvature = _posterior(tally, axis, centre, sds, values, stretch)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature, gradient)
        decrement = float((gradient * step).sum())
        if decrement <= SETTLED * max(loss, 1.0):
            return np.asarray(values - step)
        for halving in range(HALVINGS):
            trial = values - step * 0.5**halving
            reached = _posterior(tally, axis, centre, sds, trial, stretch)
            if reached[0] < loss:
                break
        else:  # rounding hides any further descent
            return values
        values, (loss, gradient, curvature) = trial, reached
    return values


def _posterior(
    tally: Tally, axis: Axis, centre: float, sds: Floats, values: Floats, stretch: float
) -> tuple[float, Floats, Floats]:
    """Minus the log posterior, its gradient and its curvature."""
    loss, gradient, curvature = float((0.5 * (values / sds) ** 2).sum()), values / sds**2, np.diag(sds**-2.0)
    for scores, n, events in tally.pieces():
        x = _axis_values(scores, axis)
        design = np.stack([np.ones(len(x)), x - centre])[: len(values)]
        z = x + stretch * (x - centre) + np.einsum("j,jc->c", values, design)
        p = expit(z)
        loss += float((n * np.logaddexp(0.0, z) - events * z).sum())
        gradient = gradient + np.einsum("jc,c->j", design, n * p - events)
        curvature = curvature + np.einsum("jc,kc->jk", design * (n * p * (1.0 - p)), design)
    return loss, gradient, curvature


# ----------------------------------------------------------------------------------------------------------------- bins


def fit_bins(tally: Tally, n_bins: int | None = None) -> StepMap:
    """Event rates of about ``n_bins`` bins of equal mass; by default as many as ``HistogramBinning`` makes."""
    if n_bins is None:
        n_bins = int(np.clip(np.sqrt(tally.effective_size) / ROWS_BY_BIN_ROOT, 1, MOST_BINS))
    bins = counted(tally, bin_edges(tally, n_bins), "", "", "")
    return StepMap(bins.knots, bins.outputs).merged()


def bin_edges(tally: Tally, n_bins: int) -> Floats:
    """Inner edges of about ``n_bins`` bins of equal mass between whole cells."""
    return np.asarray(tally.lower_edges[equal_masses(np.cumsum(tally.n), n_bins)[1:]])


def fit_scaled_bins(tally: Tally, n_bins: int = SCALED_BINS) -> StepMap:
    """Means of Platt's map in bins of equal mass."""
    starts = equal_masses(np.cumsum(tally.n), n_bins)
    scaled = fit_platt(tally)[0].apply(tally.scores)
    means = np.add.reduceat(scaled * tally.n, starts) / np.add.reduceat(tally.n, starts)
    values = np.maximum.accumulate(np.clip(means, scaled.min(), scaled.max()))  # rounding must not leave the range
    return StepMap(tally.lower_edges[starts[1:]], values).merged()


# ------------------------------------------------------------------------------------------------------------- the list


def _kept(tally: Tally) -> Map:
    """The model as it is; log-odds become probabilities, and 0 and 1 are moved to the log-odds clamp."""
    return LogitAffineMap(1.0, 0.0, "log-odds" if tally.kind == "probability" else "score")


def _first(fit: Callable[[Tally], tuple[Map, tuple[str, ...]]]) -> Callable[[Tally], Map]:
    return lambda tally: fit(tally)[0]


CANDIDATES: dict[str, Candidate] = {
    each.name: each
    for each in (
        Candidate("identity", _kept, kinds=PROBABLE),
        Candidate("shift", partial(fit_shrunken, slope_sd=None), rows=FEW, kinds=PROBABLE),
        Candidate("temperature", _first(fit_temperature), SOME, kinds=PROBABLE),
        Candidate("shrunken platt", fit_shrunken, FEW, below=PLENTY, kinds=PROBABLE),
        Candidate("platt", _first(fit_platt), SOME),
        Candidate("beta", _first(fit_beta), SOME, kinds=("probability",)),
        Candidate("spline", lambda tally: fit_spline(tally).map, MANY),
        Candidate("isotonic", fit_curve, PLENTY),
        Candidate("binning", fit_bins, PLENTY),
        Candidate("scaling-binning", fit_scaled_bins, PLENTY),
    )
}
"""By name, simplest first."""
