"""A queue of rows by the time at which they are due, in sorted runs."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import Floats, Ints

MOST_RUNS = 32
"""Sorted runs that are kept before they are merged."""


class DueQueue:
    """Rows and the times at which they are due.

    Examples
    --------
    >>> queue = DueQueue()
    >>> queue.push(np.array([7, 8, 9]), np.array([3.0, 1.0, 2.0]))
    >>> queue.pop(2.0).tolist(), queue.pop_oldest(1).tolist()
    ([8, 9], [7])
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Floats, Ints]] = []

    def push(self, rows: Ints, due: Floats) -> None:
        """Add rows."""
        if not len(rows):
            return
        order = np.argsort(due, kind="stable")
        self._runs.append((due[order], rows[order]))
        if len(self._runs) > MOST_RUNS:
            due, rows = (np.concatenate([run[k] for run in self._runs]) for k in (0, 1))
            order = np.argsort(due, kind="stable")
            self._runs = [(due[order], rows[order])]

    def pop(self, now: float) -> Ints:
        """Take out the rows that are due, in no particular order."""
        rows, kept = [np.empty(0, dtype=np.int64)], []
        for due, these in self._runs:
            end = int(np.searchsorted(due, now, side="right"))
            rows.append(these[:end])
            if end < len(due):
                kept.append((due[end:], these[end:]))
        self._runs = kept
        return np.concatenate(rows)

    def between(self, after: float, until: float) -> Ints:
        """The rows that are due in (after, until], in no particular order; they stay."""
        rows = [np.empty(0, dtype=np.int64)]
        for due, these in self._runs:
            start, end = np.searchsorted(due, [after, until], side="right")
            rows.append(these[start:end])
        return np.concatenate(rows)

    def pop_oldest(self, n: int) -> Ints:
        """Take out the n rows that are due first, and those that are due at the same time as the last of them."""
        first = np.concatenate([np.empty(0), *(due[:n] for due, _ in self._runs)])
        return self.pop(float(np.sort(first)[min(n, len(first)) - 1])) if n and len(first) else first.astype(np.int64)
