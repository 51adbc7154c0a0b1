"""Multicalibration: correct the segments that differ significantly from the global map, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy import special

from calibrant.fits.segments.counts import ALL_ROWS, Lines, SegmentCells, Stages
from calibrant.fits.segments.shrinkage import WIDE, Segmented, most_probable
from calibrant.messages import Shown
from calibrant.metrics.chance import Chance
from calibrant.metrics.multiplicity import holm
from calibrant.numerics import Floats, Ints, expit

MAX_SCREENING_P, SCREENING_FACTOR = 0.3, 100.0
"""A segment is tested exactly if its p-value by the normal distribution is below the first number, and below the second
number times the threshold of Holm's method."""

MAX_ROUNDS = 50
"""Rounds of tests and changes; one column needs one or two."""

TOTAL_TOLERANCE = 0.01
"""Standard errors by which the events of all rows together may differ from their prediction after a change."""

NEWTON_STEPS, MAX_TILT, MAX_EXACT_CELLS = 60, 50.0, 128
"""Limits on Newton steps, on the tilt of the saddle point, and on the cells of an exact distribution."""


@dataclass(frozen=True)
class Change(Shown):
    """The change of one segment, and the test that led to it."""

    column: str
    value: str
    rows: float
    events: float
    predicted: float
    """Events predicted before this change."""
    events_above: float
    predicted_above: float
    """Observed and predicted events of the rows above the segment's center, the pivot of its slope."""
    p_value: float
    """p-value of the probabilities before this change, adjusted for the number of segments by Holm's method."""
    aspect: Literal["intercept", "slope"]
    """The test with the smaller p-value."""
    level: float
    slope: float

    def __str__(self) -> str:
        """One line."""
        p = "< 0.0001" if self.p_value < 1e-4 else f"= {self.p_value:.2g}"
        return (
            f"{self.column} = {self.value}: {self._why()}, of {self.rows:,.0f}, adjusted p {p}); "
            f"shift {self.level:+.2f}, slope {self.slope:.2f}"
        )

    def _why(self) -> str:
        """The reason of the change, with its counts."""
        if self.aspect == "intercept":
            return f"intercept (predicted {self.predicted:,.0f}, observed {self.events:,.0f}"
        below = self.predicted - self.predicted_above, self.events - self.events_above
        above = f"above it {self.predicted_above:,.0f} and {self.events_above:,.0f}"
        return f"slope (below its center predicted {below[0]:,.0f}, observed {below[1]:,.0f}; {above}"


@dataclass(frozen=True)
class Repairs:
    """Changes, stage by stage: a column and the lines of its segments; and whether no segment is rejected any more."""

    stages: Stages
    changes: tuple[Change, ...]
    settled: bool

    @property
    def common(self) -> float:
        """Intercept added to the log-odds of every row, so that the total of predicted events is right."""
        return sum(lines[0][1] for column, lines in self.stages if column == ALL_ROWS)


