"""Figures of what was served: the last released rows, sums of the current day, and sums by key."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.live.records import Counts
from calibrant.live.snapshots import damaged
from calibrant.numerics import Floats, Ints

WINDOW = 10_000
"""Released rows that are kept: on them a new version is compared, and reliability is shown."""

BINS = 10
"""Bins of a table of reliability."""

MOST_KEYS = 1_000
"""Keys whose sums are kept: the first that come, while there is room."""

LEAST_OF_KEY = 20.0
"""Rows with which a key can be listed."""

NO_DAY = -1
DAY = 86_400.0
FIRST = date(1970, 1, 1).toordinal()

COLUMNS: dict[str, Any] = {
    "scores": np.float64,
    "keys": np.int64,
    "labels": np.int8,
    "served": np.float64,
    "at": np.float64,
}
"""Columns of the window."""


@dataclass(frozen=True)
class Rows:
    """Released rows in order, with the probability that was served."""

    scores: Floats
    keys: Ints
    labels: NDArray[np.int8]
    served: Floats
    at: Floats

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, which: slice | NDArray[np.bool_]) -> Rows:
        """Some of them."""
        return Rows(self.scores[which], self.keys[which], self.labels[which], self.served[which], self.at[which])

    @classmethod
    def none(cls) -> Rows:
        """No rows."""
        empty = np.zeros(0)
        return cls(empty, empty.astype(np.int64), empty.astype(np.int8), empty, empty)


@dataclass
class Figures:
    """Sums of released rows. A day is that of the prediction, in the time zone of the stream; days never go back."""

    window: Rows = field(default_factory=Rows.none)
    day: int = NO_DAY
    edges: Floats = field(default_factory=lambda: np.arange(1, BINS) / BINS)
    cells: Floats = field(default_factory=lambda: np.zeros((BINS, 4)))
    """Rows, predictions, outcomes and squared errors of the day, by bin."""
    numbers: list[int] = field(default_factory=list)
    sums: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    """Rows, predictions and outcomes by key, halved each day."""

    def meet(self, keys: Ints) -> list[tuple[int, int]]:
        """Take note of keys of predictions; those that are new, with the place of their first row."""
        if len(self.numbers) >= MOST_KEYS or not keys.any():
            return []
        found, first = np.unique(keys, return_index=True)
        known = set(self.numbers)
        new = sorted((place, number) for number, place in zip(found.tolist(), first.tolist(), strict=True)
                     if number and number not in known)[: MOST_KEYS - len(self.numbers)]  # fmt: skip
        self.numbers += [number for _, number in new]
        self.sums = np.concatenate([self.sums, np.zeros((len(new), 3))])
        return [(number, place) for place, number in new]

    def add(self, rows: Rows, day: int) -> None:
        """Add released rows of one day, which is not before the last one."""
        if day != self.day:
            self._begin(day)
        self._count(rows)

    def keep(self, rows: int) -> None:
        """Keep only this many of the last rows in the window, at least one."""
        self.window = self.window.part(slice(-max(rows, 1), None))

    def _begin(self, day: int) -> None:
        self.day, self.cells = day, np.zeros((BINS, 4))
        if len(self.window):
            self.edges = np.quantile(self.window.served, np.arange(1, BINS) / BINS, method="lower")
        self.sums *= 0.5
        kept = (self.sums[:, 0] >= 0.5) | (self.sums[:, 0] == 0.0)
        self.numbers = [number for number, keep in zip(self.numbers, kept.tolist(), strict=True) if keep]
        self.sums = self.sums[kept]

    def _count(self, rows: Rows) -> None:
        y = rows.labels.astype(np.float64)
        values = np.column_stack([np.ones(len(rows)), rows.served, y, (rows.served - y) ** 2])
        np.add.at(self.cells, np.searchsorted(self.edges, rows.served, side="right"), values)
        if self.numbers:
            known = np.array(self.numbers, dtype=np.int64)
            order = np.argsort(known)
            place = order[np.minimum(np.searchsorted(known, rows.keys, sorter=order), len(known) - 1)]
            own = known[place] == rows.keys
            np.add.at(self.sums, place[own], values[own, :3])
        both = {name: np.concatenate([getattr(self.window, name), getattr(rows, name)])[-WINDOW:] for name in COLUMNS}
        self.window = Rows(**both)

    # ---------------------------------------------------------------------------------------------------- documents

    def of_day(self, low: float, high: float) -> dict[str, Any]:
        """The figures of the current day, with the ends of the monitor's band."""
        n, predicted, observed, squares = self.cells.sum(axis=0).tolist()
        ends = [0.0, *self.edges.tolist(), 1.0]
        return {
            "n": int(n),
            "predicted": predicted / n if n else None,
            "observed": observed / n if n else None,
            "brier": squares / n if n else None,
            "reliability": [
                _bin(ends[place], ends[place + 1], *cell[:3])
                for place, cell in enumerate(self.cells.tolist())
                if cell[0]
            ],
            "monitor_low": low,
            "monitor_high": high,
        }

    def reliability(self) -> list[dict[str, Any]]:
        """The last released rows in bins of equal size; rows with one probability are in one bin."""
        p, y = self.window.served, self.window.labels
        if not len(p):
            return []
        edges = np.unique(np.quantile(p, np.arange(1, BINS) / BINS, method="lower"))
        of = np.searchsorted(edges, p, side="right")
        ends = [0.0, *edges.tolist(), 1.0]
        n, predicted, observed = (np.bincount(of, weights, len(edges) + 1).tolist() for weights in (None, p, y))
        return [_bin(ends[k], ends[k + 1], n[k], predicted[k], observed[k]) for k in range(len(n)) if n[k]]

    def worst_keys(self) -> list[dict[str, Any]]:
        """Keys by how far observed is from predicted, in standard errors; no level is claimed for this list."""
        n, predicted, observed = self.sums.T
        enough = np.flatnonzero(n >= LEAST_OF_KEY)
        mean = predicted[enough] / n[enough]
        spread = np.sqrt(np.maximum(n[enough] * mean * (1.0 - mean), 1e-12))
        far = np.abs(observed[enough] - predicted[enough]) / spread
        chosen = enough[np.argsort(-far, kind="stable")][:10].tolist()
        return [
            {
                "key": str(self.numbers[k]),
                "n": round(float(n[k])),
                "predicted": float(predicted[k] / n[k]),
                "observed": float(observed[k] / n[k]),
            }
            for k in chosen
        ]

    # -------------------------------------------------------------------------------------------------------- state

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays."""
        found = {f"window_{name}": getattr(self.window, name) for name in COLUMNS}
        return found | {
            "day": np.array([self.day]),
            "edges": self.edges,
            "cells": self.cells,
            "key_numbers": np.array(self.numbers, dtype=np.int64),
            "key_sums": self.sums,
        }

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> Figures:
        """Figures from arrays."""
        columns = [arrays[f"window_{name}"] for name in COLUMNS]
        n, keys = len(columns[0]), arrays["key_numbers"].tolist()
        fits = all(each.shape == (n,) for each in columns) and n <= WINDOW and arrays["day"].shape == (1,)
        fits = fits and arrays["edges"].shape == (BINS - 1,) and arrays["cells"].shape == (BINS, 4)
        if not fits or arrays["key_sums"].shape != (len(keys), 3) or len(set(keys)) != len(keys):
            raise damaged()
        day = int(arrays["day"][0])
        return cls(Rows(*columns), day, arrays["edges"], arrays["cells"].copy(), keys, arrays["key_sums"].copy())


ARRAYS: dict[str, Any] = {
    **{f"window_{name}": kind for name, kind in COLUMNS.items()}, "day": np.int64,
    "edges": np.float64, "cells": np.float64, "key_numbers": np.int64, "key_sums": np.float64,
}  # fmt: skip
"""Names and types of the arrays in states."""


@dataclass
class Coverage:
    """How many rows that were due within the last horizon had an outcome: sums at about 16 times of it."""

    sums: list[list[int]] = field(default_factory=list)
    """Time, released rows, and those with an outcome."""

    def add(self, now: int, counts: Counts, horizon: float) -> None:
        """Take the counts of the ledger at a time in seconds, and forget those from before the horizon."""
        if self.sums and now < self.sums[-1][0] + horizon / 16:
            return
        self.sums.append([now, released(counts), counts.with_outcome])
        while len(self.sums) > 1 and self.sums[1][0] <= now - horizon:
            del self.sums[0]

    def share(self, counts: Counts) -> float | None:
        """The share with an outcome since the oldest time; None if no row was due."""
        _, rows, outcomes = self.sums[0] if self.sums else (0, 0, 0)
        n = released(counts) - rows
        return (counts.with_outcome - outcomes) / n if n else None


def released(counts: Counts) -> int:
    """Rows whose horizon has passed."""
    return counts.with_outcome + counts.silent_negative + counts.silent_unknown


def _bin(low: float, high: float, n: float, predicted: float, observed: float) -> dict[str, Any]:
    return {"low": low, "high": high, "n": int(n), "predicted": predicted / n, "observed": observed / n}


def moment(seconds: float) -> str:
    """A time in RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def days_of(at: Floats, zone: tzinfo) -> Ints:
    """Calendar days of times in a time zone, as numbers since 1970.

    Parameters
    ----------
    at
        Seconds since 1970 in UTC.
    zone
        The time zone.

    Returns
    -------
    array
        One number per time.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> days_of(np.array([0.0, 82_800.0]), UTC).tolist()
    [0, 0]
    >>> days_of(np.array([0.0, 82_800.0]), ZoneInfo("Europe/Berlin")).tolist()
    [0, 1]
    """
    if zone is UTC:
        return np.floor(at / DAY).astype(np.int64)
    seconds, place = np.unique(np.floor(at), return_inverse=True)  # clocks change at whole seconds
    found = [datetime.fromtimestamp(each, zone).toordinal() - FIRST for each in seconds.tolist()]
    return np.array(found, dtype=np.int64)[place]


def date_of(day: int) -> str:
    """The date of a day since 1970."""
    return moment(day * DAY)[:10]
