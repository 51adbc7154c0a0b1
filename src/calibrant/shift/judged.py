"""Calibration from few human labels and a judge that graded every row: prediction-powered figures."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import check_rows, check_scores
from calibrant.arrays.columns import read_array, refuse_not_finite, value_range
from calibrant.messages import InputError, Note, Shown
from calibrant.numerics import Ends, Floats, logit
from calibrant.shift.mean_rate import FEW_DISAGREEMENTS, MIN_LABELS_PER_CLASS, few_disagreements, unseen
from calibrant.shift.stages import unlabeled
from calibrant.solvers import fit_logistic

MIN_BIN_LABELS = 10
"""Labeled rows, and 3 of each class among them, that a bin needs to have an interval."""


@dataclass(frozen=True)
class JudgedFigure(Shown):
    """One figure of :func:`estimate_calibration`.

    Attributes
    ----------
    name
        What it is.
    value, low, high, se
        Estimate, ends of its interval and standard error; NaN where there are too few labels.
    labels, worth
        Labeled rows behind it, and how many labels would give this standard error without the judge.
    mistakes
        Number of wrong grades that would give the variance that the judge leaves.
    """

    name: str
    value: float
    low: float
    high: float
    se: float
    labels: int
    worth: float
    mistakes: float = math.nan

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is not known is None."""
        known = {name: isinstance(value, str) or math.isfinite(value) for name, value in vars(self).items()}
        return {name: value if known[name] else None for name, value in vars(self).items()}

    def __str__(self) -> str:
        """One line."""
        if not math.isfinite(self.low):
            return f"{self.name}: not known from {self.labels:,} labels"
        interval = f"{self.low:.4g} to {self.high:.4g}"
        return f"{self.name}: {self.value:.4g} ({interval}); {self.labels:,} labels worth {self.worth:,.0f}"


