"""Kernel calibration errors of whole rows of class probabilities: of pairs of rows, and by a Dirichlet kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.messages import InputError, Note, note
from calibrant.metrics.binary.kernel import (
    MIN_BANDWIDTH,
    no_null_quantile_under_importance_weights,
    no_pair_of_rows,
)
from calibrant.metrics.draws import generator, only_values
from calibrant.metrics.estimates import Estimate, upper_point
from calibrant.metrics.multiclass.claims import AskedScoreType, Claims, Classes, read_claims
from calibrant.numerics import Column, Floats

DRAWS = 200
"""Draws of labels for the values of a calibrated model."""

MAX_PRODUCTS = 1_000_000_000
"""Rows squared, times classes and draws: blocks of rows, or the number of draws, are chosen to stay below this."""

MIN_DRAWS = 20
"""With fewer draws there is no null value."""

PAIRS = 1 << 22
"""Pairs of rows in memory at a time."""

BANDWIDTHS = np.geomspace(0.001, 1.0, 13)
"""Bandwidths of the Dirichlet kernel that are compared."""

COMPARED_ROWS = 1_000
"""Rows on which they are compared."""

LEAST = 2.0**-32
"""Probabilities below this are raised to it before their logarithm is taken."""

rows_in_blocks = note(
    "rows-in-blocks", "{nouns.rows} were compared within {blocks:,} random blocks, and the values of blocks averaged"
)
no_null_for_independent_columns = note(
    "no-null-for-independent-columns", "columns do not sum to 1, so there is no value of a calibrated model"
)
rows_without_neighbors = note(
    "rows-without-neighbors", "{left:,} {nouns.rows} have no other near them at this bandwidth, and are left out"
)


def skce(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    bandwidth: float = 0.1,
    random_state: int = 0,
) -> Estimate:
    """Squared kernel calibration error of whole rows; see :func:`~calibrant.metrics.dispatch.skce`.

    Examples
    --------
    Two columns give twice the value of one:

    >>> from calibrant.metrics.binary import kernel
    >>> s, y = [0.2, 0.3, 0.6, 0.9], [0, 1, 0, 1]
    >>> two = skce([[1 - p, p] for p in s], y)
    >>> round(two.value, 12) == round(2 * kernel.skce(s, y).value, 12)
    True
    """
    if not isinstance(bandwidth, Real) or not bandwidth >= MIN_BANDWIDTH or math.isinf(bandwidth):
        raise InputError("bandwidth", f"must be finite and at least {MIN_BANDWIDTH}, got {bandwidth!r}")
    claims = read_claims(scores, y, sample_weight, notion="canonical", classes=classes, score_type=score_type)
    name = f"SKCE of {claims.count} classes, bandwidth {bandwidth:g}"
    rng = generator(random_state, 0)
    size = int(math.sqrt(MAX_PRODUCTS / (claims.count * DRAWS)))
    blocks = math.ceil(len(claims) / size)
    order = np.arange(len(claims)) if blocks == 1 else rng.permutation(len(claims))
    parts = [_Block.of(claims, rows, bandwidth) for rows in np.array_split(order, blocks)]
    parts = [part for part in parts if part.pairs > 0.0]
    if not parts:
        return Estimate(name, math.nan, notes=(no_pair_of_rows(),))
    share = np.array([part.pairs for part in parts])
    share = share / share.sum()
    values = np.array([part.value for part in parts])
    value = float(share @ values)
    notes: tuple[Note, ...] = (*claims.notes, *((rows_in_blocks(len(parts)),) if len(parts) > 1 else ()))
    if only_values():
        return Estimate(name, value, notes=notes)
    se = parts[0].standard_error() if len(parts) == 1 else float(values.std(ddof=1) * math.sqrt(share @ share))
    known = claims.weights is None and claims.exclusive
    if not known:
        told = no_null_quantile_under_importance_weights() if claims.exclusive else no_null_for_independent_columns()
        null = 0.0 if claims.exclusive and not claims.whole else None
        return Estimate(name, value, se=se, null=null, notes=(*notes, told))
    deviation = math.sqrt(sum(weight**2 * part.null_variance() for weight, part in zip(share, parts, strict=True)))
    drawn = parts[0].null_draws(rng)
    if len(parts) == 1:
        high = float(np.quantile(drawn, 0.95))
    else:
        spread = float(drawn.std())
        skewness = float(((drawn / spread) ** 3).mean()) / math.sqrt(len(parts)) if spread > 0.0 else 0.0
        high = deviation * upper_point(max(skewness, 0.0))
    return Estimate(name, value, se=se, null=0.0, null_high=high, notes=notes)


class _Block:
    """Rows that are compared with each other: probabilities, residuals, weights and sums over the others."""

    def __init__(self, p: Floats, residuals: Floats, weights: Floats, whole: bool, bandwidth: float) -> None:
        self.p, self.residuals, self.weights, self.bandwidth = p, residuals, weights, bandwidth
        total = float(weights.sum())
        self.own = weights if whole else weights**2  # integer weights count as repetition
        self.alone = np.ones(len(weights)) if whole else weights
        self.pairs = total * (total - 1.0) if whole else total**2 - float((weights**2).sum())
        if self.pairs <= 1e-9 * total**2:
            self.pairs = 0.0
        self.sums = np.empty_like(residuals)
        weighted = residuals * weights[:, None]
        for part, kernel in self.kernels():
            self.sums[part] = kernel @ weighted
        squares = (residuals**2).sum(axis=1)
        self.seen = (residuals * self.sums).sum(axis=1) - self.alone * squares
        self.value = float(weights @ self.seen) / self.pairs if self.pairs > 0.0 else math.nan

    @classmethod
    def of(cls, claims: Claims, rows: Any, bandwidth: float) -> _Block:
        p = claims.scores[rows].astype(np.float64)
        residuals = -p
        residuals[np.arange(len(p)), claims.labels[rows]] += 1.0
        return cls(p, residuals, claims.mass[rows], claims.whole, bandwidth)

    def kernels(self) -> Iterator[tuple[slice, Floats]]:
        """Kernel values of some rows with all rows."""
        from scipy.spatial import distance  # imported here: slow, and only this metric needs it

        step = max(PAIRS // len(self.p), 1)
        for start in range(0, len(self.p), step):
            part = slice(start, min(start + step, len(self.p)))
            apart = distance.cdist(self.p[part], self.p, "cityblock") / 2.0  # total variation
            yield part, np.exp(-apart / self.bandwidth)

    def standard_error(self) -> float:
        """Twice the standard deviation of a row's mean product with the others, over the root of the sample size."""
        total = float(self.weights.sum())
        mean = self.seen / np.maximum(total - self.alone, 1e-300) - self.value
        variance = float(self.weights @ mean**2) / total
        return 2.0 * math.sqrt(variance / (total**2 / float((self.weights * self.alone).sum())))

    def null_variance(self) -> float:
        """Variance of the value if the model is calibrated, given the scores; for rows without weights."""
        p, squares = self.p, self.p**2
        found = 0.0
        for part, kernel in self.kernels():
            q = p[part]
            shared = q @ p.T
            trace = shared - q @ squares.T - squares[part] @ p.T + shared**2
            found += float((kernel**2 * trace).sum())
        norm = squares.sum(axis=1)  # without pairs of a row and itself
        found -= float((norm - 2.0 * (p**3).sum(axis=1) + norm**2).sum())
        return 2.0 * max(found, 0.0) / self.pairs**2

    def null_draws(self, rng: np.random.Generator) -> Floats:
        """Values for labels drawn from the probabilities; for rows without weights."""
        n, size = self.p.shape
        cumulative = np.cumsum(self.p, axis=1)
        cumulative[:, -1] = np.inf
        u = rng.random((n, DRAWS))
        labels = (u[:, None, :] > cumulative[:, :, None]).sum(axis=1)
        residuals = np.repeat(-self.p[:, :, None], DRAWS, axis=2)
        residuals[np.arange(n)[:, None], labels, np.arange(DRAWS)] += 1.0
        flat = residuals.reshape(n, size * DRAWS)
        value = np.zeros(DRAWS)
        for part, kernel in self.kernels():
            value += ((kernel @ flat) * flat[part]).reshape(-1, size, DRAWS).sum(axis=(0, 1))
        return np.asarray((value - (residuals**2).sum(axis=(0, 1))) / self.pairs)


