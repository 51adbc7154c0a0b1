r"""Empirical Bayes by segment: an intercept and a slope for each segment, shrunk toward the global map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.fits.segments.counts import Lines, SegmentCells, Stages
from calibrant.numerics import Floats, Ints, expit
from calibrant.solvers import softplus
from calibrant.tallies import Counts

FEW_CELLS, BIN_WIDTH = 1 << 13, 1.0 / 8.0
"""With more cells than this, cells whose log-odds share a bin of this width are merged at their mean; the error in
probabilities is below 1e-4."""

NEWTON_STEPS, NEWTON_TOLERANCE = 60, 1e-9
"""Maximum number of Newton steps, and the decrement, in nats, at which one last step ends the search."""

INTERCEPT_SCALES = (0.0, 0.03, 0.08, 0.2, 0.5, 1.2, 3.0)
SLOPE_SCALES = (0.0, 0.03, 0.08, 0.2, 0.5)
"""Standard deviations that are tried first; then values between the neighbors of the best."""

MIN_EVIDENCE_GAIN = 1.0
"""Nats of evidence that a prior needs to let segments differ: the penalty of one parameter in AIC."""

SWEEPS, REFINEMENTS, BISECTIONS = 4, 3, 40
"""Maximum numbers of sweeps over the scales, refinements of a scale, and bisections for the mixture share."""

SMALLER = 0.7
"""Cells of settled segments are dropped when at most this share remains."""

NEAR_ZERO = 0.005
"""Replaces a scale of 0 where scales are compared by their ratio."""


class Scales(NamedTuple):
    """Standard deviations between segments of intercepts and of slopes about 1, and the share that differs far more."""

    level: float
    slope: float
    far: float = 0.0
    """Share of the segments whose deviations are those of :data:`WIDE` instead."""


WIDE = Scales(0.7, 0.35)
"""Prior of a segment that clearly differs: odds by a factor of 2, and a slope by a third."""


COMMON = Scales(5.0, 5.0)
"""Prior of the line for all rows: nearly flat."""


@dataclass(frozen=True, eq=False)
class Segmented:
    """Cells of the segments of one column, segment after segment: the segment, log-odds, rows and events of each."""

    group: Ints
    x: Floats
    n: Floats
    events: Floats
    size: int
    center: Floats
    """Pivot of each segment's slope: mean log-odds weighted by the information of the rows."""

    @classmethod
    def of(cls, group: Ints, x: Floats, n: Counts, events: Counts, size: int) -> Segmented:
        """From cells; rows without a segment are left out, and very many cells are merged."""
        kept = np.flatnonzero(group >= 0)
        group, x = group[kept], x[kept]
        rows, hits = n[kept].astype(np.float64), events[kept].astype(np.float64)
        if len(group) > FEW_CELLS:
            group, x, rows, hits = _joined(group, x, rows, hits)
        elif (group[1:] < group[:-1]).any():
            order = np.argsort(group, kind="stable")
            group, x, rows, hits = group[order], x[order], rows[order], hits[order]
        p = expit(x)
        weight = rows * p * (1.0 - p)
        mass = np.bincount(group, weight, size)
        center = np.bincount(group, weight * x, size) / np.where(mass > 0.0, mass, 1.0)
        return cls(group, x, rows, hits, size, center)

    @cached_property
    def loss(self) -> Floats:
        """Summed log loss of each segment's rows without any correction."""
        return self.sums(self.n * np.logaddexp(0.0, self.x) - self.events * self.x)

    @cached_property
    def cells(self) -> Ints:
        """Number of cells of each segment."""
        return np.bincount(self.group, minlength=self.size)

    @cached_property
    def turned(self) -> Floats:
        """Log-odds minus the center of their segment."""
        return np.asarray(self.x - self.spread_out(self.center))

    @cached_property
    def _filled(self) -> tuple[Ints, Ints]:
        """Segments with cells, and the first cell of each."""
        filled = np.flatnonzero(self.cells)
        return filled, (np.cumsum(self.cells) - self.cells)[filled]

    def spread_out(self, values: Floats) -> Floats:
        """A value for each segment, repeated for its cells."""
        return np.asarray(np.repeat(values, self.cells))

    def sums(self, values: Floats) -> Floats:
        """Sum of a column of cells by segment."""
        filled, starts = self._filled
        found = np.zeros(self.size)
        if len(filled):
            found[filled] = np.add.reduceat(values, starts)
        return found

    def only(self, segments: NDArray[np.bool_]) -> Segmented:
        """The cells of some segments, which are numbered anew."""
        kept = np.repeat(segments, self.cells)
        group = (np.cumsum(segments) - 1)[self.group[kept]]
        x, n, events = self.x[kept], self.n[kept], self.events[kept]
        return Segmented(group, x, n, events, int(segments.sum()), self.center[segments])


