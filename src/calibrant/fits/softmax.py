"""Log probabilities of multiclass rows, and the fit of one slope on them: temperature scaling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import Matrix, MulticlassRows
from calibrant.maps import ClassAxis, SoftmaxMap
from calibrant.messages import Note, Voice, note, plural
from calibrant.numerics import CLAMP, Floats

MIN_SLOPE, MAX_SLOPE = 0.01, 100.0
"""Range of slopes; temperatures are their reciprocals."""

UNCLAMPED = 1e-300
"""The clamp of logits: so small that nothing is clipped in practice."""

MAX_PLAIN_LOGIT = 300.0
"""Logits up to this size are far from that clamp, and sums of their squares do not overflow in single precision."""

BLOCK_NUMBERS = 1 << 16
"""Numbers in a block of rows, so that its temporaries stay in the cache."""

ROUGH_NUMBERS = 1 << 19
"""Above twice this many numbers, a slope is first fitted to a subset of about this many."""

SLOPE_STEPS = 60
"""Maximum number of Newton steps for a slope."""


equal_scores_in_rows = note(
    "equal-scores-in-rows",
    "all scores of a row are equal, in every row, so a temperature has no effect: scores are not changed",
)
labels_at_largest_scores = note(
    "labels-at-largest-scores",
    "every row is classified correctly, so the maximum likelihood temperature is 0: labels were smoothed by the "
    "weight of one row instead",
)
temperature_at_limit = note(
    "temperature-at-limit",
    "scores are unrelated to the classes, or rank them the wrong way: the temperature is limited to 100",
)


@note("probabilities-clipped")
def probabilities_clipped(voice: Voice, probabilities: int, at: float) -> str:
    """Note on probabilities too small for a logarithm."""
    verb = "was" if probabilities == 1 else "were"
    which = plural(probabilities, "probability", "probabilities")
    return f"{which} below {at:.4g} {verb} raised to it before the logarithm"


@dataclass(frozen=True, eq=False)
class LogRows:
    """Rows of class scores as input of softmax regressions.

    ``logs`` are log probabilities, clipped at ``clamp`` from below; they keep the precision of the scores.
    """

    classes: tuple[str, ...]
    on: ClassAxis
    clamp: float
    logs: Matrix
    labels: NDArray[np.intp]
    weights: Floats

    @classmethod
    def of(cls, rows: MulticlassRows, clamp: float | None = None) -> Self:
        """The logarithms of checked rows; the default clamp is :func:`zeros_as`."""
        on: ClassAxis = "logit" if rows.score_type == "logit" else "probability"
        lowest = zeros_as(rows) if clamp is None else clamp
        taken = SoftmaxMap(rows.classes, np.ones(1), np.zeros(0), on, lowest)
        logs = np.empty_like(rows.scores)
        for part in row_blocks(logs):
            logs[part] = taken.logits(rows.scores[part].astype(np.float64, copy=False))
        return cls(rows.classes, on, lowest, logs, rows.labels, effective_weights(rows))

    @classmethod
    def for_slope(cls, rows: MulticlassRows, clamp: float | None = None) -> Self:
        """The same for a slope alone: logits without a copy, because a constant added to a row has no effect."""
        plain = (
            rows.score_type == "logit" and max(-float(rows.scores.min()), float(rows.scores.max())) <= MAX_PLAIN_LOGIT
        )
        if clamp is not None or not plain:
            return cls.of(rows, clamp)
        return cls(rows.classes, "logit", UNCLAMPED, rows.scores, rows.labels, effective_weights(rows))

    def clipped(self, clamp: float) -> Self:
        """The same with a higher clamp."""
        return replace(self, clamp=clamp, logs=np.maximum(self.logs, self.logs.dtype.type(np.log(clamp))))

    def weighing(self, weights: Floats) -> Self:
        """The same rows with other weights; rows without weight are left out."""
        kept = np.flatnonzero(weights > 0.0)
        if len(kept) == len(weights):
            return replace(self, weights=weights)
        return replace(self, logs=self.logs[kept], labels=self.labels[kept], weights=weights[kept])

    def to_map(self, slope: Floats, intercept: Floats) -> SoftmaxMap:
        """The map with these parameters."""
        return SoftmaxMap(self.classes, slope.reshape(-1), intercept, self.on, self.clamp)


def zeros_as(rows: MulticlassRows) -> float:
    """Replacement for probabilities of 0: half the smallest other one. Logits are not clipped.

    A probability below 2**-32 counts as 0: in rounded rows such values are often the rounding error of a subtraction.
    """
    if rows.score_type == "logit":
        return UNCLAMPED
    small, least = False, 1.0
    for part in row_blocks(rows.scores):
        block = rows.scores[part]
        small |= bool(block.min() < CLAMP)
        least = min(least, float(block.min(initial=1.0, where=block >= CLAMP)))
    return least / 2.0 if small and least < 1.0 else CLAMP


def zero_notes(rows: MulticlassRows, lowest: float) -> tuple[Note, ...]:
    """A note on how many probabilities were raised to ``lowest``; empty if none."""
    if rows.score_type == "logit":
        return ()
    moved = sum(int(np.count_nonzero(rows.scores[part] < lowest)) for part in row_blocks(rows.scores))
    return (probabilities_clipped(moved, float(lowest)),) if moved else ()


def effective_weights(rows: MulticlassRows) -> Floats:
    """Counts unchanged; importance weights scaled to add up to their effective sample size."""
    weights = rows.mass.astype(np.float64)
    if rows.counts:
        return weights
    weights = weights / weights.max()  # so that squares neither overflow nor underflow
    return np.asarray(weights * (weights.sum() / (weights * weights).sum()))


def row_blocks(matrix: Matrix) -> Iterator[slice]:
    """Slices of rows whose temporaries stay in the cache."""
    step = max(BLOCK_NUMBERS // matrix.shape[1], 1)
    return (slice(start, min(start + step, len(matrix))) for start in range(0, len(matrix), step))


# ------------------------------------------------------------------------------------------------------------ one slope


class Sloped(NamedTuple):
    """A fitted slope, 1 / T, with notes for the user."""

    slope: float
    notes: tuple[Note, ...] = ()


def fit_slope(rows: LogRows, *, soft: bool = False) -> Sloped:
    r"""The slope t of lowest log loss, by Newton's method within a bracket.

    .. math:: \min_{0.01 \le t \le 100}\ \sum_i w_i \Bigl(\log \sum_k e^{t z_{ik}} - t z_{i y_i}\Bigr)

    With ``soft``, and if every row is classified correctly, each label has a share of :math:`1/(n + K)` for each other
    class. The loss is convex in t. Large data are first fitted on a subset, and then need about three passes.
    Arithmetic on rows is in the precision of the scores, sums are in float64.

    Examples
    --------
    >>> rows = LogRows(("a", "b"), "logit", UNCLAMPED, np.log([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1]), np.ones(4))
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
    low, high, slope = MIN_SLOPE, MAX_SLOPE, start
    near = 1e-4 if rows.logs.dtype == np.float32 else 1e-6  # the last step squares the error once more
    for _ in range(SLOPE_STEPS):
        gradient, curvature, above, below = _slope_terms(rows, slope, share)
        if not share and above <= 0.0:  # every row is classified correctly
            if below == 0.0:
                return Sloped(1.0, (equal_scores_in_rows(),))
            return Sloped(fit_slope(rows, soft=True).slope, (labels_at_largest_scores(),))
        low, high = (slope, high) if gradient < 0.0 else (low, slope)
        step = -gradient / curvature if curvature > 0.0 else np.inf
        trial = slope + step
        if abs(step) <= near * slope:
            return Sloped(float(min(max(trial, MIN_SLOPE), MAX_SLOPE)))
        slope = trial if low < trial < high else float(np.sqrt(low * high))
        if high / low < 1.0 + near * near:
            break
    return Sloped(slope, (temperature_at_limit(),) if slope < 2.0 * MIN_SLOPE else ())


def _slope_terms(rows: LogRows, slope: float, share: float) -> tuple[float, float, float, float]:
    """First and second derivative of the loss by the slope, and the largest and smallest margin over the true class."""
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