def dirichlet_error(
    scores: Any,
    y: Column = None,
    sample_weight: Column = None,
    *,
    classes: Classes = None,
    score_type: AskedScoreType = None,
    p: Literal[1, 2] = 1,
    bandwidth: float | None = None,
    random_state: int = 0,
) -> Estimate:
    r"""Canonical calibration error of class probabilities by a Dirichlet kernel, without bins.

    .. math:: \Bigl(\frac{1}{n} \sum_j \Bigl\lVert \frac{\sum_{i \ne j} k_h(s_j; s_i)\, e_{y_i}}{\sum_{i \ne j}
              k_h(s_j; s_i)} - s_j \Bigr\rVert_p^p\Bigr)^{1/p},

    where :math:`k_h(\cdot\,; s)` is the density of the Dirichlet distribution with parameters :math:`s / h + 1`, which
    has no mass outside the simplex, and :math:`e_y` is 1 for class y and 0 for the others.

    Parameters
    ----------
    scores : matrix
        One column per class; of one column of scores s, pass the columns 1 - s and s.
    y : array-like
        Class of each row.
    sample_weight : array-like, optional
        Importance weight of each row.
    classes, score_type
        As in :func:`~calibrant.metrics.dispatch.ece`.
    p : {1, 2}
        Order of the error.
    bandwidth : float, optional
        Bandwidth h. By default the one of 13 from 0.001 to 1 whose rates have the lowest Brier score on up to 1,000
        rows, each given the others. (Popordanoska et al. take the likelihood of the scores, which for evenly spread
        scores is highest at bandwidths that smooth everything away.)
    random_state : int
        Seed of these rows, if there are more, and of draws.

    Returns
    -------
    Estimate
        Value, summed over classes, from 0 to 2 for p = 1; and ``null``, the value of a calibrated model, from draws of
        labels: up to about 2,200 rows of 10 classes, without weights.

    Notes
    -----
    Edge cases: NaN for a single row. A row without others near it is left out, with a note. Probabilities below 2**-32
    are raised to it before their logarithm is taken.
    Guarantee: no finite-sample guarantee; consistent as the bandwidth vanishes slowly. Far too large with more than a
    few classes, where no row has others near it: compare it with ``null``.
    Cost: O(n^2 K) operations as matrix products, a few seconds for 10,000 rows and 10 classes.
    Reference: Popordanoska, Sayer and Blaschko (2022), eq. 9; Zhang, Kailkhura and Han (2020) for one column; Gupta
    (2023), section 1.4.1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([2, 2, 2], 600)
    >>> y = [int(rng.choice(3, p=row)) for row in p]
    >>> sharper = p**3 / (p**3).sum(axis=1, keepdims=True)
    >>> dirichlet_error(p, y).value < dirichlet_error(sharper, y).value
    True
    """
    check_option("p", p, (1, 2))
    if bandwidth is not None and not (isinstance(bandwidth, Real) and 0.0 < bandwidth < math.inf):
        raise InputError("bandwidth", f"must be positive and finite, got {bandwidth!r}")
    claims = read_claims(scores, y, sample_weight, notion="canonical", classes=classes, score_type=score_type)
    rows, mass = claims.scores.astype(np.float64), claims.mass
    if not claims.exclusive:
        raise InputError("scores", "must have rows that sum to 1", "pass probabilities of mutually exclusive classes")
    hits = np.zeros_like(rows)
    hits[np.arange(len(rows)), claims.labels] = 1.0
    rng = generator(random_state, 0)
    h = _best_bandwidth(rows, hits, mass, rng) if bandwidth is None else float(bandwidth)
    name = f"canonical error by Dirichlet kernel, l{p}, bandwidth {h:.3g}"
    if len(claims) < 2:
        return Estimate(name, math.nan, notes=(*claims.notes, no_pair_of_rows()))
    draws = min(int(MAX_PRODUCTS / (len(rows) ** 2 * claims.count)), DRAWS // 2)
    if draws < MIN_DRAWS or claims.weights is not None or only_values():
        draws = 0
    cumulative = np.cumsum(rows, axis=1)[:, :-1]
    targets = [hits, *(_drawn(cumulative, rng) for _ in range(draws))]
    totals, kept, seen = np.zeros(len(targets)), 0.0, 0
    for part, kernel in _dirichlet(rows, h):
        near = kernel @ mass
        found = near > 0.0
        weighing, weight = kernel[found] * (mass / near[found, None]), mass[part][found]
        for place, target in enumerate(targets):
            totals[place] += float(weight @ (np.abs(weighing @ target - rows[part][found]) ** p).sum(axis=1))
        kept, seen = kept + float(weight.sum()), seen + int(found.sum())
    notes = (*claims.notes, *((rows_without_neighbors(len(rows) - seen),) if seen < len(rows) else ()))
    if not kept > 0.0:
        return Estimate(name, math.nan, notes=notes)
    values = (totals / kept) ** (1.0 / p)
    if not draws:
        return Estimate(name, float(values[0]), notes=notes)
    null, high = float(values[1:].mean()), float(np.quantile(values[1:], 0.95))
    return Estimate(name, float(values[0]), null=null, null_high=high, notes=notes)


def _drawn(cumulative: Floats, rng: np.random.Generator) -> Floats:
    """Labels drawn from the probabilities, as a matrix of 0 and 1."""
    labels = (rng.random((len(cumulative), 1)) > cumulative).sum(axis=1)
    out = np.zeros((len(cumulative), cumulative.shape[1] + 1))
    out[np.arange(len(out)), labels] = 1.0
    return out


def _dirichlet(rows: Floats, h: float) -> Iterator[tuple[slice, Floats]]:
    """Kernel of some rows and all others, up to a factor for each row."""
    from scipy import special

    logs = np.log(np.maximum(rows, LEAST))
    level = special.gammaln(rows.shape[1] + 1.0 / h) - special.gammaln(rows / h + 1.0).sum(axis=1)
    step = max(PAIRS // len(rows), 1)
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        log_kernel = logs[part] @ (rows / h).T + level
        log_kernel[np.arange(part.stop - part.start), np.arange(part.start, part.stop)] = -np.inf
        top = log_kernel.max(axis=1, keepdims=True)
        yield part, np.exp(log_kernel - np.where(np.isfinite(top), top, 0.0))


def _best_bandwidth(rows: Floats, hits: Floats, mass: Floats, rng: np.random.Generator) -> float:
    """The bandwidth whose rates have the lowest Brier score, each row given the others."""
    if len(rows) > COMPARED_ROWS:
        some = rng.choice(len(rows), COMPARED_ROWS, replace=False)
        rows, hits, mass = rows[some], hits[some], mass[some]
    if len(rows) < 2:
        return float(BANDWIDTHS[-1])
    overall = mass @ hits / mass.sum()

    def loss(h: float) -> float:
        found = 0.0
        for part, kernel in _dirichlet(rows, h):
            near = kernel @ mass
            rates = kernel @ (hits * mass[:, None]) / np.maximum(near, 1e-300)[:, None]
            rates = np.where(near[:, None] > 0.0, rates, overall)
            found += float(mass[part] @ ((rates - hits[part]) ** 2).sum(axis=1))
        return found

    return float(min(BANDWIDTHS.tolist(), key=loss))
