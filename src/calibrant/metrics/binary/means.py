"""Means of a loss over rows or cells, and the sums for their standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.metrics.chance import units_of
from calibrant.metrics.variance import squared_weights
from calibrant.numerics import Floats, chunks
from calibrant.tallies import Tally


class Part(NamedTuple):
    """Some cells at a time: scores, rows and events, or their sums of weights, and sums of squared weights."""

    scores: Floats
    n: NDArray[Any]
    events: NDArray[Any]
    w2: NDArray[Any]
    w2_events: NDArray[Any]
    w2_null: NDArray[Any]
    """Expected sums of squared weights if the scores were right."""


Parts = Iterable[Part]

Loss = Callable[[Floats], tuple[Floats, Floats]]
"""Loss at each score: of an event, and of a non-event."""


class Moments(NamedTuple):
    """Sums over rows of a loss that depends on score and label; ``w2`` sums weigh by squared weights."""

    total: float
    loss: float
    w2: float
    w2_loss: float
    w2_square: float
    w2_cube: float
    w2_fourth: float
    null: float
    null_variance: float
    null_third: float
    """Third central moment; computed as if the weights of a cell were equal."""
    on_ends: float
    """Rows (or their weight) at scores of exactly 0 or 1."""
    impossible: float
    """Of these, events at 0 and non-events at 1."""

    @property
    def effective(self) -> float:
        """Number of equally large deviations that would have this variance and fourth moment."""
        m, s = self.loss / self.total, (self.w2, self.w2_loss, self.w2_square, self.w2_cube, self.w2_fourth)
        spread = s[2] - 2.0 * m * s[1] + m**2 * s[0]
        fourth = s[4] - 4.0 * m * s[3] + 6.0 * m**2 * s[2] - 4.0 * m**3 * s[1] + m**4 * s[0]
        return (spread * (self.total / self.w2)) ** 2 / fourth if fourth > 1e-12 * s[4] else math.inf


def squared_loss(scores: Floats) -> tuple[Floats, Floats]:
    """Squared distance from 1 and from 0."""
    return (1.0 - scores) ** 2, scores**2


def logarithmic_loss(scores: Floats) -> tuple[Floats, Floats]:
    """Minus the logarithm of the label's probability; 0 where that is infinite, which `impossible` counts."""
    inside = (scores > 0.0) & (scores < 1.0)
    if inside.all():
        return -np.log(scores), -np.log1p(-scores)
    safe = np.where(inside, scores, 0.5)
    return np.where(inside, -np.log(safe), 0.0), np.where(inside, -np.log1p(-safe), 0.0)


def parts_of(data: Tally | Rows) -> Iterator[Part]:
    """Pieces of a tally, or unsorted rows: a mean does not need an order."""
    if isinstance(data, Rows):
        yield from _parts_of_rows(data)
        return
    if data.counts or data.cells.w2 is None:
        yield from (Part(scores, n, events, n, events, n) for scores, n, events in data.pieces())
        return
    w2, w2_events = squared_weights(data)
    hit, miss = units_of(data)
    for part, (scores, n, events) in zip(chunks(len(data)), data.pieces(), strict=True):
        yield Part(scores, n, events, w2[part], w2_events[part], n * (hit * (1.0 - scores) + miss * scores))


def _parts_of_rows(rows: Rows) -> Iterator[Part]:
    hit, miss = (1.0, 1.0) if rows.counts or rows.weights is None else _units_of_rows(rows.weights, rows.labels == 1)
    for part in chunks(len(rows.scores)):
        labels, scores = rows.labels[part], rows.scores[part]
        weights = np.ones(len(labels), dtype=np.uint8) if rows.weights is None else rows.weights[part]
        events = weights * labels
        if rows.counts:
            yield Part(scores, weights, events, weights, events, weights)
            continue
        squares = weights * weights
        yield Part(scores, weights, events, squares, squares * labels, weights * (hit * (1.0 - scores) + miss * scores))


def _units_of_rows(weights: NDArray[Any], events: NDArray[np.bool_]) -> tuple[float, float]:
    """Weighted mean weight of an event and of a non-event."""
    own = float((weights**2).sum() / weights.sum())
    hit, miss = (float((w**2).sum() / w.sum()) if len(w) else own for w in (weights[events], weights[~events]))
    return hit, miss


def moments(parts: Parts, loss: Loss) -> Moments:
    """Sums of ``loss`` in one pass."""
    sums = np.zeros(len(Moments._fields))
    for part in parts:
        single = part.w2 is part.n and part.n.dtype.kind in "iu" and bool((part.n == 1).all())
        sums += _row_sums(part.scores, part.events, loss) if single else _cell_sums(part, loss)
    return Moments(*sums.tolist())


def _row_sums(scores: Floats, events: NDArray[Any], loss: Loss) -> tuple[Any, ...]:
    """Sums for cells of one row each, which need no multiplication by counts."""
    hit, miss = loss(scores)
    gap = hit - miss
    null = scores * gap
    own, variance = np.where(events, hit, miss), null * gap
    variance -= variance * scores
    third = (variance * gap) * (1.0 - 2.0 * scores)
    null += miss
    ends = (scores == 0.0) | (scores == 1.0)
    wrong = np.count_nonzero(events[ends] != scores[ends]) if ends.any() else 0
    size, first, second = len(scores), own.sum(), np.einsum("i,i->", own, own)
    chance = null.sum(), variance.sum(), third.sum()
    square = own * own
    powers = second, np.einsum("i,i->", square, own), np.einsum("i,i->", square, square)
    return size, first, size, first, *powers, *chance, np.count_nonzero(ends), wrong


def _cell_sums(part: Part, loss: Loss) -> tuple[Any, ...]:
    scores, n, events, w2, w2_events, w2_null = part
    hit, miss = loss(scores)
    others, share, w2_others = n - events, w2_null / n, w2 - w2_events
    hits, misses, gap = events * hit, others * miss, hit - miss
    variance = w2_null * (scores * (1.0 - scores) * gap * gap)
    bottom, top = scores == 0.0, scores == 1.0
    return (
        n.sum(),
        hits.sum() + misses.sum(),
        w2.sum(),
        (w2_events * hit + w2_others * miss).sum(),
        *((w2_events * hit**power + w2_others * miss**power).sum() for power in (2, 3, 4)),
        (n * (miss + scores * gap)).sum(),
        variance.sum(),
        (variance * share * gap * (1.0 - 2.0 * scores)).sum(),
        n[bottom | top].sum(),
        events[bottom].sum() + others[top].sum(),
    )
