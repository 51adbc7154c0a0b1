"""Bootstrap samples of cells or of groups of dependent rows, and the intervals that are computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays.columns import check_whole
from calibrant.metrics.smoothers import fit_spline
from calibrant.metrics.variance import squared_weights
from calibrant.numerics import Floats, Grid
from calibrant.progress import progress
from calibrant.tallies import Clusters, Tally
from calibrant.tallies.cells import Cells

MOST_CELLS, COARSE_GRID = 250, Grid(bits=4)
"""Number of cells above which samples are drawn on a grid, and that grid; scores occupy 100 to 300 of its cells."""

MOST_BLOCKS = 100
"""Number of blocks of rows that are left out one at a time, for the acceleration of an interval."""

UNDEFINED_SHARE = 0.2
"""Share of samples without a value above which there is no interval."""

LARGEST_BIAS = 1.0
"""Median bias, in standard deviations, above which an interval from plain bootstrap samples is not trusted."""

POPULATION = 1e9
"""Rows of a sample so large that chance adds nothing to an error."""

FIRST_STEPS, MOST_DOUBLINGS = (0.0, 0.3, 0.6, 1.0, 1.5), 6
"""Multiples of the observed distance at which samples are evaluated first, and how often the last one is doubled."""

NEAR = (-1.3, -0.8, 0.8, 1.3)
"""Further steps, in half lengths of a normal interval: between far ones the normal scores are those of no sample."""

_STREAM = 4  # see resampling.py: streams of random numbers differ under one random_state

_values_only: ContextVar[bool] = ContextVar("values_only", default=False)

Noise = Callable[[Floats, Floats], Floats]
"""From estimated and assumed event rates by cell to the noise in the events of every sample."""

Statistic = Callable[[Tally], Floats]
"""From a sample to the value of one or more metrics."""


def generator(random_state: int, stream: int) -> np.random.Generator:
    """A random generator for one purpose (``stream``) and one seed."""
    check_whole("random_state", random_state, 0)
    return np.random.default_rng([int(random_state), stream])


@contextmanager
def values_only() -> Iterator[None]:
    """Within this context metrics compute neither standard errors nor null values, which thousands of samples lack."""
    token = _values_only.set(True)
    try:
        yield
    finally:
        _values_only.reset(token)


def only_values() -> bool:
    """Whether standard errors and null values are left out."""
    return _values_only.get()


@dataclass(frozen=True, eq=False)
class Draws:
    """Bootstrap samples of a tally: rows, or whole groups of dependent rows, drawn with replacement.

    Attributes
    ----------
    scores
        Score of each cell.
    n, events, w2
        Of the data: rows (or sums of weights), events and sums of squared weights by cell.
    drawn_n, drawn_events, drawn_w2
        The same of each sample, one line per sample.
    left_n, left_events, left_w2
        The same of the data without one block of rows or groups, one line per block.
    units
        Independent units of which the data consist: rows of the minority class, or groups if these are fewer.
    noise
        Random part of the events of each sample under assumed event rates.
    """

    scores: Floats
    n: Floats
    events: Floats
    w2: Floats
    drawn_n: Floats
    drawn_events: Floats
    drawn_w2: Floats
    left_n: Floats
    left_events: Floats
    left_w2: Floats
    units: float
    noise: Noise

    @classmethod
    def of(cls, data: Tally | Clusters, repetitions: int, random_state: int) -> Draws:
        """Samples of a tally or of counts by cluster."""
        check_whole("random_state", random_state, 0)
        rng = np.random.default_rng([int(random_state), _STREAM])
        return _of_groups(data, repetitions, rng) if isinstance(data, Clusters) else _of_rows(data, repetitions, rng)

    def once(self, scale: float = 1.0, rate: Floats | None = None) -> Tally:
        """The data on these cells; with ``rate`` as event rates, and rows times ``scale``."""
        events = self.events if rate is None else self.n * rate
        return self._tally(self.n * scale, events * scale, self.w2 * scale)

    def samples(self) -> Iterator[Tally]:
        """The samples."""
        yield from self._each(self.drawn_n, self.drawn_events, self.drawn_w2)

    def samples_at(self, rate: Floats, estimated: Floats) -> Iterator[Tally]:
        """Samples whose true event rates are ``rate``; ``estimated`` are those of the data."""
        events = self.drawn_n * rate + self.noise(estimated, rate)
        yield from self._each(self.drawn_n, events, self.drawn_w2)

    def without_block(self) -> Iterator[Tally]:
        """The data without one block of rows or groups, for each block."""
        yield from self._each(self.left_n, self.left_events, self.left_w2)

    def _each(self, n: Floats, events: Floats, w2: Floats) -> Iterator[Tally]:
        samples = zip(n, events, w2, strict=True)
        for rows, hits, squares in progress(samples, "metrics: bootstrap samples", len(n)):
            yield self._tally(rows, hits, squares)

    def _tally(self, n: Floats, events: Floats, w2: Floats) -> Tally:
        kept = n > 0.0
        n, events, w2 = n[kept], events[kept], w2[kept]
        w2_events = w2 * np.clip(events / n, 0.0, 1.0)
        return Tally(Cells(self.scores[kept], n, events, w2=w2, w2_events=w2_events), counts=False)


def _of_rows(tally: Tally, repetitions: int, rng: np.random.Generator) -> Draws:
    w2, w2_events = squared_weights(tally)
    columns = [np.asarray(each, dtype=np.float64) for each in (tally.n, tally.events, w2, w2_events)]
    scores, place = sample_cells(np.asarray(tally.scores), columns[0])
    n, events, w2, w2_events = (np.bincount(place, each, len(scores)).astype(np.float64) for each in columns)
    mass = np.concatenate([events, np.maximum(n - events, 0.0)])
    squares = np.concatenate([w2_events, np.maximum(w2 - w2_events, 0.0)])
    unit = np.where(mass > 0.0, squares / np.where(mass > 0.0, mass, 1.0), 1.0)
    unit = np.where(unit > 0.0, unit, 1.0)
    rows = mass / unit
    if tally.counts:
        times = rng.multinomial(round(rows.sum()), rows / rows.sum(), repetitions)
    else:
        times = rng.poisson(rows, (repetitions, len(rows)))
        times[~(times.sum(axis=1) > 0)] = np.rint(rows)
    blocks = max(2, min(MOST_BLOCKS, round(rows.sum())))
    left = rows - np.array([rng.multinomial(round(each), np.full(blocks, 1.0 / blocks)) for each in rows]).T
    half, drawn, kept = len(scores), np.asarray(times * unit, dtype=np.float64), np.maximum(left, 0.0) * unit
    drawn_squares, kept_squares = drawn * unit, kept * unit
    total, hits = float(n.sum()), float(rows[:half].sum())
    drawn_n, each = drawn[:, :half] + drawn[:, half:], w2 / n
    counts, seed = np.rint(drawn_n / each).astype(np.int64), int(rng.integers(1 << 62))

    def noise(estimated: Floats, assumed: Floats) -> Floats:
        """Independent labels; the same random numbers for every assumption."""
        labels = np.random.default_rng(seed)
        hits = np.empty(drawn_n.shape)
        for place in range(len(assumed)):  # by cell, so that a cell's random numbers do not depend on the others
            hits[:, place] = labels.spawn(1)[0].binomial(counts[:, place], assumed[place])
        return np.asarray((hits - counts * assumed) * each)

    return Draws(
        scores,
        n,
        events,
        w2,
        drawn_n,
        drawn[:, :half],
        drawn_squares[:, :half] + drawn_squares[:, half:],
        kept[:, :half] + kept[:, half:],
        kept[:, :half],
        kept_squares[:, :half] + kept_squares[:, half:],
        min(hits, float(rows.sum()) - hits) if total > 0.0 else 0.0,
        noise,
    )


def _of_groups(data: Clusters, repetitions: int, rng: np.random.Generator) -> Draws:
    from scipy.sparse import csr_array  # imported here because it is slow to load

    tally, size = data.tally, data.size
    scores, place = sample_cells(np.asarray(tally.scores), np.asarray(tally.n, dtype=np.float64))
    n, events = (np.asarray(each, dtype=np.float64) for each in (data.n, data.events))
    # lines are rows, or counts of rows of weight one
    squares = n if tally.counts else n * n
    at = (place[data.cell], data.cluster)
    tables = [csr_array((each, at), shape=(len(scores), size)) for each in (n, events, squares)]
    times = rng.multinomial(size, np.full(size, 1.0 / size), repetitions).astype(np.float64)
    blocks = min(size, MOST_BLOCKS)
    block = rng.permutation(size) % blocks
    kept = (block[None, :] != np.arange(blocks)[:, None]).astype(np.float64)
    drawn, left = ([np.asarray((table @ each.T).T) for table in tables] for each in (times, kept))
    whole = [np.asarray(table @ np.ones(size)) for table in tables]
    rows = np.bincount(data.cluster, n, size)
    units = float(rows.sum() ** 2 / (rows * rows).sum())
    hits = np.bincount(data.cluster, events, size)
    both = [float(each.sum() ** 2 / (each * each).sum()) if each.any() else 0.0 for each in (hits, rows - hits)]
    signs = 2.0 * rng.binomial(times.astype(np.int64), 0.5) - times

    def noise(estimated: Floats, assumed: Floats) -> Floats:
        """Residuals of whole groups with random signs (wild bootstrap), whatever is assumed."""
        rows, hits = tables[0] @ signs.T, tables[1] @ signs.T
        return np.asarray((hits - estimated[:, None] * rows).T)

    (n, events, w2), (drawn_n, drawn_events, drawn_w2), (left_n, left_events, left_w2) = whole, drawn, left
    least = min(units, *both)
    return Draws(scores, n, events, w2, drawn_n, drawn_events, drawn_w2, left_n, left_events, left_w2, least, noise)


def sample_cells(scores: Floats, n: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Scores of the cells on which samples are drawn, and the place of each given cell among them."""
    if len(scores) <= MOST_CELLS:
        return scores, np.arange(len(scores))
    _, place = np.unique(COARSE_GRID.cells(scores)[0], return_inverse=True)
    mass = np.bincount(place, n)
    return np.asarray(np.bincount(place, n * scores) / mass), place


