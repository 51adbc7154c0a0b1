"""Paired differences between models on the same rows: calibration, losses and ranking."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.metrics.multiplicity import holm
from calibrant.metrics.variance import FEWEST_CLUSTERS, Spread, between, kish
from calibrant.numerics import Floats
from calibrant.tallies.cells import mass_below
from calibrant.verdict.change import CALIBRATION, Difference

MAX_MAPS = 20
"""New scores that split into at most this many increasing maps of the old ones are taken as cross-fitted."""

MAX_INSPECTED_ROWS = 20_000
"""Rows inspected for this, evenly spaced in the order of the old scores."""

FEWEST_OF_A_CLASS = 20
"""Events, and rows without one, that an interval needs."""

MOST_RANGES, ROWS_IN_A_RANGE = 15, 20
"""Ranges of the scores for the calibration error, and the mean number of rows of a model in one."""


@dataclass(frozen=True, eq=False)
class Measured:
    """A measure of one model on its rows, and the influence of each row on it."""

    value: float
    influence: Floats
    rows: Rows


@dataclass(frozen=True, eq=False)
class Binned(Measured):
    r"""The squared calibration error of one model in ranges of its scores, and what its noise is.

    With the rows :math:`N_b` of a range and the mean :math:`d_b` of label minus score there, the estimate is

    .. math:: \hat\theta = \frac{1}{N} \sum_b \Bigl(N_b d_b^2 - \frac{s_b}{N_b}\Bigr),

    where :math:`s_b` estimates the variance of the sum of label minus score: for independent rows :math:`N_b` times
    the sample variance, so that the estimate is unbiased. A range with a single row or group has no such estimate, and
    is left out.

    Attributes
    ----------
    scale
        Factor of the square of each sum.
    place
        Range of each row; None if rows are dependent.
    noise
        Deviations whose products add up to covariances: of each row, or a line for each group with a column for each
        range.
    """

    scale: Floats
    place: NDArray[np.intp] | None
    noise: Floats

    def covariance(self, other: Binned) -> Floats:
        """Covariances of the sums of label minus score in all ranges with those of another model."""
        if self.place is None or other.place is None:
            return np.asarray(self.noise.T @ other.noise)
        count = len(self.scale)
        found = np.bincount(self.place * count + other.place, self.noise * other.noise, count * count)
        return np.asarray(found, dtype=np.float64).reshape(count, count)


def every_pair(
    measured: Sequence[Measured], name: str, names: Sequence[str], *, lower_is_better: bool = True, few: bool = True
) -> tuple[Difference, ...]:
    """The differences of all pairs, each of a model minus an earlier one, with p-values adjusted by Holm's method.

    Without ``few``, no number of events is needed for an interval.
    """
    made = []
    for i, j in combinations(range(len(measured)), 2):
        found = _difference(name, measured[i], measured[j], lower_is_better, FEWEST_OF_A_CLASS if few else 0)
        made.append(replace(found, pair=(names[i], names[j])))
    adjusted = holm(np.array([each.p_value for each in made]))
    return tuple(replace(each, adjusted=float(p)) for each, p in zip(made, adjusted, strict=True))


def mean_of(values: Floats, rows: Rows) -> Measured:
    """The mean of a loss of each row."""
    w = weights_of(rows)
    mean = float((w * values).sum() / w.sum())
    return Measured(mean, (values - mean) / w.sum(), rows)


def calibration(models: Sequence[Rows], names: Sequence[str]) -> tuple[tuple[Difference, ...], tuple[float, ...]]:
    r"""The differences of squared calibration error for all pairs, and the lowest score of each range.

    Each model is binned by its own scores. The ranges are the same for all, have about equal numbers of the scores of
    all models together, and do not depend on labels.

    The difference D of two estimates is a quadratic form of sums, less its mean. Let :math:`\lambda` be the eigenvalues
    of the matrix of that form times the covariances of the sums. If both models are calibrated, D is
    :math:`\sum \lambda (z^2 - 1)` of normal z, with the variance :math:`2 \sum \lambda^2`. Otherwise it has a linear
    term more, whose variance is that of the influences of rows, less the :math:`4 \sum \lambda^2` that noise adds to
    it, if positive. With their sum V and the quantile t of Student's distribution the interval is

    .. math:: D \pm \bigl(t \sqrt{V} + (t^2 + 1) \max |\lambda|\bigr) .

    The last term covers the tails of the squares, which are longer than normal ones (Laurent and Massart 2000, lemma
    1), and a V that is too small together with D. It is of the order of the reciprocal of n, so that it vanishes beside
    the first where one model is off and the models differ.
    """
    first, places = _ranges(models)
    parts = [_binned(rows, place, len(first)) for rows, place in zip(models, places, strict=True)]
    found = every_pair(parts, CALIBRATION, names)
    return tuple(replace(each, ranges=len(first)) for each in found), tuple(first.tolist())


def _ranges(models: Sequence[Rows]) -> tuple[Floats, list[NDArray[np.intp]]]:
    """Lowest score of each range, and the range of each row of each model; ties are never split."""
    mass = [weights_of(rows) if rows.counts else np.ones(len(rows.scores)) for rows in models]
    values, index = np.unique(np.concatenate([rows.scores for rows in models]), return_inverse=True)
    n = np.bincount(index, np.concatenate(mass))
    count = int(np.clip(n.sum() / (len(models) * ROWS_IN_A_RANGE), 1, MOST_RANGES))
    code = np.arange(len(values))
    if len(values) > count:
        code = np.minimum((np.cumsum(n) - 0.5 * n) / n.sum() * count, count - 1).astype(np.intp)
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    place = (np.searchsorted(starts, np.arange(len(values)), side="right") - 1)[index]
    return values[starts], np.split(place, np.cumsum([len(each) for each in mass])[:-1])


def _binned(rows: Rows, place: NDArray[np.intp], count: int) -> Binned:
    w, off = weights_of(rows), rows.labels - rows.scores
    n = np.bincount(place, w, count)
    size = np.maximum(n, 1e-300)
    d = np.bincount(place, w * off, count) / size
    own = off - d[place]
    if rows.groups is None:
        left = 1.0 - (1.0 if rows.counts else w) / n[place]  # CR2: of the variance of a row, what the mean leaves
        usable = left > 1e-9
        noise = np.where(usable, (np.sqrt(w) if rows.counts else w) * own / np.sqrt(np.where(usable, left, 1.0)), 0.0)
        spread, known = np.bincount(place, noise**2, count), np.bincount(place, usable, count) > 0
    else:
        code = np.unique(rows.groups, return_inverse=True)[1]
        cell, shape = code * count + place, (int(code.max()) + 1, count)
        left = 1.0 - np.bincount(cell, w, shape[0] * count).reshape(shape) / size
        usable = left > 1e-9
        sums = np.bincount(cell, w * own, shape[0] * count).reshape(shape)
        noise = np.where(usable, sums / np.sqrt(np.where(usable, left, 1.0)), 0.0)
        spread, known = (noise**2).sum(axis=0), usable.all(axis=0) & (n > 0.0)
    scale = np.where(known, 1.0 / (size * w.sum()), 0.0)
    square = np.where(known, d * d, 0.0)
    influence = (np.where(known, 2.0 * d, 0.0)[place] * own + square[place]) / w.sum()
    value = float((scale * ((n * d) ** 2 - spread)).sum())
    middle = float((w * influence).sum() / w.sum())
    return Binned(value, influence - middle, rows, scale, place if rows.groups is None else None, noise)


def _degenerate(old: Binned, new: Binned) -> tuple[float, float]:
    r"""Sum of squares and largest size of the eigenvalues :math:`\lambda` of :func:`calibration`."""
    across = new.covariance(old)
    covariance = np.block([[new.covariance(new), across], [across.T, old.covariance(old)]])
    scale = np.append(new.scale, -old.scale)
    found = np.linalg.eigvals(scale[:, None] * covariance).real
    found[np.abs(found) < 1e-10 * np.abs(scale * covariance.diagonal()).max()] = 0.0  # rounding, of equal models
    return float((found**2).sum()), float(np.abs(found).max())


def ranking(models: Sequence[Rows], names: Sequence[str]) -> tuple[Difference, ...]:
    """The differences of AUC; empty with one class."""
    if any(rows.labels.min() == rows.labels.max() for rows in models):
        return ()
    return every_pair([area(rows) for rows in models], "AUC", names, lower_is_better=False)


def area(rows: Rows) -> Measured:
    """AUC, and the influence of each row on it."""
    events, w = rows.labels == 1, weights_of(rows)
    placed = _placements(rows.scores, events, w)
    value = float((w * placed)[events].sum() / w[events].sum())
    influence = np.empty(len(w))
    for mine, sign in ((events, 1.0), (~events, -1.0)):
        own = sign * placed[mine]
        influence[mine] = (own - (w[mine] * own).sum() / w[mine].sum()) / w[mine].sum()
    return Measured(value, influence, rows)


def _difference(name: str, old: Measured, new: Measured, lower_is_better: bool, fewest: int) -> Difference:
    """A difference with its Student interval, from the influence of each row or group.

    :class:`~calibrant.selection.losses.Losses` is not used: its sums by cell are valid for mean losses, not for AUC.
    """
    ranked = name == "AUC" and np.array_equal(old.rows.labels, new.rows.labels)
    maps = _maps(old.rows.scores, new.rows.scores) if ranked else 1
    made = Difference(name, old.value, new.value, -np.inf, np.inf, lower_is_better, maps)
    spread = spread_between(new.influence - old.influence, new.rows)
    if spread is None or min(_minority(old.rows), _minority(new.rows)) < fewest:
        return made
    square = most = 0.0
    if isinstance(old, Binned) and isinstance(new, Binned):
        if old.rows.groups is not None and len(old.noise) < FEWEST_CLUSTERS:
            return made
        square, most = _degenerate(old, new)
    sd, far = float(np.sqrt(2.0 * square + max(spread.variance - 4.0 * square, 0.0))), abs(made.change)
    t = spread.quantile(0.95)
    half = t * sd + (t * t + 1.0) * most
    beyond = max(far - most, 0.0)  # the number of errors z at which z sd + (z^2 + 1) most is this far
    root = sd + float(np.sqrt(sd * sd + 4.0 * most * beyond))
    p_value = 1.0 if beyond == 0.0 or maps > 1 else spread.p_value(2.0 * beyond / root if root > 0.0 else np.inf)
    return replace(made, low=made.change - half, high=made.change + half, p_value=p_value)


def spread_between(influence: Floats, rows: Rows) -> Spread | None:
    """Variance of an estimate, from the influence of each row or group; None for less than two rows."""
    w = weights_of(rows)
    squares = (w if rows.counts else w * w) * influence**2
    if rows.groups is not None:
        code = np.unique(rows.groups, return_inverse=True)[1]
        sizes = np.bincount(code, w) if rows.counts else np.zeros(code.max() + 1)
        sums, parts = (np.bincount(code, each).astype(np.float64) for each in (w * influence, squares))
        return between(sums, parts, sizes == 1.0, np.bincount(code, w).astype(np.float64))
    size = float(w.sum() if rows.counts else w.sum() ** 2 / (w * w).sum())
    return None if size < 2.0 else Spread(float(squares.sum()) * size / (size - 1.0), size - 1.0)


def _minority(rows: Rows) -> float:
    """Rows of the minority class; of importance weights the number of equal ones that are worth as much."""
    w = weights_of(rows)
    return min(float(part.sum()) if rows.counts else kish(part) for part in (w[rows.labels == 1], w[rows.labels == 0]))


def _maps(old: Floats, new: Floats) -> int:
    """Number of increasing maps of the old scores that produce the new ones; 1 where there are too many for that.

    In the order of the old scores, the new scores split into as many increasing sequences as their longest decreasing
    sequence is long (Dilworth 1950). Cross-fitting makes one for each fold; another model makes about the square root
    of the number of rows.
    """
    order = np.lexsort((new, old))
    taken = order[np.unique(np.linspace(0, len(order) - 1, min(MAX_INSPECTED_ROWS, len(order))).astype(np.intp))]
    if len(taken) < 4 * MAX_MAPS**2:
        return 1
    ends: list[float] = []  # patience sorting: increasing sequences end at these values, negated
    for value in (-new[taken]).tolist():
        place = bisect_left(ends, value)
        if place == len(ends):
            if place == MAX_MAPS:
                return 1
            ends.append(value)
        else:
            ends[place] = value
    return len(ends)


def weights_of(rows: Rows) -> Floats:
    """The weight of each row, 1 without weights."""
    return np.ones(len(rows.scores)) if rows.weights is None else rows.weights.astype(np.float64)


def _placements(scores: Floats, events: NDArray[np.bool_], w: Floats) -> Floats:
    """For an event, the share of non-events below it; for a non-event, of events below it; ties count half."""
    values, index = np.unique(scores, return_inverse=True)
    placed = np.empty(len(scores))
    for mine, other in ((events, ~events), (~events, events)):
        by_value = np.bincount(index[other], w[other], minlength=len(values))
        below = mass_below(by_value) / by_value.sum()
        placed[mine] = below[index[mine]]
    return placed
