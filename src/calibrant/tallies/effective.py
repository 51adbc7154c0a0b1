"""Effective sample size of rows with importance weights."""

from __future__ import annotations

from dataclasses import replace

from calibrant.arrays import Rows


def effective_size(total: float, events: float, w2: float, w2_events: float) -> float:
    """:attr:`Tally.effective_size` from sums of weights and of their squares, of all rows and of events.

    Examples
    --------
    >>> round(effective_size(10.0, 4.0, 10.0, 4.0), 6)  # weights of one
    10.0
    >>> round(effective_size(100 + 20 * 500, 100, 100 + 400 * 500, 100))  # 500 negatives stand for 10,000
    8501
    """
    rate = events / total
    variance = w2_events * (1.0 - rate) ** 2 + (w2 - w2_events) * rate**2
    if not 0.0 < rate < 1.0 or not variance > 0.0:
        return total**2 / w2
    return total**2 * rate * (1.0 - rate) / variance


def in_effective_rows(rows: Rows) -> Rows:
    """Importance weights rescaled to sum to the effective sample size.

    Integer weights too: a row of weight 20 is one row, and must not count as 20 when rows are split.
    """
    if rows.counts or rows.weights is None:
        return rows
    weights = rows.weights / float(rows.weights.max())  # so that squares neither overflow nor vanish
    squares, events = weights * weights, rows.labels == 1
    sums = (float(part.sum()) for part in (weights, weights[events], squares, squares[events]))
    return replace(rows, weights=weights * (effective_size(*sums) / float(weights.sum())))