# ------------------------------------------------------------------------------------------------------------ intervals


def widened(confidence: float, units: float) -> float:
    r"""Standard deviations either way, :math:`\sqrt{m / (m - 1)}\, t_{m - 1}` for m independent units.

    The variance of bootstrap samples is too small by (m - 1) / m, and its estimate is uncertain (Hesterberg 2015).

    Examples
    --------
    >>> round(widened(0.95, 10.0), 3), round(widened(0.95, 1e9), 3)
    (2.385, 1.96)
    """
    return float(np.sqrt(units / (units - 1.0)) * special.stdtrit(units - 1.0, (1.0 + confidence) / 2.0))


@dataclass(frozen=True)
class Ends:
    """Ends of an interval, the standard deviation of the samples, and the share of samples without a value."""

    low: float
    high: float
    se: float
    undefined: float = 0.0
    biased: bool = False
    """Whether the samples are so far from the value that their quantiles are not an interval for it."""
    needed: int = 0
    """Number of samples that the confidence level needs, if there were fewer."""


def samples_needed(errors: float) -> int:
    """Number of samples below which no share of them is as small as that beyond ``errors`` standard deviations.

    Examples
    --------
    >>> samples_needed(widened(0.95, 1e9)), samples_needed(widened(0.99, 1e9))
    (20, 100)
    """
    return int(np.ceil(0.5 / max(float(special.ndtr(-errors)), 1e-12) - 1e-4))