def repair(cells: SegmentCells, x: Floats, alpha: float) -> Repairs:
    r"""Test every segment of every column, correct those that are rejected, and repeat until none is.

    In each round Holm's method at significance level ``alpha`` is applied to the p-values of all m segments. Of those
    rejected, the segments of the column with the smallest p-value, which have no rows in common, get an intercept and a
    slope (:func:`most_probable`, with prior standard deviations 0.7 and 0.35); the others are tested again in the next
    round. When none is rejected any more and something was changed, every row gets a common intercept, so that
    predicted and observed events agree in total, and all segments are tested again.

    Notes
    -----
    Edge cases: without segments there are no tests.
    Guarantee: if x is right for every segment, the probability that anything is changed is at most ``alpha``, up to the
    approximation of the slope's tail, and if x was not fitted to these rows; a fit of few parameters makes the tests
    conservative. For the segments of one column for which x is right, the same holds in the first round, whatever the
    other segments are. A change in one column moves the probabilities of others, and the common intercept those of all
    rows: in later rounds the tests refer to the probabilities after earlier changes. With importance weights all this
    holds if they do not depend on the labels given the scores; where rare labels were oversampled, and weights correct
    for that, there is no guarantee.
    Cost: one pass over the cells per round, and an exact distribution for each segment with a small p-value.
    Reference: Hebert-Johnson et al. (2018) for the aim and the loop; Holm (1979) for the significance level.
    """
    stages: list[tuple[str, Lines]] = []
    changes: list[Change] = []
    names = tuple(cells.columns)
    near = min(MAX_SCREENING_P, SCREENING_FACTOR * alpha / max(sum(map(len, cells.columns.values())), 1))
    for left in range(MAX_ROUNDS, -1, -1):
        tests = [examine(cells, x, name, near) for name in names]
        adjusted = _adjusted(tests)
        worst = min(range(len(names)), key=lambda place: np.nanmin(adjusted[place], initial=np.inf))
        looked_at = tests[worst].p_values < 2.0 * near  # by an exact test
        off = np.flatnonzero((adjusted[worst] <= alpha) & looked_at)
        level = _common_intercept(cells, x) if stages and not len(off) else 0.0
        if not left or (not len(off) and level == 0.0):
            break
        name, lines = ALL_ROWS, {0: (1.0, level)}
        if len(off):
            name = names[worst]
            lines, made = _correct(cells, x, name, off, tests[worst], adjusted[worst])
            changes += made
        _append(stages, name, lines)
        x = cells.moved(x, name, lines)
    return Repairs(tuple(stages), tuple(changes), not len(off))


def _common_intercept(cells: SegmentCells, x: Floats) -> float:
    """Intercept with which predicted and observed events agree in total; 0 if they do, or if there is one class."""
    if not 0 < cells.events.sum() < cells.n.sum():
        return 0.0
    level = 0.0
    for _ in range(NEWTON_STEPS):
        p = expit(x + level)
        gap, bend = float((cells.events - cells.n * p).sum()), float((cells.n * p * (1.0 - p)).sum())
        if abs(gap) <= TOTAL_TOLERANCE * bend**0.5:
            break
        level += float(np.clip(gap / bend, -1.0, 1.0))
    return level


def _append(stages: list[tuple[str, Lines]], name: str, lines: Lines) -> None:
    """Append a stage; consecutive changes of one column are merged."""
    if not stages or stages[-1][0] != name:
        stages.append((name, lines))
        return
    known = stages[-1][1]
    for code, (slope, intercept) in lines.items():
        before = known.get(code, (1.0, 0.0))
        known[code] = (slope * before[0], slope * before[1] + intercept)


def _correct(
    cells: SegmentCells, x: Floats, name: str, off: Ints, tests: Examined, adjusted: Floats
) -> tuple[Lines, list[Change]]:
    codes = cells.codes[name]
    place = np.full(len(cells.columns[name]) + 1, -1)
    place[off] = np.arange(len(off))
    data = Segmented.of(place[codes], x, cells.n, cells.events, len(off))
    modes = most_probable(data, WIDE)
    lines = dict(
        zip(off.tolist(), zip(modes.slopes.tolist(), modes.intercepts(data).tolist(), strict=True), strict=True)
    )
    made = [
        Change(
            name,
            cells.columns[name][code],
            float(tests.rows[code]),
            float(tests.events[code]),
            float(tests.predicted[code]),
            float(tests.events_above[code]),
            float(tests.predicted_above[code]),
            float(adjusted[code]),
            "intercept" if tests.level[code] <= tests.slope[code] else "slope",
            float(modes.level[j]),
            float(modes.slopes[j]),
        )
        for j, code in enumerate(off.tolist())
    ]
    return lines, sorted(made, key=lambda change: change.p_value)


# ------------------------------------------------------------------------------------------------------------ the tests


@dataclass(frozen=True, eq=False)
class Examined:
    """Tests of every segment of a column: p-values of intercept and slope, NaN without rows."""

    rows: Floats
    events: Floats
    predicted: Floats
    events_above: Floats
    predicted_above: Floats
    level: Floats
    slope: Floats

    @property
    def p_values(self) -> Floats:
        """Combined p-values: twice the smaller (Bonferroni)."""
        return np.minimum(1.0, 2.0 * np.fmin(self.level, self.slope))


