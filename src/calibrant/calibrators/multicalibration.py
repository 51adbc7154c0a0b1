"""Multicalibration: change the segments that are provably off, and no others.

Nothing here is an estimator, so that the mathematics needs no scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import special

from calibrant.calibrators.segmenting import Lines, SegmentCells, Stages
from calibrant.calibrators.shrinking import WIDE, Segmented, most_probable
from calibrant.metrics.chance import Chance
from calibrant.metrics.multiplicity import holm
from calibrant.numerics import Floats, Ints, expit

SUSPICIOUS, MARGIN = 0.3, 100.0
"""Segments are tested exactly whose p-value by the normal law is below this, and below so many times what Holm's method
could reject."""

MOST_ROUNDS = 50
"""Rounds of tests and changes; one column needs one or two."""

STEPS, FARTHEST, MOST_CELLS = 60, 50.0, 128


@dataclass(frozen=True)
class Change:
    """What was done to one segment, and why."""

    column: str
    value: str
    rows: float
    events: float
    predicted: float
    """Events that the probabilities before this change promised."""
    p_value: float
    """Adjusted for the number of segments by Holm's method."""
    aspect: str
    """``"level"`` or ``"slope"``: what gave it away."""
    level: float
    slope: float

    def __str__(self) -> str:
        """One line."""
        p = "< 0.0001" if self.p_value < 1e-4 else f"= {self.p_value:.2g}"
        if self.aspect == "level":
            why = f"too {'low' if self.events > self.predicted else 'high'}"
        else:
            why = f"too {'flat' if self.slope > 1.0 else 'steep'}"
        return (
            f"{self.column} = {self.value}: {why} (predicted {self.predicted:,.0f}, happened {self.events:,.0f} of "
            f"{self.rows:,.0f}, adjusted p {p}); level {self.level:+.2f}, slope {self.slope:.2f}"
        )


@dataclass(frozen=True)
class Repairs:
    """Changes, stage by stage: a column and what its segments go through; and whether any were left to make."""

    stages: Stages
    changes: tuple[Change, ...]
    settled: bool


def repair(cells: SegmentCells, x: Floats, alpha: float) -> Repairs:
    r"""Test every segment of every column, mend those that are off, and repeat until none is.

    In each round Holm's method at level ``alpha`` is applied to the p-values of all m segments. Of those rejected, the
    segments of the column that holds the smallest p-value, which share no rows, get a level and a slope
    (:func:`most_probable`, with deviations 0.7 and 0.35); the others are looked at again in the next round.

    Notes
    -----
    Guarantee: if no segment is off, the chance that anything is changed is at most ``alpha``, up to the approximation
    of the slope's tail and to the fit of x to the same rows, which makes tests cautious. With one column the same holds
    for each segment that is not off, whatever the others are: segments share no rows, and p-values that Holm's method
    passed in one round pass again. With overlapping columns a change moves the probabilities of others too, and
    "off" then means off after the changes before it.
    Cost: one pass over the cells per round, and an exact law for each suspicious segment.
    Reference: Hebert-Johnson et al. (2018) for the aim and the loop; Holm (1979) for the level.
    """
    stages: list[tuple[str, Lines]] = []
    changes: list[Change] = []
    names = tuple(cells.columns)
    near = min(SUSPICIOUS, MARGIN * alpha / sum(map(len, cells.columns.values())))
    for left in range(MOST_ROUNDS, -1, -1):
        tests = [examine(cells, x, name, near) for name in names]
        adjusted = _adjusted(tests)
        worst = min(range(len(names)), key=lambda place: np.nanmin(adjusted[place], initial=np.inf))
        off = np.flatnonzero(adjusted[worst] <= alpha)
        if not len(off) or not left:
            break
        lines, made = _mend(cells, x, names[worst], off, tests[worst], adjusted[worst])
        changes += made
        _append(stages, names[worst], lines)
        x = cells.moved(x, names[worst], lines)
    return Repairs(tuple(stages), tuple(changes), not len(off))


def _append(stages: list[tuple[str, Lines]], name: str, lines: Lines) -> None:
    """Consecutive changes of one column are one stage."""
    if not stages or stages[-1][0] != name:
        stages.append((name, lines))
        return
    known = stages[-1][1]
    for code, (slope, intercept) in lines.items():
        before = known.get(code, (1.0, 0.0))
        known[code] = (slope * before[0], slope * before[1] + intercept)


def _mend(
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
            float(adjusted[code]),
            "level" if tests.level[code] <= tests.slope[code] else "slope",
            float(modes.level[j]),
            float(modes.slopes[j]),
        )
        for j, code in enumerate(off.tolist())
    ]
    return lines, sorted(made, key=lambda change: change.p_value)


# ------------------------------------------------------------------------------------------------------------ the tests


@dataclass(frozen=True, eq=False)
class Examined:
    """Every segment of a column against its probabilities: p-values of the level and of the slope, NaN without rows."""

    rows: Floats
    events: Floats
    predicted: Floats
    level: Floats
    slope: Floats

    @property
    def p_values(self) -> Floats:
        """Of both together: twice the smaller."""
        return np.minimum(1.0, 2.0 * np.fmin(self.level, self.slope))


