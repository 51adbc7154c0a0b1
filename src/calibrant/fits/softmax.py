"""Rows of class scores as logarithms, and how one slope on them is fitted: temperature scaling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import ClassRows, Matrix
from calibrant.maps import ClassAxis, SoftmaxMap
from calibrant.messages import Note, Voice, note, plural
from calibrant.numerics import CLAMP, Floats

LEAST_SLOPE, MOST_SLOPE = 0.01, 100.0
"""A temperature is sought between the reciprocals of these."""

UNHELD = 1e-300
"""The clamp of logits: nothing is held in practice."""

PLAIN = 300.0
"""Logits up to this size are nowhere near that clamp, and their squares add up in single precision."""

NUMBERS = 1 << 16
"""Numbers of a block of rows, so that its temporaries stay in the cache."""

ROUGH_NUMBERS = 1 << 19
"""Above twice this many, a slope is first sought on as many."""

SLOPE_STEPS = 60


equal_scores_in_rows = note(
    "equal-scores-in-rows",
    "every score of a row is the same, in every row, so no temperature has any effect: scores stay as they are",
)
labels_at_largest_scores = note(
    "labels-at-largest-scores",
    "the class of every row has its largest score, so the likelihood asks for a temperature of 0: each label was "
    "taken to be wrong by the share of one row",
)
temperature_at_limit = note(
    "temperature-at-limit",
    "scores say nothing about the classes, or the opposite: the temperature is limited to 100",
)


@note("probabilities-clipped")
def probabilities_clipped(voice: Voice, probabilities: int, at: float) -> str:
    """Of probabilities too small for a logarithm."""
    verb = "is" if probabilities == 1 else "are"
    which = plural(probabilities, "probability", "probabilities")
    return f"logarithms are clipped at {at:.4g}: {which} below it {verb} read as that"


@dataclass(frozen=True, eq=False)
class LogRows:
    """Rows of class scores as softmax regressions see them.

    ``logs`` are logarithms of probabilities, held at ``clamp`` from below; they keep the precision of the scores.
    """

    classes: tuple[str, ...]
    on: ClassAxis
    clamp: float
    logs: Matrix
    labels: NDArray[np.intp]
    weights: Floats

    @classmethod
    def of(cls, rows: ClassRows, clamp: float | None = None) -> Self:
        """The logarithms of checked rows; by default held as :func:`zeros_as` says."""
        on: ClassAxis = "logit" if rows.kind == "logit" else "probability"
        held = zeros_as(rows) if clamp is None else clamp
        taken = SoftmaxMap(rows.classes, np.ones(1), np.zeros(0), on, held)
        logs = np.empty_like(rows.scores)
        for part in row_blocks(logs):
            logs[part] = taken.logits(rows.scores[part].astype(np.float64, copy=False))
        return cls(rows.classes, on, held, logs, rows.labels, effective_weights(rows))

    @classmethod
    def for_slope(cls, rows: ClassRows, clamp: float | None = None) -> Self:
        """The same for a slope alone, which a constant added to a row does not change: logits as they came, no copy."""
        plain = rows.kind == "logit" and max(-float(rows.scores.min()), float(rows.scores.max())) <= PLAIN
        if clamp is not None or not plain:
            return cls.of(rows, clamp)
        return cls(rows.classes, "logit", UNHELD, rows.scores, rows.labels, effective_weights(rows))

    def held(self, clamp: float) -> Self:
        """The same, held higher."""
        return replace(self, clamp=clamp, logs=np.maximum(self.logs, self.logs.dtype.type(np.log(clamp))))

    def weighing(self, weights: Floats) -> Self:
        """The same rows with other weights; those without any are left out."""
        kept = np.flatnonzero(weights > 0.0)
        if len(kept) == len(weights):
            return replace(self, weights=weights)
        return replace(self, logs=self.logs[kept], labels=self.labels[kept], weights=weights[kept])

    def to_map(self, slope: Floats, intercept: Floats) -> SoftmaxMap:
        """The map with these numbers."""
        return SoftmaxMap(self.classes, slope.reshape(-1), intercept, self.on, self.clamp)


def zeros_as(rows: ClassRows) -> float:
    """What probabilities of 0 are read as: half the smallest other one. Logits are not held at all.

    Below 2**-32 a probability counts as 0: rows that were rounded often hold the rest of a subtraction there.
    """
    if rows.kind == "logit":
        return UNHELD
    small, least = False, 1.0
    for part in row_blocks(rows.scores):
        block = rows.scores[part]
        small |= bool(block.min() < CLAMP)
        least = min(least, float(block.min(initial=1.0, where=block >= CLAMP)))
    return least / 2.0 if small and least < 1.0 else CLAMP


def zero_notes(rows: ClassRows, held: float) -> tuple[Note, ...]:
    """How many probabilities are read as ``held``; nothing where none is."""
    if rows.kind == "logit":
        return ()
    moved = sum(int(np.count_nonzero(rows.scores[part] < held)) for part in row_blocks(rows.scores))
    return (probabilities_clipped(moved, float(held)),) if moved else ()


def effective_weights(rows: ClassRows) -> Floats:
    """Counts as they are; importance weights in the unit in which they add up to their effective size."""
    weights = rows.mass.astype(np.float64)
    if rows.counts:
        return weights
    weights = weights / weights.max()  # so that squares neither overflow nor vanish
    return np.asarray(weights * (weights.sum() / (weights * weights).sum()))


def row_blocks(matrix: Matrix) -> Iterator[slice]:
    """Slices of rows whose temporaries stay in the cache."""
    step = max(NUMBERS // matrix.shape[1], 1)
    return (slice(start, min(start + step, len(matrix))) for start in range(0, len(matrix), step))


# ------------------------------------------------------------------------------------------------------------ one slope


class Sloped(NamedTuple):
    """A fitted slope, 1 / T, and what its user must know."""

    slope: float
    notes: tuple[Note, ...] = ()


def fit_slope(rows: LogRows, *, soft: bool = False) -> Sloped:
    r"""The slope t of least log loss, Newton's method held in a bracket.

    .. math:: \min_{0.01 \le t \le 100}\ \sum_i w_i \Bigl(\log \sum_k e^{t z_{ik}} - t z_{i y_i}\Bigr)

    With ``soft``, and where every row's class has its largest score, a label counts as wrong by the share
    :math:`1/(n + K)` for each other class. The loss is convex in t. Large data are first fitted in part, and then take
    about three passes. Arithmetic on rows is in the precision of the scores, sums in float64.

    Examples
    --------
    >>> rows = LogRows(("a", "b"), "logit", UNHELD, np.log([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1]), np.ones(4))
    >>> round(fit_slope(rows).slope, 6)  # right in three rows of four: log 3 / log 9
    0.5
    """
    start = 1.0
    stride = rows.logs.size // ROUGH_NUMBERS
    if stride > 1:
        some = slice(None, None, stride)
        part = replace(rows, logs=rows.logs[some], labels=rows.labels[some], weights=rows.weights[some])
        start = fit_slope(part, soft=soft).slope
    share = 1.0 / (float(rows.weights.sum()) + len(rows.classes)) if soft else 0.0
    low, high, slope = LEAST_SLOPE, MOST_SLOPE, start
    near = 1e-4 if rows.logs.dtype == np.float32 else 1e-6  # the error is squared once more after the last step
    for _ in range(SLOPE_STEPS):
        gradient, curvature, above, below = _slope_terms(rows, slope, share)
        if not share and above <= 0.0:  # no score beats that of its row's class
            if below == 0.0:
                return Sloped(1.0, (equal_scores_in_rows(),))
            return Sloped(fit_slope(rows, soft=True).slope, (labels_at_largest_scores(),))
        low, high = (slope, high) if gradient < 0.0 else (low, slope)
        step = -gradient / curvature if curvature > 0.0 else np.inf
        trial = slope + step
        if abs(step) <= near * slope:
            return Sloped(float(min(max(trial, LEAST_SLOPE), MOST_SLOPE)))
        slope = trial if low < trial < high else float(np.sqrt(low * high))
        if high / low < 1.0 + near * near:
            break
    return Sloped(slope, (temperature_at_limit(),) if slope < 2.0 * LEAST_SLOPE else ())


def _slope_terms(rows: LogRows, slope: float, share: float) -> tuple[float, float, float, float]:
    """First and second derivative of the loss by the slope, and the largest and smallest lead over a row's class."""
    gradient, curvature, above, below = 0.0, 0.0, -np.inf, np.inf
    for part in row_blocks(rows.logs):
        z, weights = rows.logs[part], rows.weights[part]
        lead = z - z[np.arange(len(z)), rows.labels[part]][:, None]
        top = lead.max(axis=1)
        e = np.exp((lead - top[:, None]) * z.dtype.type(slope))
        total = e.sum(axis=1, dtype=np.float64)
        mean = np.einsum("nk,nk->n", e, lead) / total
        square = np.einsum("nk,nk,nk->n", e, lead, lead) / total
        pull = mean - share * lead.sum(axis=1, dtype=np.float64) if share else mean
        gradient += float((weights * pull).sum())
        curvature += float((weights * np.maximum(square - mean * mean, 0.0)).sum())
        above, below = max(above, float(top.max())), min(below, float(lead.min()))
    return gradient, curvature, above, below