def _adjusted(tests: Sequence[Examined]) -> list[Floats]:
    together = holm(np.concatenate([each.p_values for each in tests]))
    return np.split(together, np.cumsum([len(each.p_values) for each in tests])[:-1])


def examine(cells: SegmentCells, x: Floats, name: str, near: float = MAX_SCREENING_P) -> Examined:
    r"""Test the intercept and the slope of each segment of a column.

    Intercept: the number of events and its exact Poisson-binomial distribution
    (:class:`~calibrant.metrics.chance.Chance`). Slope: :math:`\sum_i (y_i - p_i)(x_i - c)` and its saddle-point
    approximation (Lugannani and Rice 1980), where x are log-odds, p their probabilities, and c the mean of x weighted
    by p (1 - p), so that the two statistics are nearly uncorrelated. Both tests are two-sided.

    Notes
    -----
    Edge cases: with unequal importance weights both p-values are Chernoff bounds (:func:`bounded_p`), every row with
    its own weight.
    Guarantee: for equally weighted rows the p-value of the intercept is exact, or slightly too large above 128 cells;
    that of the slope has a relative error of a few per cent if log-odds take many values. With importance weights both
    are too large, by a factor of about ten at 1e-4, but never too small, if weights do not depend on labels given the
    score (:func:`bounded_p` describes rows that share a cell).
    Cost: one pass, and an exact distribution or a bound for each segment whose p-value by the normal distribution is
    below ``near``.
    """
    code, size = cells.codes[name], len(cells.columns[name])
    kept = np.flatnonzero(code >= 0)
    kept = kept[np.argsort(code[kept], kind="stable")]
    code, x, n, events = code[kept], x[kept], cells.n[kept].astype(np.float64), cells.events[kept].astype(np.float64)
    w2 = None if cells.w2 is None else cells.w2[kept]

    def by_segment(values: Floats) -> Floats:
        return np.asarray(np.bincount(code, values, size), dtype=np.float64)

    p = expit(x)
    weight = n * p * (1.0 - p)
    information = by_segment(weight)
    turned = x - (by_segment(weight * x) / np.where(information > 0.0, information, 1.0))[code]
    noise = weight if w2 is None else w2 * p * (1.0 - p)
    rows, observed = by_segment(n), by_segment(events)
    excess, steepness = by_segment(events - n * p), by_segment((events - n * p) * turned)
    level = _normal(excess, by_segment(noise))
    slope = _normal(steepness, by_segment(noise * turned**2))
    ends = np.searchsorted(code, np.arange(size + 1))
    parts = [slice(*pair) for pair in pairwise(ends.tolist())]
    for each in np.flatnonzero((level < near) & (rows > 0)):
        part = parts[each]
        if w2 is None:
            level[each] = _level_p(p[part], n[part], observed[each])
        else:
            unit = w2[part] / n[part]
            level[each] = bounded_p(x[part], unit, n[part] / unit, float(excess[each]))
    for each in np.flatnonzero((slope < near) & (rows > 0)):
        part = parts[each]
        if w2 is None:
            slope[each] = saddlepoint_p(x[part], turned[part], n[part], float(steepness[each]))
        else:
            unit = w2[part] / n[part]
            slope[each] = bounded_p(x[part], unit * turned[part], n[part] / unit, float(steepness[each]))
    level[rows == 0], slope[rows == 0] = np.nan, np.nan
    events_above, predicted_above = (by_segment(np.where(turned > 0.0, part, 0.0)) for part in (events, n * p))
    return Examined(rows, observed, by_segment(n * p), events_above, predicted_above, level, slope)


def _normal(total: Floats, variance: Floats) -> Floats:
    z = np.abs(total) / np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return np.where(variance > 1e-12, 2.0 * special.ndtr(-z), np.where(np.abs(total) > 1e-9, 0.0, 1.0))


def _level_p(p: Floats, n: Floats, events: float) -> float:
    if len(p) > MAX_EXACT_CELLS:  # merged at their means, which adds a little variance: conservative, and cheap
        order = np.argsort(p, kind="stable")
        starts = np.linspace(0, len(p), MAX_EXACT_CELLS + 1).astype(np.int64)[:-1]
        total = np.add.reduceat(n[order], starts)
        p, n = np.add.reduceat((n * p)[order], starts) / total, total
    return Chance(p, n).p_value(events)