def accelerated(samples: Floats, value: float, left: Floats, errors: float) -> Ends:
    r"""Bias-corrected and accelerated interval (BCa) from bootstrap samples and jackknife values.

    .. math:: \Phi\Bigl(z_0 + \frac{z_0 \pm z}{1 - a (z_0 \pm z)}\Bigr), \qquad
              z_0 = \Phi^{-1}(P^*(\theta^* < \hat\theta)), \qquad
              a = \frac{\sum_b d_b^3}{6 (\sum_b d_b^2)^{3/2}},

    are the quantiles of the samples :math:`\theta^*` at its ends, with ``errors`` standard deviations z either way and
    the deviations :math:`d_b` of the jackknife values from their mean, with opposite sign (Efron 1987). Where fewer
    samples were drawn than such a quantile needs, the ends are those of the samples, and ``needed`` says how many are.
    """
    good, kept = samples[np.isfinite(samples)], left[np.isfinite(left)]
    undefined = 1.0 - len(good) / len(samples)
    if undefined > UNDEFINED_SHARE or len(good) < 2:
        return Ends(np.nan, np.nan, np.nan, undefined)
    se = float(good.std(ddof=1))
    below = (np.count_nonzero(good < value) + 0.5 * np.count_nonzero(good == value)) / len(good)
    bias = float(special.ndtri(np.clip(below, 0.5 / len(good), 1.0 - 0.5 / len(good))))
    if abs(bias) > LARGEST_BIAS:
        return Ends(np.nan, np.nan, se, undefined, biased=True)
    d = kept.mean() - kept if len(kept) else np.zeros(1)
    square = float((d * d).sum())
    skew = float((d**3).sum()) / (6.0 * square**1.5) if square > 0.0 else 0.0
    shares = []
    for z in (-errors, errors):
        far = bias + z
        shares.append(float(special.ndtr(bias + far / max(1.0 - skew * far, 0.1))))
    low, high = np.quantile(good, shares)
    needed = int(np.ceil(0.5 / max(min(shares[0], 1.0 - shares[1]), 1e-12) - 1e-4))
    return Ends(float(low), float(high), se, undefined, needed=needed if needed > len(good) else 0)


