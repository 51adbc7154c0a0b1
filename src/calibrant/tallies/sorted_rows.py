"""Sorted rows with score and label in one integer: an exact tally whose cells are computed when needed.

On [0, 1] the bit pattern of a double stays below 2^62, so ``(bits << 1) | label`` is exact, has the order of
(score, label) and costs one integer sort. Counting distinct scores costs about twice as much again; isotonic regression
and equal-mass bins do not need it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows, ScoreType
from calibrant.numerics import Floats, Ints, chunks, fingerprint
from calibrant.tallies.cells import Cells


class SortedRows:
    """Sorted rows of unit weight with scores in [0, 1]."""

    __slots__ = ("_distinct", "_packed", "_starts", "events")

    def __init__(self, scores: Floats, labels: NDArray[np.uint8]) -> None:
        packed = np.empty(len(scores), dtype=np.int64)
        for part in chunks(len(scores)):
            np.left_shift(scores[part].view(np.int64), 1, out=packed[part])
            packed[part] |= labels[part]
        packed.sort()
        self._packed = packed
        self.events = int(np.count_nonzero(labels))
        """Number of positive rows."""
        self._starts: NDArray[np.intp] | None = None
        self._distinct: int | None = None

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def distinct(self) -> int:
        """Number of distinct scores; cached."""
        if self._distinct is None:
            ties = sum(np.count_nonzero(self._tied(part.start, part.stop)) for part in self._inner_chunks())
            self._distinct = len(self) - int(ties)
        return self._distinct

    def cells(self) -> Cells:
        """Distinct scores with their counts."""
        if self.distinct == len(self):
            return Cells(_scores(self._packed), np.ones(len(self), dtype=np.int64), self._packed & 1)
        return self._cells_from(self._distinct_starts())

    def runs(self) -> Cells:
        """Runs that every isotonic regression pools: single ones followed by single zeros, or one tied score."""
        return self._cells_from(self._run_starts())

    def pieces(self) -> Iterator[tuple[Floats, Ints, Ints]]:
        """Distinct scores with their counts, in pieces: the same as slices of :meth:`cells`."""
        if self.distinct == len(self):  # nothing to count
            for part in chunks(len(self)):
                rows = self._packed[part]
                yield _scores(rows), np.ones(len(rows), dtype=np.int64), rows & 1
            return
        starts = self._distinct_starts()
        for part in chunks(len(starts)):
            first = starts[part]
            last = len(self) if part.stop == len(starts) else int(starts[part.stop])
            labels = self._packed[first[0] : last] & 1
            yield _scores(self._packed[first]), np.diff(first, append=last), np.add.reduceat(labels, first - first[0])

    def unsorted(self, score_type: ScoreType) -> Rows:
        """The rows as arrays again, in order of the score."""
        return Rows(_scores(self._packed), (self._packed & 1).astype(np.uint8), None, True, None, None, score_type, ())

    def score_at(self, rank: NDArray[np.int64]) -> Floats:
        """Score of the row of each rank, from 1."""
        return _scores(self._packed[rank - 1])

    def partition(self, knots: Floats) -> tuple[Ints, Ints]:
        """Rows and events between inner knots, closed on the left."""
        inside = np.clip(knots, 0.0, np.nextafter(1.0, 2.0)) + 0.0
        starts = np.append(0, np.searchsorted(self._packed, inside.view(np.int64) << 1, side="left"))
        return np.diff(starts, append=len(self)), self._events_from(starts)

    def fingerprint(self) -> int:
        """The fingerprint of the rows' cells, without building them."""
        total = 0
        for part in chunks(len(self)):
            rows = self._packed[part]
            total += fingerprint(rows >> 1, np.ones_like(rows), rows & 1)
        return total & 0xFFFFFFFFFFFFFFFF

    def _cells_from(self, starts: NDArray[np.intp]) -> Cells:
        return Cells(_scores(self._packed[starts]), np.diff(starts, append=len(self)), self._events_from(starts))

    def _events_from(self, starts: NDArray[np.intp]) -> Ints:
        """Events in each segment that begins at ``starts`` (ascending, first 0) and ends where the next one begins."""
        bounds = np.append(starts, len(self))
        before = np.empty(len(bounds), dtype=np.int64)
        running, place = 0, 0
        for part in chunks(len(self)):
            upto = int(np.searchsorted(bounds, part.stop, side="left"))
            cumulative = np.cumsum(self._packed[part] & 1)
            if upto > place:
                local = bounds[place:upto] - part.start
                before[place:upto] = running + np.where(local > 0, cumulative[np.maximum(local - 1, 0)], 0)
                place = upto
            running += int(cumulative[-1])
        before[place:] = running
        return np.diff(before)

    def _distinct_starts(self) -> NDArray[np.intp]:
        """Where each distinct score begins; cached."""
        if self._starts is None:
            pieces = [np.flatnonzero(~self._tied(part.start, part.stop)) + part.start for part in self._inner_chunks()]
            self._starts = np.concatenate([np.zeros(min(1, len(self)), dtype=np.intp), *pieces])
        return self._starts

    def _run_starts(self) -> NDArray[np.intp]:
        """Where each run begins: between a single 0 and a single 1, and on either side of a tied score.

        A tied score is never joined with its neighbors here; that is left to the isotonic regression.
        """
        pieces = [np.zeros(min(1, len(self)), dtype=np.intp)]
        for part in self._inner_chunks():
            here, before = self._packed[part], self._packed[part.start - 1 : part.stop - 1]
            start = (here & ~before & 1).astype(bool)
            tied = self._tied(
                part.start - 1, part.stop + 1
            )  # of each row with its predecessor, one more on either side
            if tied.any():
                start |= tied[:-2] | tied[2:]
                start &= ~tied[1:-1]
            pieces.append(np.flatnonzero(start) + part.start)
        return np.concatenate(pieces)

    def _inner_chunks(self) -> Iterator[slice]:
        """Chunks of 1, ..., len - 1: the rows that have a predecessor."""
        return (slice(part.start + 1, part.stop + 1) for part in chunks(max(len(self) - 1, 0)))

    def _tied(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Whether row i has the score of row i - 1, for i in [start, stop); False outside the rows."""
        out = np.zeros(stop - start, dtype=bool)
        low, high = max(start, 1), min(stop, len(self))
        out[low - start : high - start] = (self._packed[low:high] ^ self._packed[low - 1 : high - 1]) <= 1
        return out


def _scores(packed: Ints) -> Floats:
    return np.asarray((packed >> 1).view(np.float64))
