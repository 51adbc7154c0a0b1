"""Which models and prompts are overconfident: confidence minus accuracy of each, shrunken so that chance is removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.abstention.chain import graded_rows
from calibrant.arrays.columns import check_length
from calibrant.arrays.keys import read_keys
from calibrant.messages import InputError, Note, Shown, note, plural
from calibrant.numerics import Floats
from calibrant.reading import located

ADDED = 4.0
"""Rows, half of them right, that are added to a cell for the variance of its gap (as in Agresti and Coull 1998)."""

NODES = 600
"""Nodes of the integral over the spread of the true gaps, from 0 to 1 and denser near 0."""

FEWEST_CELLS, FEWEST_ROWS = 3, 20
"""With fewer cells their spread is not estimated, and with fewer rows the interval of a cell is rough."""

STEPS = 40
"""Bisection steps to the ends of an interval."""


@dataclass(frozen=True)
class Gap:
    """Confidence minus accuracy of one cell, such as a model with a prompt.

    Attributes
    ----------
    name, values
        The cell as text, and its value in each column.
    rows, confidence, accuracy
        Rows, mean confidence, and share of right answers.
    gap, se
        Confidence minus accuracy as observed, and its standard error.
    shrunken
        The gap without chance: shrunk toward the mean of all cells, the more so the fewer rows it has.
    low, high
        Interval of the true gap.
    """

    name: str
    values: tuple[str, ...]
    rows: int
    confidence: float
    accuracy: float
    gap: float
    se: float
    shrunken: float
    low: float
    high: float

    @property
    def finding(self) -> str:
        """``"overconfident"``, ``"underconfident"``, or ``""`` where the interval holds 0."""
        return "overconfident" if self.low > 0.0 else "underconfident" if self.high < 0.0 else ""


@dataclass(frozen=True)
class Overconfidence(Shown):
    """The result of :func:`overconfidence`: the gap of each cell, the largest shrunken one first.

    Attributes
    ----------
    cells
        One :class:`Gap` for each combination of ``by`` that has rows.
    by
        Names of the columns.
    mean, mean_low, mean_high
        Mean of the true gaps, each cell counted once, and its interval.
    spread
        Standard deviation of the true gaps: how much cells differ beyond chance; None with fewer than three cells.
    chance
        Share of the variance of the observed gaps that is chance; None with fewer than three cells.
    alpha
        One minus the level of the intervals.
    notes
        Further remarks.
    """

    cells: tuple[Gap, ...]
    by: tuple[str, ...]
    mean: float
    mean_low: float
    mean_high: float
    spread: float | None
    chance: float | None
    alpha: float
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        cells = [asdict(each) | {"values": list(each.values), "finding": each.finding} for each in self.cells]
        rest = asdict(self) | {"cells": cells, "by": list(self.by)}
        return rest | {"notes": [each.as_dict() for each in self.notes]}

    def __str__(self) -> str:
        """A line for each cell."""
        sure = f"{100 * (1 - self.alpha):.4g} %"
        lines = [
            f"Confidence minus accuracy: {self.mean:+.3f} on average ({sure} interval {self.mean_low:+.3f} to "
            f"{self.mean_high:+.3f}), {plural(len(self.cells), 'cell')}."
        ]
        if self.spread is not None and self.chance is not None:
            lines[0] += (
                f" True gaps differ by about {self.spread:.3f} (standard deviation); {100 * self.chance:.0f} % of the "
                "variance of the observed gaps is chance."
            )
        width = max(len(", ".join(self.by)), *(len(each.name) for each in self.cells)) + 2
        head = f"{'rows':>7}{'confidence':>12}{'accuracy':>10}{'gap':>8}{'shrunken':>10}   {sure} interval"
        lines.append(f"  {', '.join(self.by):<{width}}{head}")
        for each in self.cells:
            numbers = f"{each.rows:>7,}{each.confidence:>12.3f}{each.accuracy:>10.3f}{each.gap:>+8.3f}"
            ends = f"{each.shrunken:>+10.3f}   {each.low:+.3f} to {each.high:+.3f}  {each.finding}"
            lines.append(f"  {each.name:<{width}}{numbers}{ends}".rstrip())
        return "\n".join([*lines, *(f"  {each}" for each in self.notes)])


_one_group = note(
    "cells-of-one-group", "{cells} with one group: the standard error is taken from the groups of other cells."
)
_few_rows = note("cells-of-few-rows", "{cells} with fewer than {rows} rows: the interval is rough.")


def overconfidence(
    scores: Any,
    correct: ArrayLike | None = None,
    by: Any = None,
    *,
    groups: ArrayLike | str | None = None,
    score: str | None = None,
    label: str | None = None,
    alpha: float = 0.05,
) -> Overconfidence:
    r"""Find which models and prompts are overconfident, with chance removed.

    The observed gap :math:`g_j` of a cell, mean confidence minus share of right answers, is its true gap
    :math:`\theta_j` plus chance. With few rows the largest observed gaps are largely chance. The true gaps are taken to
    spread around a common mean,

    .. math:: g_j \sim N(\theta_j, s_j^2), \qquad \theta_j \sim N(\mu, \tau^2),

    and each is estimated by the mean of its posterior distribution, with flat priors of :math:`\mu`, and of
    :math:`\tau` between 0 and 1. Given :math:`\tau` this is :math:`\mu + w_j (g_j - \mu)` with
    :math:`w_j = \tau^2 / (\tau^2 + s_j^2)`.

    Parameters
    ----------
    scores
        Stated confidence of each answer, a probability.
    correct
        Whether each answer was right.
    by
        Cell of each row, such as the model; or several such columns by name, ``{"model": ..., "prompt": ...}`` or a
        frame of them, whose combinations are the cells.
    groups
        Group of each row, such as the question that was sampled several times. Standard errors then allow for answers
        of one group being alike.
    score, label
        Names of the columns of confidences and of right answers, if ``scores`` is a frame; ``by`` and ``groups`` are
        then names too.
    alpha
        One minus the level of the intervals.

    Returns
    -------
    Overconfidence
        Prints itself as a table; has ``cells``, ``mean``, ``spread``, ``chance`` and ``to_dict``.

    Notes
    -----
    Edge cases: one cell is not shrunken, and two hardly. For its standard error each cell gets four more rows, two of
    them right, so that a cell whose answers are all right has one too.
    Guarantee: no finite-sample guarantee. The intervals are meant to hold for 95 % of the cells, on average over the
    cells, not for each cell in repeated samples. In simulations of 4 to 40 cells with 20 to 300 rows, 93 to 100 % of
    the intervals held the true gap if true gaps were normal, heavy-tailed, all equal, or of two kinds. A single cell
    that differs from all others is shrunk toward them, and its own interval holds much less often: in 78 % of samples
    with 8 cells of 100 rows, and in 12 % with 40 cells of 20 rows (``python benchmarks/abstention.py --gaps``). To test
    single cells use ``check(..., by=)``. Questions that models share make gaps dependent, which is not accounted for.
    Cost: one pass, then 600 nodes for each cell.
    References: Efron and Morris (1975), Data analysis using Stein's estimator; Morris (1983), Parametric empirical
    Bayes inference; Gelman (2006) for the flat prior of the standard deviation; Agresti and Coull (1998).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> model = rng.choice(["a", "b", "c"], 900)
    >>> stated = rng.choice([0.7, 0.8, 0.9], 900)
    >>> right = rng.random(900) < stated - np.where(model == "b", 0.25, 0.05)
    >>> found = overconfidence(stated, right, {"model": model})
    >>> [(each.name, round(each.shrunken, 2), each.finding) for each in found.cells]
    [('b', 0.26, 'overconfident'), ('c', 0.1, 'overconfident'), ('a', 0.01, '')]
    """
    if not (isinstance(alpha, int | float | np.number) and 0.0 < alpha < 1.0):
        raise InputError("alpha", f"must be strictly between 0 and 1, got {alpha!r}", "0.05 gives 95 % intervals")
    if by is None:
        raise InputError("by", "is missing", "pass the model of each row")
    given = located(scores, correct, groups=groups, by=by, score=score, label=label, call="overconfidence")
    rows = graded_rows(given.scores, given.y, "correct", given.groups, "probability")
    names, values, cell = _cells(given.by, len(rows.scores))
    excess = np.asarray(rows.scores - rows.labels, dtype=np.float64)
    n = np.bincount(cell, minlength=len(values)).astype(np.float64)
    gap = np.bincount(cell, excess, len(values)) / n
    confidence = np.bincount(cell, rows.scores, len(values)) / n
    unit = None if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
    se, alone = _errors(excess, cell, n, gap, unit, confidence - gap)
    found = _Posterior.of(gap, se)
    low, high = found.ends(alpha)
    cells = [
        Gap(", ".join(value), value, int(n[j]), float(confidence[j]), float(confidence[j] - gap[j]), float(gap[j]),
            float(se[j]), float(found.means[j]), float(low[j]), float(high[j]))
        for j, value in enumerate(values)
    ]  # fmt: skip
    mean, away = float(gap.mean()), float(special.ndtri(1.0 - alpha / 2.0) * np.sqrt((se**2).sum()) / len(se))
    spread = found.spread if len(cells) >= FEWEST_CELLS else None
    chance = None if spread is None else float((se**2).mean() / ((se**2).mean() + spread**2))
    notes = [_one_group(cells=plural(alone, "cell"))] if alone else []
    small = int((n < FEWEST_ROWS).sum())
    notes += [_few_rows(cells=plural(small, "cell"), rows=FEWEST_ROWS)] if small else []
    return Overconfidence(
        tuple(sorted(cells, key=lambda each: -each.shrunken)), names, mean, max(mean - away, -1.0),
        min(mean + away, 1.0), spread, chance,
        float(alpha), (*rows.other_notes, *notes),
    )  # fmt: skip


def _cells(by: Any, n: int) -> tuple[tuple[str, ...], list[tuple[str, ...]], NDArray[np.intp]]:
    """Names of the columns, values of each cell, and the cell of each row."""
    if hasattr(by, "columns"):  # a frame
        by = {name: by[name] for name in by.columns}
    columns = dict(by) if isinstance(by, Mapping) else {"cell": by}
    if not columns:
        raise InputError("by", "has no columns", "pass the model of each row")
    read = []
    for name, column in columns.items():
        keys = read_keys(column, "by")
        check_length(keys.codes, "by", n)
        if (keys.codes < 0).any():
            problem = f"{name!r} is missing in {plural(int((keys.codes < 0).sum()), 'row')}"
            raise InputError("by", problem, "leave these rows out, or give them a name")
        read.append(keys)
    codes, cell = np.unique(np.stack([each.codes for each in read], axis=1), axis=0, return_inverse=True)
    values = [tuple(keys.names[code] for keys, code in zip(read, line, strict=True)) for line in codes]
    return tuple(map(str, columns)), values, cell.reshape(-1)


def _errors(
    excess: Floats, cell: NDArray[np.intp], n: Floats, gap: Floats, unit: NDArray[np.intp] | None, accuracy: Floats
) -> tuple[Floats, int]:
    """Standard error of each gap, and the number of cells of one group."""
    size, residual = len(n), excess - gap[cell]
    if unit is None:
        at, sums, rows = cell, residual, np.ones(len(cell))
    else:
        pairs, place = np.unique(np.stack([cell, unit], axis=1), axis=0, return_inverse=True)
        at, place = pairs[:, 0], place.reshape(-1)
        sums, rows = np.bincount(place, residual).astype(np.float64), np.bincount(place).astype(np.float64)
    units = np.bincount(at, minlength=size).astype(np.float64)
    free = units - 1.0
    squares = np.bincount(at, sums**2, size) * np.where(units > 1.0, units / np.maximum(free, 1.0), 0.0)
    added = ADDED * 0.5 * (accuracy**2 + (1.0 - accuracy) ** 2) * n / units  # rows of one group as if all were alike
    variance = (free * squares / n + added) / (free + ADDED)  # of a row, as if rows were independent
    alone = (units < 2.0) & (unit is not None)
    found = variance / n
    if alone.any():
        means = np.bincount(at[free[at] > 0], ((sums / rows) ** 2)[free[at] > 0], size)
        if not free.sum() > 0.0:
            fix = "pass rows of several groups; leave groups out only if rows are independent"
            raise InputError("groups", "has one group in each cell, so the spread between groups is not known", fix)
        found = np.where(alone, np.maximum(means.sum() / free.sum(), found), found)
    return np.sqrt(found), int(alone.sum())


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Posterior of the true gaps: for each spread (a column), its weight, and normal distributions of the gaps."""

    weight: Floats
    spreads: Floats
    at: Floats
    errors: Floats

    @classmethod
    def of(cls, gap: Floats, se: Floats) -> _Posterior:
        spreads = np.linspace(0.0, 1.0, NODES) ** 2
        steps = np.gradient(spreads)
        total = se[:, None] ** 2 + spreads**2
        precision = (1.0 / total).sum(axis=0)
        mean = (gap[:, None] / total).sum(axis=0) / precision
        logs = -0.5 * (np.log(total).sum(axis=0) + ((gap[:, None] - mean) ** 2 / total).sum(axis=0) + np.log(precision))
        weight = np.exp(logs - logs.max()) * steps
        kept = spreads**2 / total
        errors = np.sqrt(kept * se[:, None] ** 2 + (1.0 - kept) ** 2 / precision)
        at = mean + kept * (gap[:, None] - mean)
        return cls(weight / weight.sum(), spreads, at, errors)

    @property
    def means(self) -> Floats:
        return np.asarray(self.at @ self.weight)

    @property
    def spread(self) -> float:
        """Median of the spread."""
        return float(self.spreads[np.searchsorted(np.cumsum(self.weight), 0.5)])

    def ends(self, alpha: float) -> tuple[Floats, Floats]:
        """Ends of the interval of each gap."""
        return self._quantile(alpha / 2.0), self._quantile(1.0 - alpha / 2.0)

    def _quantile(self, level: float) -> Floats:
        """Quantile of each mixture of normal distributions, within the possible gaps, by bisection."""
        low, high = np.full(len(self.at), -1.0), np.full(len(self.at), 1.0)
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            below = special.ndtr((middle[:, None] - self.at) / self.errors) @ self.weight < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))