def inverted(draws: Draws, statistic: Statistic, value: Floats, errors: float) -> tuple[Ends, ...] | None:
    r"""Intervals for distances from perfect calibration, by inverting a test; None where there is no curve.

    A distance is biased upward, the more the nearer the model is to calibration, so quantiles of plain bootstrap
    samples are not an interval for it: they exclude the true distance. Instead the event rates are moved along the line
    from the scores to the estimated curve,

    .. math:: p_\lambda(s) = s + \lambda\, (c(s) - s), \qquad \lambda \ge 0,

    where c is a spline of the event rate. In the samples at :math:`\lambda` scores are drawn from the data and labels
    from :math:`p_\lambda`, or, for dependent rows, residuals :math:`y - c(s)` of whole groups with random signs are
    added to :math:`p_\lambda`. The distance that belongs to them is that of :math:`p_\lambda` itself. The interval
    holds the distances at which the observed value lies between the quantiles of the samples, and that value. It begins
    at 0 where calibrated scores may show such a value. Fewer samples than :func:`samples_needed` give no ends.
    """
    rate = fit_spline(draws.scores, draws.n, draws.events).at(draws.scores)
    if not np.isfinite(rate).all():
        return None
    gap = rate - draws.scores
    if not np.abs(gap).max() > 1e-12:
        spread = draws.scores * (1.0 - draws.scores)
        gap = spread / np.sqrt(max(float((draws.n * spread).sum()), 1e-300))
        gap = np.where(np.abs(gap).max() > 0.0, gap, 1e-3)
    plain = np.array([statistic(each) for each in draws.samples()])
    undefined = 1.0 - np.isfinite(plain).mean(axis=0)
    deviations = []
    for column in plain.T:
        good = column[np.isfinite(column)]
        deviations.append(float(good.std(ddof=1)) if len(good) > 1 else np.nan)
    if len(plain) < samples_needed(errors):
        return tuple(Ends(np.nan, np.nan, se, needed=samples_needed(errors)) for se in deviations)
    own = statistic(draws.once(POPULATION / float(draws.n.sum()), np.clip(draws.scores + gap, 0.0, 1.0)))
    if own[0] > 0.0 and value[0] > 0.0:  # steps in units of the observed distance
        gap = gap * (value[0] / own[0])
    size = len(draws.drawn_n)
    found: dict[float, tuple[Floats, Floats, Floats]] = {}

    def at(step: float) -> tuple[Floats, Floats, Floats]:
        """Distances at a step, and normal scores of the samples at or below the value, and below it."""
        if step not in found:
            target = np.clip(draws.scores + step * gap, 0.0, 1.0)
            samples = np.array([statistic(each) for each in draws.samples_at(target, rate)])
            truth = statistic(draws.once(POPULATION / float(draws.n.sum()), target))
            truth = np.where(np.abs(truth) < 1.0 / POPULATION, 0.0, truth)  # rounding, and SKCE of a population
            good = np.maximum(np.isfinite(samples).sum(axis=0), 1)
            slack = 1e-12 * np.abs(value)
            upto, below = ((samples <= value + slack).sum(axis=0), (samples < value - slack).sum(axis=0))
            scores = [special.ndtri(np.clip(each / good, 0.5 / size, 1.0 - 0.5 / size)) for each in (upto, below)]
            found[step] = truth, scores[0], scores[1]
        return found[step]

    near = {1.0 + k * errors * float(se / v) for se, v in zip(deviations, value, strict=True) for k in NEAR if v > 0.0}
    steps = sorted({*FIRST_STEPS, *(step for step in near if 0.3 < step < 1.5)})
    for _ in range(MOST_DOUBLINGS):
        if (at(steps[-1])[1] <= -errors).all():
            break
        steps.append(2.0 * steps[-1])
    table = [at(step) for step in steps]
    made = []
    for place in range(len(value)):
        truths, upto, below = (np.array([each[part][place] for each in table]) for part in range(3))
        se = deviations[place]
        if undefined[place] > UNDEFINED_SHARE or not np.isfinite(truths).all():
            made.append(Ends(np.nan, np.nan, se, float(undefined[place])))
            continue
        low, high = crossing(truths, below, errors), crossing(truths, upto, -errors)
        seen = float(value[place])  # a value below those of calibrated samples would leave the interval empty
        made.append(Ends(min(low, seen), max(high, seen), se))
    return tuple(made)


def crossing(truths: Floats, scores: Floats, level: float) -> float:
    """The distance at which decreasing normal scores cross a level: the first end if they start below it."""
    falling = np.minimum.accumulate(scores)
    after = int(np.argmax(falling <= level)) if (falling <= level).any() else len(falling)
    if after == 0:
        return float(truths[0])
    if after == len(falling):
        return float(truths[-1])
    one, two = falling[after - 1], falling[after]
    share = (one - level) / (one - two) if one > two else 1.0
    return float(truths[after - 1] + share * (truths[after] - truths[after - 1]))
