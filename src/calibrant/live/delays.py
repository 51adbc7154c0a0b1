"""How long outcomes take: counts of delays over the last horizons, pooled and by key, and whether they drift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.live.inputs import rows_of
from calibrant.live.snapshots import damaged
from calibrant.messages import Shown, plural
from calibrant.numerics import Floats, Ints

FINEST = 2048
"""The shortest delay that is distinguished from 0 is this part of the horizon."""

CELLS = 72
"""Cells of a delay: 8 for each doubling, and 8 of equal width below 1/256 of the horizon."""

RECENT, MEMORY = 2, 6
"""Delays are kept for this many periods of one horizon; the first of them are compared with the others for drift."""

MIN_OF_KEY = 200
"""Outcomes of a key with which it has a delay distribution of its own: its standard error is then at most 0.036."""

CHANCE = 1e-3
"""Probability, at one look, that delays which do not drift seem further apart than ``DelayDrift.expected``."""

LARGEST = 2.0**53
"""Periods are integers up to this number."""


def cells_of(share: Floats) -> NDArray[np.uint8]:
    """The cell of a delay, given as a share of the horizon; integer arithmetic, so the same everywhere.

    Examples
    --------
    >>> cells_of(np.array([0.0, 0.0005, 0.01, 0.5, 0.51, 0.6, 1.0])).tolist()
    [0, 1, 18, 64, 64, 65, 71]
    """
    steps = np.floor(np.clip(share, 0.0, 1.0) * FINEST).astype(np.int64)
    shift = np.maximum(np.frexp(np.maximum(steps, 1).astype(np.float64))[1] - 4, 0)
    return np.asarray(np.minimum(8 * shift + (steps >> shift), CELLS - 1), dtype=np.uint8)


def periods_of(times: Floats, horizon: float) -> Floats:
    """Number of the period of one horizon in which each time lies."""
    with np.errstate(over="ignore"):
        return np.clip(np.floor(times / horizon), -LARGEST, LARGEST)


@dataclass(frozen=True)
class DelayDrift(Shown):
    """How far the delays of the latest outcomes are from those before: an early warning, not an alarm.

    Attributes
    ----------
    distance
        Largest difference of the two distribution functions (Kolmogorov distance); NaN without outcomes on both sides.
    per_horizon
        The same divided by the time between the two groups, in horizons.
    expected
        Distance that delays without drift exceed with probability at most 0.001 at one look.
    recent, earlier
        Outcomes in the two groups: released in this or the last period of one horizon, and in the four before.
    """

    distance: float
    per_horizon: float
    expected: float
    recent: int
    earlier: int

    @property
    def warns(self) -> bool:
        """Whether the distance is larger than delays without drift give."""
        return self.distance > self.expected

    def __str__(self) -> str:
        """One sentence."""
        seen = f"{plural(self.recent, 'recent outcome')}, {self.earlier:,} before"
        if math.isnan(self.distance):
            return f"Delays: drift is not known yet ({seen})."
        verdict = "they drift" if self.warns else "within what is expected without drift"
        return f"Delays moved by {self.distance:.3f} (up to {self.expected:.3f} expected): {verdict} ({seen})."


class Delays:
    """Counts of delays by cell, for each of the last periods; pooled, and for at most ``most_keys`` keys.

    A key is counted from its first released outcome on, while there is room, and forgotten when its last one leaves the
    memory. Counts are integers, so that those of shards add up to those of the whole.
    """

    def __init__(self, labels: int, most_keys: int) -> None:
        self.most_keys, self.period = most_keys, -LARGEST
        self.pooled = np.zeros((MEMORY, labels, CELLS), dtype=np.int64)
        self.by_key: dict[tuple[int, ...], NDArray[np.int64]] = {}

    def move(self, period: float) -> None:
        """Time goes on to a later period: older ones leave the memory."""
        steps = int(min(period - self.period, MEMORY))
        self.period = period
        if steps <= 0:
            return
        for counts in (self.pooled, *self.by_key.values()):
            counts[steps:] = counts[:-steps].copy() if steps < MEMORY else 0
            counts[:steps] = 0
        self.by_key = {key: counts for key, counts in self.by_key.items() if counts.any()}

    def count(self, periods: Floats, keys: Ints, labels: Ints, cells: NDArray[np.uint8]) -> None:
        """Count released outcomes, in the order of their release."""
        ago = self.period - periods
        kept = ago < MEMORY
        if not kept.any():
            return
        place = np.column_stack([ago[kept].astype(np.int64), labels[kept], cells[kept]])
        np.add.at(self.pooled, tuple(place.T), 1)
        if not self.most_keys:
            return
        which, first, of = np.unique(rows_of(keys[kept]), axis=0, return_index=True, return_inverse=True)
        of = of.reshape(-1)
        order = np.argsort(of, kind="stable")
        ends = np.cumsum(np.bincount(of, minlength=len(which)))
        for k in np.argsort(first).tolist():
            key = tuple(which[k].tolist())
            if key not in self.by_key and len(self.by_key) >= self.most_keys:
                continue
            mine = place[order[ends[k - 1] if k else 0 : ends[k]]]
            np.add.at(self.by_key.setdefault(key, np.zeros_like(self.pooled)), tuple(mine.T), 1)

    def outcomes(self) -> Ints:
        """Outcomes in memory, by label."""
        return np.asarray(self.pooled.sum(axis=(0, 2)))

    def quantile(self, share: float) -> float:
        """The delay within which this share of the outcomes in memory came, as a share of the horizon; NaN for none."""
        counts = np.cumsum(self.pooled.sum(axis=(0, 1)))
        if not counts[-1]:
            return math.nan
        cell = int(np.searchsorted(counts, share * counts[-1]))
        shift, first = (cell // 8 - 1, cell % 8 + 8) if cell >= 8 else (0, cell)
        return min((first + 1) << shift, FINEST) / FINEST

    def arrived(self, keys: Ints, cells: NDArray[np.uint8]) -> tuple[Floats, NDArray[np.bool_]]:
        """Share of the outcomes that come before the cell of each row's age, by label, and whether by its own key."""
        found = _share(self.pooled)[:, cells].T
        own = np.zeros(len(cells), dtype=bool)
        which, of = np.unique(rows_of(keys), axis=0, return_inverse=True)
        of = of.reshape(-1)
        for k, key in enumerate(map(tuple, which.tolist())):
            counts = self.by_key.get(key)
            if counts is None or counts.sum(axis=(0, 2)).min() < MIN_OF_KEY:
                continue
            mine = of == k
            found[mine], own[mine] = _share(counts)[:, cells[mine]].T, True
        return found, own

    def drift(self) -> DelayDrift:
        """The latest delays against those before."""
        groups = (self.pooled[:RECENT], self.pooled[RECENT:])
        sizes = [int(each.sum()) for each in groups]
        if not all(sizes):
            return DelayDrift(math.nan, math.nan, math.nan, *sizes)
        totals = [each.sum(axis=(0, 1)) for each in groups]
        recent, earlier = (np.cumsum(each) / each.sum() for each in totals)
        distance = float(np.abs(recent - earlier).max())
        ages = [float((np.arange(MEMORY) * self.pooled.sum(axis=(1, 2)))[part].sum()) for part in _PARTS]
        apart = ages[1] / sizes[1] - ages[0] / sizes[0]
        expected = math.sqrt(math.log(4.0 / CHANCE) / 2.0) * sum(1.0 / math.sqrt(n) for n in sizes)
        return DelayDrift(distance, distance / apart, expected, *sizes)

    # ---------------------------------------------------------------------------------------------------------- state

    def keys(self, key_columns: int) -> Ints:
        """The keys that are counted apart, in order."""
        return np.array(sorted(self.by_key), dtype=np.int64).reshape(len(self.by_key), key_columns)

    def rename(self, codes: Ints) -> None:
        """Give each key of one column its new code."""
        self.by_key = {(int(codes[key[0]]),): counts for key, counts in self.by_key.items()}

    def arrays(self, key_columns: int) -> dict[str, NDArray[np.int64]]:
        """The counts as arrays, keys in order."""
        keys = sorted(self.by_key)
        counts = [self.by_key[key] for key in keys]
        return {
            "delays": self.pooled,
            "delay_keys": self.keys(key_columns),
            "key_delays": np.array(counts, dtype=np.int64).reshape(len(keys), *self.pooled.shape),
        }

    def fill(self, period: Any, arrays: dict[str, NDArray[np.int64]], key_columns: int) -> None:
        """Take the counts of a state."""
        pooled, keys, counts = (arrays[name] for name in ARRAYS)
        shapes = pooled.shape == self.pooled.shape and counts.shape == (len(counts), *pooled.shape)
        if not shapes or keys.shape != (len(counts), key_columns) or type(period) is not float:
            raise damaged()
        within = bool((counts.sum(axis=0) <= pooled).all()) and len(counts) <= self.most_keys
        some = bool(pooled.min() >= 0 and (counts >= 0).all() and counts.any(axis=(1, 2, 3)).all())
        if not within or not some or abs(period) > LARGEST or period != math.floor(period):
            raise damaged()
        self.period, self.pooled = period, pooled.copy()
        self.by_key = {tuple(key): each.copy() for key, each in zip(keys.tolist(), counts, strict=True)}
        if list(self.by_key) != sorted(set(map(tuple, keys.tolist()))):
            raise damaged()


ARRAYS: dict[str, Any] = {"delays": np.int64, "delay_keys": np.int64, "key_delays": np.int64}
"""Names and types of the arrays in states."""

_PARTS = (slice(0, RECENT), slice(RECENT, MEMORY))


def _share(counts: NDArray[np.int64]) -> Floats:
    """Share of the outcomes before each cell, by label; NaN for a label without outcomes."""
    total = counts.sum(axis=0)
    before = np.cumsum(total, axis=1) - total
    with np.errstate(invalid="ignore"):
        return np.asarray(before / total.sum(axis=1, keepdims=True))
