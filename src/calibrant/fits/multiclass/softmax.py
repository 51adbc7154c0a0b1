"""Log probabilities of multiclass rows, and the fit of one slope on them: temperature scaling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

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

BLOCK_NUMBERS = 1 << 15
"""Numbers in a block of rows, so that its temporaries stay in the cache."""

ROUGH_NUMBERS = 1 << 16
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

    ``logs`` are log probabilities, clipped at ``clamp`` from below, or logits as given if ``raw``; they keep
    the precision of the scores. Rows without weight, a clamp above the one of ``logs`` (``raised``), and a number to
    subtract from each row of logits (``shift``) are taken into account by :meth:`blocks`, so that folds, clamps and
    logits need no copy.
    """

    classes: tuple[str, ...]
    on: ClassAxis
    clamp: float
    logs: Matrix
    labels: NDArray[np.intp]
    weights: Floats
    raised: bool = False
    shift: Floats | None = None
    single: bool = False
    """Whether fits may be computed in single precision."""
    raw: bool = False
    """Whether slopes act on the logits as given."""

    @classmethod
    def of(
        cls,
        rows: MulticlassRows,
        clamp: float | None = None,
        order: NDArray[Any] | None = None,
        *,
        single: bool = False,
    ) -> Self:
        """The logarithms of checked rows, in another order or in single precision on request.

        The default clamp is :func:`zeros_as`.
        """
        on: ClassAxis = "logit" if rows.score_type == "logit" else "probability"
        lowest = zeros_as(rows) if clamp is None else clamp
        labels, weights = rows.labels, effective_weights(rows)
        if on == "logit" and order is None and not single:
            shift, raised = np.empty(len(rows)), False
            for part in row_blocks(rows.scores):
                z = rows.scores[part].astype(np.float64, copy=False)
                shift[part] = _log_sums(z)
                raised = raised or bool((z.min(axis=1) - shift[part]).min() < np.log(lowest))
            return cls(rows.classes, on, lowest, rows.scores, labels, weights, raised, shift)
        taken = SoftmaxMap(rows.classes, np.ones(1), np.zeros(0), on, lowest)
        logs = np.empty(rows.scores.shape, dtype=np.float32 if single else rows.scores.dtype)
        for part in row_blocks(logs):
            z = rows.scores[part if order is None else order[part]].astype(np.float64, copy=False)
            logs[part] = np.maximum(z - _log_sums(z)[:, None], np.log(lowest)) if on == "logit" else taken.logits(z)
        if order is not None:
            labels, weights = labels[order], weights[order]
        return cls(rows.classes, on, lowest, logs, labels, weights, single=single)

    @classmethod
    def for_slope(cls, rows: MulticlassRows, clamp: float | None = None) -> Self:
        """The same for a slope alone: logits without a copy, because a constant added to a row has no effect."""
        plain = (
            rows.score_type == "logit" and max(-float(rows.scores.min()), float(rows.scores.max())) <= MAX_PLAIN_LOGIT
        )
        if clamp is not None or not plain:
            return cls.of(rows, clamp)
        return cls(rows.classes, "logit", UNCLAMPED, rows.scores, rows.labels, effective_weights(rows))

    @classmethod
    def as_given(cls, rows: MulticlassRows) -> Self:
        """The logits as given, for slopes that act on them: there a constant added to a row matters."""
        return cls(rows.classes, "logit", UNCLAMPED, rows.scores, rows.labels, effective_weights(rows), raw=True)

    def clipped(self, clamp: float) -> Self:
        """The same with a higher clamp."""
        return replace(self, clamp=clamp, raised=bool(self.least < np.log(clamp)))

    @cached_property
    def least(self) -> float:
        """The lowest logarithm."""
        return float(self.logs.min()) if self.shift is None else -np.inf

    def weighing(self, weights: Floats) -> Self:
        """The same rows with other weights."""
        return replace(self, weights=weights)

    def blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """Blocks of rows with weight, and their log probabilities, clipped."""
        for run in _runs(self.weights > 0.0):
            for inner in row_blocks(self.logs[run]):
                part = slice(run.start + inner.start, run.start + inner.stop)
                yield part, self.at(part)

    def at(self, places: NDArray[Any] | slice) -> Matrix:
        """The log probabilities of some rows, clipped."""
        z = self.logs[places]
        if self.shift is not None:
            z = z - self.shift[places, None]
        return np.maximum(z, z.dtype.type(np.log(self.clamp))) if self.raised else z

    def to_map(self, slope: Floats, intercept: Floats) -> SoftmaxMap:
        """The map with these parameters."""
        return SoftmaxMap(self.classes, slope.reshape(-1), intercept, self.on, self.clamp, self.raw)


def _log_sums(z: Floats) -> Floats:
    """Logarithm of the sum of the exponentials of each row."""
    top = z.max(axis=1)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)))


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


def _runs(kept: NDArray[np.bool_]) -> Iterator[slice]:
    """Slices of consecutive rows that are kept."""
    edges = np.flatnonzero(np.diff(kept.astype(np.int8), prepend=0, append=0))
    return (slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2))


# ------------------------------------------------------------------------------------------------------------ one slope


class Sloped(NamedTuple):
    """A fitted slope, 1 / T, with notes for the user."""

    slope: float
    notes: tuple[Note, ...] = ()


def fit_slope(rows: LogRows, *, soft: bool = False, start: float | None = None) -> Sloped:
    r"""The slope t of lowest log loss, by Newton's method within a bracket.

    .. math:: \min_{0.01 \le t \le 100}\ \sum_i w_i \Bigl(\log \sum_k e^{t z_{ik}} - t z_{i y_i}\Bigr)

    With ``soft``, and if every row is classified correctly, each label has a share of :math:`1/(n + K)` for each other
    class. The loss is convex in t. The search begins at ``start``, by default 1; without it, large data are first
    fitted on a subset, and then need about three passes.
    Arithmetic on rows is in the precision of the scores, sums are in float64.

    Examples
    --------
    >>> rows = LogRows(("a", "b"), "logit", UNCLAMPED, np.log([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1]), np.ones(4))
    >>> round(fit_slope(rows).slope, 6)  # right in three rows of four: log 3 / log 9
    0.5
    """
    stride = rows.logs.size // ROUGH_NUMBERS
    if start is None and stride > 1:
        some = slice(None, None, stride)
        shift = None if rows.shift is None else rows.shift[some]
        part = replace(rows, logs=rows.logs[some], labels=rows.labels[some], weights=rows.weights[some], shift=shift)
        start = fit_slope(part, soft=soft).slope
    share = 1.0 / (float(rows.weights.sum()) + len(rows.classes)) if soft else 0.0
    low, high, slope = MIN_SLOPE, MAX_SLOPE, 1.0 if start is None else start
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
    for part, z in rows.blocks():
        weights = rows.weights[part]
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