def _joined(group: Ints, x: Floats, n: Floats, events: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    low = np.floor(float(x.min()) / BIN_WIDTH)
    bins = (np.floor(x / BIN_WIDTH) - low).astype(np.int64)
    width = int(bins.max()) + 1
    keys, index = np.unique(group * width + bins, return_inverse=True)
    total, moment, hits = (np.asarray(np.bincount(index, part), dtype=np.float64) for part in (n, n * x, events))
    return keys // width, moment / total, total, hits


@dataclass(frozen=True, eq=False)
class Modes:
    """Posterior modes of intercept and slope of each segment, the intercept's posterior deviation, the evidence."""

    level: Floats
    """Intercept at the center."""
    stretch: Floats
    """Slope minus 1."""
    sd: Floats
    """Posterior standard deviation of the intercept."""
    evidence: Floats
    """Log marginal likelihood of each segment by Laplace's method, relative to no difference."""

    @property
    def slopes(self) -> Floats:
        """Slopes on the log-odds."""
        return 1.0 + self.stretch

    def intercepts(self, data: Segmented) -> Floats:
        """Intercepts that go with the slopes."""
        return np.asarray(self.level - self.stretch * data.center)


def most_probable(data: Segmented, scales: Scales, start: Modes | None = None) -> Modes:
    r"""Posterior modes of intercept and slope of every segment under a Gaussian prior, and the evidence of the prior.

    .. math:: \max_{a_g, d_g} \sum_{i \in g} \log P\bigl(y_i \mid x_i + a_g + d_g (x_i - c_g)\bigr)
              - \frac{a_g^2}{2 \tau^2} - \frac{d_g^2}{2 \sigma^2}, \qquad d_g \ge -1,

    for segments g, log-odds x, centers :math:`c_g`, and :math:`\tau, \sigma` = ``scales``. With :math:`H_g` the
    negative Hessian of the log-likelihood at the maximum and D the diagonal matrix of the scales, the evidence of a
    segment is the maximum minus :math:`\tfrac12 \log\det(I + D H_g D)`, minus the log-likelihood without any deviation
    (Laplace's method). ``scales.far`` is not used.

    Notes
    -----
    Edge cases: a scale of 0 fixes its parameter at 0; with one class in a segment the prior keeps the values finite.
    Guarantee: no finite-sample guarantee.
    Cost: one pass over the cells per Newton step, for all segments together.

    Examples
    --------
    >>> one = np.zeros(1, dtype=np.int64)
    >>> data = Segmented.of(one, np.zeros(1), np.array([4.0]), np.array([1.0]), 1)
    >>> most_probable(data, Scales(0.7, 0.0)).level.round(3).tolist()  # maximum likelihood would be -1.1
    [-0.33]
    """
    spread = np.array([[scales.level], [scales.slope]])
    free = np.ones(data.size, dtype=bool)
    values = np.zeros((2, data.size))
    if start is not None:
        given = np.stack([start.level, start.stretch])
        values = np.divide(given, spread, out=values, where=spread > 0.0)
    values, curvature, fall = _newton(data, spread, values, free)
    evidence = fall - 0.5 * np.log(_determinant(curvature))
    falling = spread[1] * values[1] < -1.0
    if falling.any():  # no decreasing map: the slope is fixed at zero, and the intercept refitted
        values[1, falling] = -1.0 / scales.slope
        values, curvature, _ = _newton(data, spread, values, ~falling)
    variance = curvature[1, 1] / _determinant(curvature)
    level, stretch = spread * values
    return Modes(level, np.maximum(stretch, -1.0), scales.level * np.sqrt(variance), evidence)


def _newton(data: Segmented, spread: Floats, values: Floats, free: Floats) -> tuple[Floats, Floats, Floats]:
    """Damped Newton steps in units of the prior's standard deviations.

    Not :func:`~calibrant.solvers.damped_newton`: each segment has its own loss, and its steps are halved separately.
    """
    loss, gradient, curvature = _posterior(data, spread, values, free)
    values, damping = values.copy(), np.ones(data.size)
    part, inside = data, np.arange(data.size)  # the segments that may still move, and their cells
    for _ in range(NEWTON_STEPS):
        step = _solved(curvature, gradient)
        open_ = (gradient * step).sum(axis=0) > NEWTON_TOLERANCE
        if not open_.any():
            break
        moving = open_[inside]
        if part.cells[moving].sum() < SMALLER * len(part.x):
            part, inside = part.only(moving), inside[moving]
        trial = values[:, inside] - np.where(open_, damping, 0.0)[inside] * step[:, inside]
        reached = _posterior(part, spread, trial, free[inside])
        taken = open_[inside] & (reached[0] <= loss[inside])
        damping[inside] = np.where(taken, 1.0, damping[inside] * 0.5)
        won = inside[taken]
        values[:, won], loss[won] = trial[:, taken], reached[0][taken]
        gradient[:, won], curvature[:, :, won] = reached[1][:, taken], reached[2][:, :, taken]
    final = values - np.where((gradient * step).sum(axis=0) <= 1e-3, step, 0.0)
    return final, curvature, data.loss - loss


def _posterior(data: Segmented, spread: Floats, values: Floats, free: Floats) -> tuple[Floats, Floats, Floats]:
    """Negative log posterior of each segment, gradient (2, segments) and Hessian (2, 2, segments)."""
    level, stretch = spread * values
    z = data.x + data.spread_out(level)
    sloped = bool(spread[1, 0] > 0.0)  # otherwise slopes are fixed, and their sums have no effect
    if sloped:
        z += data.spread_out(stretch) * data.turned
    value, p = softplus(z)
    loss = data.sums(data.n * value - data.events * z)
    due = data.n * p
    excess, weight = due - data.events, due * (1.0 - p)
    gradient, own, cross = values.copy(), np.ones(data.size), np.zeros(data.size)
    gradient[0] += spread[0] * data.sums(excess)
    if sloped:
        mixed = weight * data.turned
        gradient[1] += spread[1] * data.sums(excess * data.turned)
        cross = np.where(free, spread[0] * spread[1] * data.sums(mixed), 0.0)
        own = np.where(free, 1.0 + spread[1] ** 2 * data.sums(mixed * data.turned), 1.0)
    gradient[1] = np.where(free, gradient[1], 0.0)
    curvature = np.array([[1.0 + spread[0] ** 2 * data.sums(weight), cross], [cross, own]])
    return loss + 0.5 * (values**2).sum(axis=0), gradient, curvature


def _determinant(curvature: Floats) -> Floats:
    return np.asarray(curvature[0, 0] * curvature[1, 1] - curvature[0, 1] ** 2)


def _solved(curvature: Floats, gradient: Floats) -> Floats:
    first = curvature[1, 1] * gradient[0] - curvature[0, 1] * gradient[1]
    second = curvature[0, 0] * gradient[1] - curvature[0, 1] * gradient[0]
    return np.asarray(np.stack([first, second]) / _determinant(curvature))


# ----------------------------------------------------------------------------------------------------- column by column


@dataclass(frozen=True)
class Shrunken:
    """Lines of the segments, the scales of each column, and posterior standard deviations of the intercepts."""

    stages: Stages
    scales: dict[str, Scales]
    sds: dict[str, Floats]


def shrink(cells: SegmentCells, x: Floats) -> Shrunken:
    """Intercepts and slopes of the segments of each column, one column after the other, from log-odds x.

    Segments are compared with each other: they are shrunk toward the line on x that is best for all rows, so that an
    error of the global map itself, such as with one class, does not make them differ. If they do not differ, that line
    is not used.
    """
    stages: list[tuple[str, Lines]] = []
    scales: dict[str, Scales] = {}
    sds: dict[str, Floats] = {}
    for name, segments in cells.columns.items():
        slope, intercept = common_line(cells, x)
        data = Segmented.of(cells.codes[name], slope * x + intercept, cells.n, cells.events, len(segments))
        scales[name], modes = fit_scales(data)
        sds[name] = modes.sd
        if any(scales[name]):
            pairs = zip(modes.slopes * slope, modes.slopes * intercept + modes.intercepts(data), strict=True)
            stages.append((name, {code: (float(a), float(b)) for code, (a, b) in enumerate(pairs)}))
            x = cells.moved(x, *stages[-1])
    return Shrunken(tuple(stages), scales, sds)


def common_line(cells: SegmentCells, x: Floats) -> tuple[float, float]:
    """Slope and intercept on the log-odds for all rows together, under a nearly flat prior around 1 and 0."""
    data = Segmented.of(np.zeros(len(x), dtype=np.int64), x, cells.n, cells.events, 1)
    modes = most_probable(data, COMMON)
    return float(modes.slopes[0]), float(modes.intercepts(data)[0])


# ----------------------------------------------------------------------------------------------------------- the scales


def fit_scales(data: Segmented) -> tuple[Scales, Modes]:
    r"""Scales of intercepts and slopes between segments, by marginal likelihood, and the segments' values.

    Deviations are :math:`N(0, \tau^2)` and :math:`N(0, \sigma^2)`, with the scales that maximize the sum of the
    evidences of :func:`most_probable`: one after the other, over a coarse list first, then between the neighbors of
    the best. A scale that does not raise it by one nat is 0: there is no evidence that segments differ. If it raises
    the evidence by another nat, a share :math:`\pi` of the segments has standard deviations 0.7 and 0.35 instead, with
    evidence :math:`\log((1 - \pi) e^{E_g} + \pi e^{W_g})`, so that a few segments that are far off are not shrunk
    toward the many that are not; values are then means over both, weighted by posterior probability.

    Notes
    -----
    Guarantee: no finite-sample guarantee; the estimate of the scale is reliable only with about a dozen segments or
    more. With few segments it is about as large as their differences.
    Cost: about fifty calls of :func:`most_probable`, each started from the last solution.
    Reference: Efron and Morris (1973) for the idea, Tierney and Kadane (1986) for Laplace's method.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> group, x = np.repeat(np.arange(50), 400), rng.normal(-1.0, 1.3, 20_000)
    >>> events = rng.random(20_000) < expit(x + rng.normal(0.0, 0.5, 50)[group])
    >>> scales, modes = fit_scales(Segmented.of(group, x, np.ones(20_000), events, 50))
    >>> round(scales.level, 1), scales.slope, scales.far
    (0.5, 0.0, 0.0)
    """
    scales, best = _searched(data, lambda modes: float(modes.evidence.sum()))
    wide = most_probable(data, WIDE)

    def mixed(modes: Modes) -> float:
        return _mixture(wide.evidence - modes.evidence)[1] + float(modes.evidence.sum())

    if mixed(best) < float(best.evidence.sum()) + 0.1:  # no gain from a second component
        return scales, best
    others, narrow = _searched(data, mixed)
    if mixed(narrow) < float(best.evidence.sum()) + MIN_EVIDENCE_GAIN:
        return scales, best
    share = _mixture(wide.evidence - narrow.evidence)[0]
    return others._replace(far=share), _averaged(narrow, wide, share)


def _mixture(ahead: Floats) -> tuple[float, float]:
    """Most likely share of the second of two components, given its lead in nats, and the gain in evidence."""
    ratio = np.expm1(np.minimum(ahead, 500.0))
    low, high = 0.0, 1.0 - 1e-9
    if float(ratio.sum()) <= 0.0:
        return 0.0, 0.0
    for _ in range(BISECTIONS):  # concave in the share
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float((ratio / (1.0 + middle * ratio)).sum()) > 0.0 else (low, middle)
    return low, float(np.log1p(low * ratio).sum())


def _averaged(narrow: Modes, wide: Modes, share: float) -> Modes:
    """Means over both components of the prior, weighted by posterior probability."""
    odds = share / (1.0 - share) * np.exp(np.minimum(wide.evidence - narrow.evidence, 500.0))
    chance = odds / (1.0 + odds)
    apart = wide.level - narrow.level
    return Modes(
        narrow.level + chance * apart,
        narrow.stretch + chance * (wide.stretch - narrow.stretch),
        np.sqrt((1.0 - chance) * narrow.sd**2 + chance * wide.sd**2 + chance * (1.0 - chance) * apart**2),
        narrow.evidence + np.log1p(share * np.expm1(np.minimum(wide.evidence - narrow.evidence, 500.0))),
    )


Height = Callable[[Modes], float]


def _searched(data: Segmented, height: Height) -> tuple[Scales, Modes]:
    """The scales with the highest evidence."""
    best, scales = most_probable(data, Scales(0.0, 0.0)), Scales(0.0, 0.0)
    lists: list[tuple[float, ...]] = [INTERCEPT_SCALES, SLOPE_SCALES]
    for _ in range(SWEEPS):
        before = height(best)
        for place in (0, 1):
            scales, best = _improved(data, scales, best, place, lists[place], height)
            near = scales[place]
            lists[place] = (0.0, near / 1.5, near, near * 1.5) if near else (0.0, 0.05, 0.1)
        if height(best) < before + 0.01:
            break
    return scales, best


def _improved(
    data: Segmented, scales: Scales, best: Modes, place: int, listed: Sequence[float], height: Height
) -> tuple[Scales, Modes]:
    """The best value of one scale, with the other fixed."""
    last, found, heights = best, {}, {}

    def visit(value: float) -> None:
        nonlocal last
        last = best if value == scales[place] else most_probable(data, _with(scales, place, value), last)
        found[value], heights[value] = last, height(last)

    for value in listed:
        visit(value)
    _refine(heights, visit)
    top = max(heights, key=lambda value: heights[value])
    if heights[top] < heights[0.0] + MIN_EVIDENCE_GAIN:
        top = 0.0
    return _with(scales, place, top), found[top]


def _refine(heights: dict[float, float], visit: Callable[[float], None]) -> None:
    """Visit the maximum of a parabola through the best value and its neighbors."""
    for _ in range(REFINEMENTS):
        known = sorted(heights)
        place = max(range(len(known)), key=lambda j: heights[known[j]])
        if place in (0, len(known) - 1):
            return
        around = known[place - 1 : place + 2]
        value = _top_of_parabola(np.log(np.maximum(around, NEAR_ZERO)), [heights[each] for each in around])
        if min(abs(value / each - 1.0) for each in around if each) < 0.02:
            return
        visit(value)


def _top_of_parabola(x: Floats, height: list[float]) -> float:
    left, right = (height[1] - height[0]) / (x[1] - x[0]), (height[2] - height[1]) / (x[2] - x[1])
    bend = (right - left) / (x[2] - x[0])
    top = x[1] if bend >= 0.0 else (x[0] + x[1]) / 2.0 - left / (2.0 * bend)
    return float(np.exp(np.clip(top, x[0], x[2])))


def _with(scales: Scales, place: int, value: float) -> Scales:
    return scales._replace(level=value) if place == 0 else scales._replace(slope=value)