def _adjusted(tests: Sequence[Examined]) -> list[Floats]:
    together = holm(np.concatenate([each.p_values for each in tests]))
    return np.split(together, np.cumsum([len(each.p_values) for each in tests])[:-1])


def examine(cells: SegmentCells, x: Floats, name: str, near: float = SUSPICIOUS) -> Examined:
    r"""Whether the level and the slope of each segment of a column are those of its probabilities.

    Level: the number of events against its exact Poisson-binomial law (:class:`~calibrant.metrics.chance.Chance`).
    Slope: :math:`\sum_i (y_i - p_i)(x_i - c)` against its law by the saddle point (Lugannani and Rice 1980), where x
    are log-odds, p their probabilities, and c the mean of x weighted by p (1 - p), so that both tests look at nearly
    unrelated things. Both are two-sided.

    Notes
    -----
    Edges: with importance weights both laws are normal, with the variance of the squared weights.
    Guarantee: for rows that count alike the level's p-value is exact, or a little too large above 128 cells; the
    slope's is good to a few per cent of itself.
    Cost: one pass, and an exact law for each segment that the normal law gives a p-value below ``near``.
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
    rows, happened, steepness = by_segment(n), by_segment(events), by_segment((events - n * p) * turned)
    level = _normal(by_segment(events - n * p), by_segment(noise))
    slope = _normal(steepness, by_segment(noise * turned**2))
    ends = np.searchsorted(code, np.arange(size + 1))
    parts = [slice(*pair) for pair in pairwise(ends.tolist())]
    for each in np.flatnonzero((level < near) & (rows > 0)):
        part = parts[each]
        level[each] = _level_p(p[part], n[part], happened[each], None if w2 is None else w2[part])
    for each in np.flatnonzero((slope < near) & (rows > 0)) if w2 is None else ():
        part = parts[each]
        slope[each] = saddlepoint_p(x[part], turned[part], n[part], float(steepness[each]))
    level[rows == 0], slope[rows == 0] = np.nan, np.nan
    return Examined(rows, happened, by_segment(n * p), level, slope)


def _normal(total: Floats, variance: Floats) -> Floats:
    z = np.abs(total) / np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return np.where(variance > 1e-12, 2.0 * special.ndtr(-z), np.where(np.abs(total) > 1e-9, 0.0, 1.0))


def _level_p(p: Floats, n: Floats, events: float, w2: Floats | None) -> float:
    if len(p) > MOST_CELLS:  # joined at their means, which adds a little variance: cautious, and cheap
        order = np.argsort(p, kind="stable")
        starts = np.linspace(0, len(p), MOST_CELLS + 1).astype(np.int64)[:-1]
        total = np.add.reduceat(n[order], starts)
        p, n = np.add.reduceat((n * p)[order], starts) / total, total
        w2 = None if w2 is None else np.add.reduceat(w2[order], starts)
    return Chance(p, n, w2=w2).p_value(events)


def saddlepoint_p(x: Floats, weight: Floats, n: Floats, total: float) -> float:
    r"""Two-sided p-value of :math:`T = \sum_i w_i (y_i - p_i)`, for independent labels with log-odds x.

    .. math:: K(s) = \sum_i \log(1 - p_i + p_i e^{s w_i}) - s p_i w_i, \quad K'(\hat s) = T, \quad
              r = \operatorname{sign}(\hat s) \sqrt{2 (\hat s T - K(\hat s))}, \quad u = \hat s \sqrt{K''(\hat s)},

    and the tail is :math:`\Phi(-r - \log(u / r) / r)` for positive r (Barndorff-Nielsen's form of Lugannani and Rice).
    It is held below Chernoff's bound :math:`e^{K(s) - sT}`, which holds for any s, and stands in where T is as large as
    it can be and there is no solution.

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
    p = expit(x)
    side, goal = np.sign(total), abs(total)
    weight, s = weight * side, 0.0
    for _ in range(STEPS):
        tilted = expit(x + s * weight)
        gap = float((n * weight * (tilted - p)).sum()) - goal
        bend = float((n * weight**2 * tilted * (1.0 - tilted)).sum())
        if abs(gap) <= 1e-9 * max(goal, 1e-300) or not bend > 0.0:
            break
        s = float(np.clip(s - np.clip(gap / bend, -1.0, 1.0), 0.0, FARTHEST))
    power = float((n * (np.logaddexp(0.0, x + s * weight) - np.logaddexp(0.0, x) - s * p * weight)).sum())
    r = float(np.sqrt(max(2.0 * (s * goal - power), 0.0)))
    u = s * float(np.sqrt(bend))
    if r < 1e-4:
        return 1.0
    bound = 2.0 * float(np.exp(-0.5 * r * r))
    if not (bend > 0.0 and s < FARTHEST):
        return min(1.0, bound)
    return min(1.0, bound, 2.0 * float(special.ndtr(-r - np.log(u / r) / r)))
