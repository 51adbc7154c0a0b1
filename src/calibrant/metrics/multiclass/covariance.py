"""Uncertainty of multiclass calibration errors: simulated labels, first-order standard errors, dependent claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import Matrix
from calibrant.messages import Note, Voice, note
from calibrant.metrics.draws import generator
from calibrant.metrics.estimates import ONE_SIDED, TWO_SIDED
from calibrant.metrics.multiclass.bins import Codes, MulticlassBins, Statistic
from calibrant.metrics.multiclass.claims import Claims
from calibrant.notions import Classwise
from calibrant.numerics import Floats

DRAWS, FEWEST_DRAWS = 200, 20
"""Maximum and minimum number of draws of all labels; with many rows the null value varies less."""

DRAWN_ROWS = 20_000_000
"""Total number of claims drawn, if this allows at least the minimum number of draws."""

MAX_COMPARED = 16
"""Number of claims up to which comparing with each of them is faster than a binary search."""

MANY_ROWS = 1000
"""With at least this many rows the null value of a class-wise error is not drawn, also with few classes."""

MANY_EVENTS = 1000.0
"""Expected events in a bin beyond which their number is taken as normal."""

PROBES = 16
"""Random vectors for estimating traces of the covariance of bins."""

MOST_CELLS, FEW_DRAW_CELLS = 2_000_000, 20_000_000
"""Rows times classes up to which claims about every class are drawn by default: many times, and at all."""

_NULL, _ORDER, _PROBES = 11, 12, 13  # streams of random numbers that differ from those of other metrics


def draws_for(claims: Claims, asked: bool | None, dear: bool = False) -> tuple[int, tuple[Note, ...]]:
    """Number of draws of the labels, and a note if it is 0 (no uncertainty).

    Claims about the largest scores of a row are few and always drawn; claims about every class only up to a limit,
    which is lower if more than draws is computed (``dear``).
    """
    if asked is False:
        return 0, ()
    cells, most = len(claims) * claims.count, MOST_CELLS if dear else FEW_DRAW_CELLS
    usual = min(max(DRAWN_ROWS // cells, FEWEST_DRAWS), DRAWS)
    if claims.named is not None:
        return usual, ()
    if cells <= MOST_CELLS:
        return DRAWS, ()
    if asked or cells <= most:
        return FEWEST_DRAWS, ()
    return 0, (_no_uncertainty(most),)


def null_draws(
    claims: Claims, bins: MulticlassBins, statistic: Statistic, random_state: int = 0, draws: int = DRAWS
) -> Floats:
    r"""A statistic of the events by bin if every claim were right, for ``draws`` draws of all labels.

    Each row's label is drawn from the row's probabilities; where claims do not exclude each other, each is drawn
    separately. Rows are sorted first, so that their original order does not matter. Cost: O(rows) for each draw,
    O(rows x claims) where claims do not exclude each other.
    """
    assert bins.index is not None
    order = _own_order(claims, bins.index, random_state)
    index = np.full((len(claims), claims.count + 1), len(bins), dtype=np.int32)  # the last one: no claim came true
    index[:, :-1] = bins.index[order]
    mass = None if claims.weights is None else claims.mass[order]
    values = []
    for rows, codes in _drawn(claims, order, index, random_state, draws):
        weights = None if mass is None else mass if rows is None else mass[rows]
        values.append(statistic(np.bincount(codes, weights, len(bins) + 1)[:-1].astype(np.float64)))
    return np.array(values)


def has_closed_null(claims: Claims) -> bool:
    """Whether a closed form replaces draws: claims about each class, many of them or many rows, without weights."""
    class_wise = isinstance(claims.notion, Classwise) and claims.exclusive and claims.weights is None
    return class_wise and (claims.count > MAX_COMPARED or (claims.count > 1 and len(claims) >= MANY_ROWS))


def closed_null(claims: Claims, bins: MulticlassBins) -> dict[str, Any]:
    r"""Mean and 95 % quantile of the class-wise error of order 1 of a calibrated model, without draws.

    The number of events of a bin is a sum of independent events with its scores as probabilities, with mean
    :math:`\mu` and variance v. Its mean absolute deviation is taken from the binomial distribution with the same mean
    and variance, by de Moivre's formula; means of bins add up, whatever their dependence. For the quantile the error is
    taken as normal. Bins of one class are independent; deviations of different classes compete for the same rows. With
    correlation :math:`\rho` of two normal numbers, their absolute values have correlation

    .. math:: c(\rho) = \frac{\rho \arcsin \rho + \sqrt{1 - \rho^2} - 1}{\pi / 2 - 1}.

    Up to 16 classes the correlations are those of the events of two classes; beyond, all are taken as -1 / (K - 1),
    which increases the variance of the sum by a factor of about :math:`1 + 1 / ((\pi - 2) (K - 1))`.

    Notes
    -----
    Against 1,000 draws of the labels, with 2 to 10 classes and 1,000 to 5,000 rows, the mean was within 0.5 % and the
    quantile within 3 %.
    Cost: O(bins), after the pass over the rows that made them; up to 16 classes one product of matrices more.
    Reference: Diaconis and Zabell (1991), for de Moivre's formula.
    """
    assert bins.spread is not None
    deviation = mean_deviation(bins.score_sum, bins.spread)
    variance = np.maximum(bins.spread - deviation**2, 0.0)
    scale = bins.total * claims.averaged
    mean = float(deviation.sum()) / scale
    if claims.count > MAX_COMPARED:
        total = float(variance.sum()) * (1.0 + 1.0 / ((np.pi - 2.0) * (claims.count - 1)))
    else:
        each = np.sqrt(np.bincount(bins.place, variance, claims.count))
        total = float(each @ _deviations_alike(claims.scores) @ each)
    return {"null": mean, "null_high": mean + ONE_SIDED * float(np.sqrt(total)) / scale}


def _deviations_alike(scores: Matrix) -> Floats:
    """Correlations of the absolute deviations of the events of two classes each, as if normal."""
    p = scores.astype(np.float64, copy=False)
    shared = np.diag(p.sum(axis=0)) - p.T @ p
    spread = np.sqrt(np.maximum(shared.diagonal(), 1e-300))
    rho = np.clip(shared / spread[:, None] / spread, -1.0, 1.0)
    np.fill_diagonal(rho, 1.0)
    return np.asarray((rho * np.arcsin(rho) + np.sqrt(1.0 - rho * rho) - 1.0) / (np.pi / 2.0 - 1.0))


def mean_deviation(mean: Floats, variance: Floats) -> Floats:
    """Mean absolute deviation of a binomial number with this mean and this variance.

    Examples
    --------
    >>> mean_deviation(np.array([1.0, 1.0]), np.array([0.5, 1.0])).round(4).tolist()  # two coins; a Poisson number
    [0.5, 0.7358]
    """
    from scipy.special import gammaln

    found = np.sqrt(2.0 / np.pi * variance)
    few = (mean > 0.0) & (variance > 0.0) & (mean < MANY_EVENTS)
    mu, v = mean[few], variance[few]
    chance = np.maximum(1.0 - v / mu, 1e-9)
    size, least = mu / chance, np.floor(mu)
    room = np.maximum(size - least, 1e-9)
    log = gammaln(size + 1.0) - gammaln(least + 1.0) - gammaln(room)
    log += (least + 1.0) * np.log(chance) + room * np.log1p(-chance)
    found[few] = np.minimum(2.0 * np.exp(log), np.sqrt(v))
    return found


def null_facts(draws: Floats) -> dict[str, Any]:
    """Mean and 95 % quantile of null draws as fields of an Estimate; for few draws the normal quantile."""
    mean = draws.mean(axis=0)
    if len(draws) >= DRAWS // 2:
        return {"null": mean, "null_high": np.quantile(draws, 0.95, axis=0)}
    return {"null": mean, "null_high": mean + ONE_SIDED * draws.std(axis=0, ddof=1)}


def first_order_se(claims: Claims, bins: MulticlassBins, p: float) -> float | None:
    r"""First-order standard error of the error of order p, from the influence of each row.

    .. math:: \psi_i = \tfrac1A \textstyle\sum_c [(1 - p) |g|^p + p |g|^{p-1} \operatorname{sign}(g) (y_{ic} - s_{ic})]
              - V, \qquad \operatorname{se}(V) = \tfrac1W \sqrt{\textstyle\sum_i w_i^2 \psi_i^2}

    with :math:`g` the gap of the bin of row i under claim c, :math:`V` the p-th power of the error, A claims and the
    weights :math:`w_i` that sum to W. For the largest error, the standard error of that bin's gap. Dependence between
    claims of a row is accounted for. None below an effective sample size of two, and where the error is 0.
    """
    filled, size = bins.filled, claims.effective_size
    gap = np.where(filled, bins.events - bins.score_sum, 0.0) / np.where(filled, bins.n, 1.0)
    if size < 2.0 or not gap.any():
        return None
    if np.isinf(p):
        top = int(np.abs(gap).argmax())
        slope = np.zeros(len(bins))
        slope[top] = np.sign(gap[top]) * bins.total / bins.n[top]
        change, root = -slope * gap, 1.0
    else:
        power = np.abs(gap) ** p
        square = float((bins.n * power).sum()) / (bins.total * claims.averaged)
        if not square > 0.0:
            return None
        slope = p * np.abs(gap) ** (p - 1.0) * np.sign(gap) / claims.averaged
        change, root = (1.0 - p) * power / claims.averaged, square ** (1.0 / p - 1.0) / p
    moved = bins.row_sums(claims, change, slope) + bins.slopes_of_true(claims, slope)
    mass = claims.mass
    moved -= (mass * moved).sum() / bins.total
    return float(root * np.sqrt((mass**2 * moved**2).sum() * size / (size - 1.0)) / bins.total)


@dataclass(frozen=True, eq=False)
class Covariance:
    r"""Covariance of the gaps of bins, times shares: :math:`\sqrt{w_b w_{b'}} \operatorname{Cov}(g_b, g_{b'})`.

    Bins of one claim have different rows and are independent; bins of different claims share rows. ``rows`` applies the
    covariance estimated from the rows; ``shift`` corrects the diagonal to ``noise``, in which half a row is added for
    each label, so that a bin of one class has a positive variance.

    Attributes
    ----------
    noise
        Diagonal: variance of each bin's gap times its share.
    """

    noise: Floats
    index: Codes | None
    weight: Floats
    deviation: NDArray[np.float64] | None
    shift: Floats

    @classmethod
    def of(cls, claims: Claims, bins: MulticlassBins, share: Floats, noise: Floats) -> Covariance:
        """The covariance of the bins with a positive share."""
        weight = np.where(share > 0.0, np.sqrt(share) / np.where(bins.n > 0, bins.n, 1.0), 0.0)
        if claims.count == 1 or bins.index is None:
            return cls(share * noise, None, weight, None, share * noise)
        gap = np.where(bins.n > 0, bins.events - bins.score_sum, 0.0) / np.where(bins.n > 0, bins.n, 1.0)
        rows, places = claims.true()
        deviation = -(claims.scores + gap[bins.index])
        deviation[rows, places] += 1.0
        deviation *= claims.mass[:, None]
        own = weight**2 * np.bincount(bins.index.ravel(), (deviation**2).ravel(), len(bins))
        return cls(share * noise, bins.index, weight, deviation, share * noise - own)

    def times(self, x: Floats) -> Floats:
        """The matrix times a vector."""
        return self.shift * x + self.from_rows(x)

    def from_rows(self, x: Floats) -> Floats:
        """The part estimated from the rows, times a vector; off the diagonal this is all."""
        if self.index is None or self.deviation is None:
            return np.zeros(len(x))
        by_row = np.einsum("nc,nc->n", self.deviation, (self.weight * x)[self.index])
        back = np.bincount(self.index.ravel(), (self.deviation * by_row[:, None]).ravel(), len(x))
        return np.asarray(self.weight * back)

    def traces(self, random_state: int = 0) -> tuple[float, float]:
        r"""Traces of its square and its cube, exact without dependence, else by :math:`E[z^\top M^k z]`."""
        if self.index is None:
            return float((self.noise**2).sum()), float((self.noise**3).sum())
        rng = generator(random_state, _PROBES)
        found = []
        for _ in range(PROBES):
            z = rng.integers(0, 2, len(self.noise)) * 2.0 - 1.0
            once = self.times(np.asarray(z, dtype=np.float64))
            found.append(((once * once).sum(), (once * self.times(once)).sum()))
        square, cube = np.mean(found, axis=0).tolist()
        # Dependence only increases the first trace; the second is bounded below despite the noise of the probes.
        return max(square, float((self.noise**2).sum())), max(cube, float((self.noise**3).sum()))


def debiased_spread(
    claims: Claims, bins: MulticlassBins, share: Floats, square: float, random_state: int
) -> tuple[float, float, float]:
    r"""Standard error and interval of the debiased square :math:`v`, whose variance grows with the truth :math:`t`.

    As for one score (:func:`calibrant.metrics.debiased_ece`): :math:`\operatorname{Var}(v) \approx a t + 2
    \operatorname{tr} M^2` plus a term for the bin sizes, with the covariance M of :class:`Covariance`; the interval
    contains each t with :math:`(v - t)^2 \le z^2 \operatorname{Var}(v)`, and its lower end accounts for the skewness
    :math:`8 \operatorname{tr} M^3 / (2 \operatorname{tr} M^2)^{3/2}` of a sum of squares.
    """
    kept = share > 0.0
    n = np.where(kept, bins.n, 1.0)
    size = np.where(kept, np.maximum(bins.effective_n, 1.0), 1.0)
    rate = np.where(kept, bins.events, 0.0) / n
    smooth = (rate * size + 0.5) / (size + 1.0)
    noise = np.where(kept, smooth * (1.0 - smooth) / size, 0.0)
    gap = np.where(kept, bins.events - bins.score_sum, 0.0) / n
    signal, seen = np.maximum(gap**2 - noise, 0.0), np.maximum(gap**2, noise)
    matrix = Covariance.of(claims, bins, share, noise)
    pull = np.sqrt(share * seen) * np.sign(gap)
    along = max(float((pull * matrix.times(pull)).sum()), float((share**2 * noise * seen).sum()))
    slope = 4.0 * along / float((share * seen).sum())
    squares, cubes = matrix.traces(random_state)
    between = float((share * signal**2).sum() - (share * signal).sum() ** 2) / claims.effective_size
    base = 2.0 * squares + max(between, 0.0)
    skewness = 8.0 * cubes / (2.0 * squares) ** 1.5 if squares > 0.0 else 0.0
    ends = []
    for z in (-TWO_SIDED - (TWO_SIDED**2 - 1.0) * skewness / 6.0, TWO_SIDED):
        root = np.sqrt(max(slope * square + (z * slope) ** 2 / 4.0 + base, 0.0))
        ends.append(float(square + z * z * slope / 2.0 + z * root))
    # The truth is at least 0, and the interval must contain the estimate; both only widen it.
    return float(np.sqrt(slope * max(square, 0.0) + base)), min(ends[0], square), max(ends[1], 0.0)


def _own_order(claims: Claims, index: Codes, random_state: int) -> NDArray[np.intp]:
    """An order of the rows that depends on their content only."""
    rng = generator(random_state, _ORDER)
    key = np.einsum("nc,c->n", claims.scores, rng.random(claims.count))
    key += np.einsum("nc,c->n", index, rng.random(claims.count))
    return np.lexsort((claims.mass, key))


def _drawn(
    claims: Claims, order: NDArray[np.intp], index: Codes, random_state: int, draws: int
) -> Iterator[tuple[NDArray[np.intp] | None, Codes]]:
    """Bins of the claims that come true in each draw, and their rows: None if there is one for each row."""
    rng, (n, count) = generator(random_state, _NULL), claims.scores.shape
    if not claims.exclusive:
        scores = claims.scores[order]
        for _ in range(draws):
            rows, places = np.nonzero(rng.random(scores.shape) < scores)
            yield rows, index[rows, places]
        return
    find, flat, start = _finder(claims.scores[order]), index.reshape(-1), np.arange(n) * (count + 1)
    for _ in range(draws):
        place: NDArray[np.intp] = start + find(np.asarray(rng.random(n)))
        yield None, flat.take(place)


def _finder(scores: Matrix) -> Callable[[Floats], NDArray[Any]]:
    """From one uniform number for each row to the index of the claim that comes true, or beyond the last."""
    n, count = scores.shape
    below = np.cumsum(scores, axis=1, dtype=np.float64)
    below /= np.maximum(below[:, -1:], 1.0)  # sums of rows may differ from 1 by rounding
    first = np.arange(n)
    if count > MAX_COMPARED:
        below += first[:, None]
        line = below.reshape(-1)
        return lambda u: np.searchsorted(line, u + first, side="right") - count * first
    levels, passed = np.ascontiguousarray(below.T), np.empty(n, dtype=np.bool_)

    def find(u: Floats) -> NDArray[Any]:
        place = np.zeros(n, dtype=np.uint8)
        for level in levels:
            np.greater_equal(u, level, out=passed)
            place += passed.view(np.uint8)
        return place

    return find


@note("no-uncertainty-beyond-cells")
def _no_uncertainty(voice: Voice, most: int) -> str:
    asked = voice.setting("uncertainty", True)
    return f"No uncertainty computed above {most:,} {voice.nouns.rows} times classes: pass {asked} to compute it."