@dataclass(frozen=True)
class JudgedCalibration(Shown):
    """The result of :func:`estimate_calibration`: figures of calibration, each with an interval.

    Attributes
    ----------
    ratio
        Observed over expected events: below 1, the scores are too high.
    intercept, slope
        Recalibration in log-odds: 0 and 1 are ideal.
    bins
        Observed minus expected event rate, in each bin of the score.
    edges
        Inner edges of the bins.
    labels, unlabeled, alpha
        Labeled and unlabeled rows, and one minus the confidence level of each interval.
    notes
        Further remarks.
    """

    ratio: JudgedFigure
    intercept: JudgedFigure
    slope: JudgedFigure
    bins: tuple[JudgedFigure, ...]
    edges: tuple[float, ...]
    labels: int
    unlabeled: int
    alpha: float
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data; a figure that is not known is None."""
        figures = {name: getattr(self, name).to_dict() for name in ("ratio", "intercept", "slope")}
        bins = [each.to_dict() for each in self.bins]
        notes = [note.as_dict() for note in self.notes]
        return asdict(self) | figures | {"edges": list(self.edges), "bins": bins, "notes": notes}

    def __str__(self) -> str:
        """One line per figure."""
        head = f"{self.labels:,} labels and {self.unlabeled:,} rows graded by a judge alone"
        lines = [f"{head}; {100 * (1 - self.alpha):.4g} % CI of each figure"]
        return "\n  ".join([*lines, *map(str, (self.ratio, self.intercept, self.slope, *self.bins, *self.notes))])


def estimate_calibration(
    scores: ArrayLike,
    judge: ArrayLike,
    labeled: ArrayLike,
    judge_labeled: ArrayLike,
    y: ArrayLike,
    *,
    n_bins: int = 3,
    alpha: float = 0.05,
) -> JudgedCalibration:
    r"""Estimate calibration from few human labels, helped by a judge that graded all rows.

    .. math::
        \hat\theta = \hat\theta_n + \lambda^\top (\bar c_N - \bar c_n), \qquad
        \widehat{\mathrm{Var}} = \frac{s^2(\psi - \lambda^\top c)}{n} + \frac{z^2 \delta^2}{2 n^2} +
        \frac{\lambda^\top S_c \lambda}{N}, \qquad \lambda = \frac{S_c^{-1} \widehat{\mathrm{Cov}}(c, \psi)}{1 + n / N},

    where :math:`\hat\theta_n` is the figure from the n labels alone, :math:`\psi` the influence of each label on it,
    c what the scores and the judge say about that influence, on all rows, :math:`\delta^2` the mean square of what
    changing one label does, and z the normal quantile of the level. The judge may be wrong: labels correct
    it, and its weight goes to 0 if it carries no information.

    Parameters
    ----------
    scores, judge
        Probabilities of rows without a label, and the judge's grade of each, from 0 to 1. Several judges are columns.
    labeled, judge_labeled, y
        Probabilities, grades and human labels of a random sample of the same population.
    n_bins
        Bins of equal mass, from the scores of all rows; tied scores have fewer.
    alpha
        One minus the confidence level of each interval.

    Returns
    -------
    JudgedCalibration
        Prints itself as text; has ``ratio``, ``intercept``, ``slope`` and ``bins``.

    Notes
    -----
    Edge cases: at least 20 labeled events and 20 labeled non-events are needed. A bin with fewer than 10 labels, or
    fewer than 3 of a class, has no interval. Scores of exactly 0 and 1 enter log-odds as in
    :func:`calibrant.metrics.recalibration`.
    A judge's rare mistakes need not be among the labels: the middle term of the variance allows for z^2 / 2 of them,
    and a note says so if the labels have fewer than about 20.
    Guarantee: no finite-sample guarantee; intervals are Student's, each on its own. In simulations with 150 to 400
    labels and judges that were wrong in 0.5 to 50 % of the rows they covered in at least 93 %. Cost: one logistic
    regression.
    References: Angelopoulos et al. (2023), prediction-powered inference; Angelopoulos, Duchi and Zrnic (2023), PPI++;
    Bonett and Price (2012) for the added mistakes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 2, 4200)
    >>> y = rng.random(4200) < 0.8 * p
    >>> judge = np.where(rng.random(4200) < 0.9, y, ~y)  # right in nine of ten rows
    >>> found = estimate_calibration(p[200:], judge[200:], p[:200], judge[:200], y[:200])
    >>> found.ratio.low < 0.8 < found.ratio.high, found.ratio.worth > 300
    (True, True)
    """
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must be inside (0, 1), got {alpha!r}", "0.05 gives 95 % intervals")
    if not (isinstance(n_bins, int | np.integer) and n_bins >= 1):
        raise InputError("n_bins", f"must be an integer of at least 1, got {n_bins!r}", "3 is a good choice")
    unlabeled(scores, None, "probability")
    far = check_scores(scores, "probability").astype(np.float64)
    rows = check_rows(labeled, y, score_type="probability")
    near, target = rows.scores, rows.labels.astype(np.float64)
    g_far, g_near = _grades("judge", judge, len(far)), _grades("judge_labeled", judge_labeled, len(near))
    if g_far.shape[1] != g_near.shape[1]:
        raise InputError("judge_labeled", "must have as many judges as judge", "pass the same columns")
    events = int(target.sum())
    if min(events, len(target) - events) < MIN_LABELS_PER_CLASS:
        raise InputError(
            "y",
            f"has {events:,} events and {len(target) - events:,} others, and {MIN_LABELS_PER_CLASS} of each are needed",
            "label more rows, or use estimate_rate for the rate alone",
        )
    every = np.concatenate([near, far])
    ends = Ends.of(every)
    edges = np.unique(np.quantile(every, np.arange(1, n_bins) / n_bins))
    edges = edges[edges > every.min()]
    sides = (near, g_near), (far, g_far)
    ratio = _figure("observed / expected", *_ratio(target, *sides), alpha, logarithm=True)
    parts, names = _recalibration(target, *sides, ends), ("intercept", "slope")
    line = [
        _unknown(name, len(near)) if parts is None else _figure(name, *parts[k], alpha) for k, name in enumerate(names)
    ]
    bins = tuple(_bin(k, edges, target, *sides, alpha) for k in range(len(edges) + 1))
    notes = (few_disagreements(ratio.mistakes, alpha, judged=True),) if ratio.mistakes < FEW_DISAGREEMENTS else ()
    return JudgedCalibration(
        ratio, line[0], line[1], bins, tuple(edges.tolist()), len(near), len(far), float(alpha), notes
    )


Side = tuple[Floats, Floats]
"""Scores and grades of labeled or of unlabeled rows."""
Parts = tuple[float, Floats, Floats, Floats, Floats]
"""A figure from the labels alone, the influence of each label and of its change, and controls of both sides."""


def _ratio(y: Floats, near: Side, far: Side) -> Parts:
    value = float(y.mean() / near[0].mean())
    influence = y / y.mean() - near[0] / near[0].mean()  # of the logarithm
    return value, influence, np.full(len(y), 1.0 / y.mean()), np.column_stack(near), np.column_stack(far)


def _recalibration(y: Floats, near: Side, far: Side, ends: Ends) -> tuple[Parts, Parts] | None:
    """Intercept and slope; None if labels are separated by the scores, or the scores are all equal."""
    x_near, x_far = (np.column_stack([np.ones(len(p)), logit(p, ends)]) for p, _ in (near, far))
    fit = fit_logistic(lambda: [(x_near.T, np.ones(len(y)), y)], 2)
    if not fit.converged or float(x_near[:, 1].std()) < 1e-9:
        return None
    beta = fit.coefficients
    fitted, fitted_far = special.expit(x_near @ beta), special.expit(x_far @ beta)
    bread = np.linalg.inv((x_near * (fitted * (1.0 - fitted))[:, None]).T @ x_near / len(y))
    influence = (x_near * (y - fitted)[:, None]) @ bread.T
    controls, controls_far = (
        np.column_stack([x * (grade - p)[:, None] for grade in grades.T])
        for x, p, grades in ((x_near, fitted, near[1]), (x_far, fitted_far, far[1]))
    )
    change = x_near @ bread.T
    first, second = ((float(beta[k]), influence[:, k], change[:, k], controls, controls_far) for k in (0, 1))
    return first, second


def _bin(k: int, edges: Floats, y: Floats, near: Side, far: Side, alpha: float) -> JudgedFigure:
    mine, other = (np.searchsorted(edges, p, side="right") == k for p, _ in (near, far))
    low, high = (edges[k - 1] if k else 0.0), (edges[k] if k < len(edges) else 1.0)
    name, inside = f"observed - expected, scores from {low:.4g} to {high:.4g}", y[mine]
    events = int(inside.sum())
    if len(inside) < MIN_BIN_LABELS or min(events, len(inside) - events) < 3 or not other.any():
        return _unknown(name, len(inside))
    value = float((inside - near[0][mine]).mean())
    influence = inside - near[0][mine] - value
    controls, controls_far = (
        np.column_stack([p[rows], grades[rows]]) for rows, (p, grades) in ((mine, near), (other, far))
    )
    return _figure(name, value, influence, np.ones(len(inside)), controls, controls_far, alpha)


def _unknown(name: str, labels: int) -> JudgedFigure:
    return JudgedFigure(name, math.nan, math.nan, math.nan, math.nan, labels, math.nan)


def _figure(
    name: str,
    value: float,
    influence: Floats,
    flipped: Floats,
    near: Floats,
    far: Floats,
    alpha: float,
    *,
    logarithm: bool = False,
) -> JudgedFigure:
    """The figure with the help of the controls, where they help."""
    n, m = len(near), len(far)
    alone = float(influence.var(ddof=1)) / n
    keep = near.std(axis=0) > 1e-12
    near, far = near[:, keep], far[:, keep]
    one = float((flipped**2).mean())  # what one wrong grade adds to the sum of squares
    change, variance, used, mistakes = 0.0, alone, 0, n * n * alone / one
    if near.shape[1] and n > near.shape[1] + 2:
        centered = near - near.mean(axis=0)
        weights = np.linalg.lstsq(centered, influence, rcond=1e-10)[0] / (1.0 + n / m)
        used = near.shape[1]
        residual = influence - centered @ weights
        spread = float((residual**2).sum()) / (n - 1 - used) / n
        mistakes = float((residual**2).sum()) / one
        variance = spread + unseen(alpha) * one / n**2 + float(((far - far.mean(axis=0)) @ weights).var()) / m
        change = float(weights @ (far.mean(axis=0) - near.mean(axis=0)))
    se = math.sqrt(variance)
    half = -float(special.stdtrit(n - 1 - used, alpha / 2.0)) * se
    worth = n * alone / variance if variance > 0.0 else math.inf
    if logarithm:
        value *= math.exp(change)
        return JudgedFigure(
            name, value, value * math.exp(-half), value * math.exp(half), value * se, n, worth, mistakes
        )
    value += change
    return JudgedFigure(name, value, value - half, value + half, se, n, worth, mistakes)


def _grades(name: str, judge: ArrayLike, rows: int) -> Floats:
    """Grades as columns, checked."""
    grades = read_array(judge, name, "pass grades from 0 (wrong) to 1 (right), one column per judge")
    grades = grades[:, None] if grades.ndim == 1 else grades
    if grades.ndim != 2 or len(grades) != rows:
        raise InputError(name, f"must have one grade for each of the {rows:,} rows", "pass one column per judge")
    low, high = value_range(grades.ravel())
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_not_finite(grades.ravel(), name, "drop these rows or grade them again")
    if low < 0.0 or high > 1.0:
        raise InputError(name, "must be grades from 0 (wrong) to 1 (right)", "rescale them")
    return grades