def saddlepoint_p(x: Floats, weight: Floats, n: Floats, total: float) -> float:
    r"""Two-sided p-value of :math:`T = \sum_i w_i (y_i - p_i)`, for independent labels with log-odds x.

    .. math:: K(s) = \sum_i \log(1 - p_i + p_i e^{s w_i}) - s p_i w_i, \quad K'(\hat s) = T, \quad
              r = \operatorname{sign}(\hat s) \sqrt{2 (\hat s T - K(\hat s))}, \quad u = \hat s \sqrt{K''(\hat s)},

    and the tail is :math:`\Phi(-r - \log(u / r) / r)` for positive r (Barndorff-Nielsen's form of Lugannani and Rice).
    It is limited by Chernoff's bound :math:`e^{K(s) - sT}`, which holds for any s and is used alone if T has its
    largest possible value and there is no solution.

    Notes
    -----
    Guarantee: no finite-sample guarantee; the relative error is a few per cent far into the tail.
    Cost: one pass per Newton step.
    Reference: Lugannani and Rice (1980); Barndorff-Nielsen (1986).

    Examples
    --------
    >>> weight = np.linspace(-2.0, 2.0, 50)
    >>> round(saddlepoint_p(np.zeros(50), weight, np.ones(50), 0.98 * float(np.sqrt((weight**2).sum()))), 3)
    0.049
    """
    r, u = _tilted(x, weight, n, total)
    if r < 1e-4:
        return 1.0
    bound = 2.0 * float(np.exp(-0.5 * r * r))
    if np.isnan(u):
        return min(1.0, bound)
    return min(1.0, bound, 2.0 * float(special.ndtr(-r - np.log(u / r) / r)))


def bounded_p(x: Floats, weight: Floats, n: Floats, total: float) -> float:
    r"""Conservative two-sided p-value of the same T: the minimum of :math:`2 e^{K(s) - sT}` over s.

    The distribution of sums of unequally weighted labels can have jumps, as for counts, at unknown places; between two
    jumps :func:`saddlepoint_p` is too small.

    Notes
    -----
    Guarantee: at least the probability of a T as extreme or more, for fixed weights and independent labels. ``n`` rows
    of one ``weight`` stand for a cell; if the rows of a cell differ in weight, by a factor of at most 1.42, their third
    moment is too small by up to 3 per cent, far less than the slack of the bound.
    Cost: one pass per Newton step.
    Reference: Chernoff (1952).

    Examples
    --------
    >>> round(bounded_p(np.zeros(10), np.r_[-np.ones(5), np.ones(5)], np.ones(10), 5.0) * 2**10, 3)
    2.0
    """
    r, _ = _tilted(x, weight, n, total)
    return min(1.0, 2.0 * float(np.exp(-0.5 * r * r)))


def _tilted(x: Floats, weight: Floats, n: Floats, total: float) -> tuple[float, float]:
    """The r and u of :func:`saddlepoint_p`; u is NaN if T has its largest possible value."""
    unit = float(np.abs(weight).max()) * np.sign(total)
    if unit == 0.0:
        return 0.0, 0.0
    p, weight, goal, s = expit(x), weight / unit, total / unit, 0.0
    for _ in range(NEWTON_STEPS):
        tilted = expit(x + s * weight)
        gap = float((n * weight * (tilted - p)).sum()) - goal
        bend = float((n * weight**2 * tilted * (1.0 - tilted)).sum())
        if abs(gap) <= 1e-9 * goal or not bend > 0.0:
            break
        s = float(np.clip(s - np.clip(gap / bend, -1.0, 1.0), 0.0, MAX_TILT))
    power = float((n * (np.logaddexp(0.0, x + s * weight) - np.logaddexp(0.0, x) - s * p * weight)).sum())
    r = float(np.sqrt(max(2.0 * (s * goal - power), 0.0)))
    return r, s * float(np.sqrt(bend)) if bend > 0.0 and s < MAX_TILT else float("nan")
