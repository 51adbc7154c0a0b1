"""Which keys are off: an e-process for the level of each key, and a list with few false ones (e-BH)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from calibrant.live.monitor.boundary import mixture, of_maximum
from calibrant.live.monitor.evidence import Band, band_of
from calibrant.live.monitor.rows import Labeled
from calibrant.live.monitor.run import SHIFTS, ratios_of
from calibrant.live.monitor.wealth import Wealth, begins_at, log_e_after, log_sum, running
from calibrant.messages import Shown
from calibrant.numerics import Floats, Ints


@dataclass(frozen=True)
class KeyFinding(Shown):
    """A key with its evidence.

    Attributes
    ----------
    key
        The key, as text.
    log_e
        Logarithm of its e-value.
    band
        Observed minus predicted; the interval holds at all looks for this key alone.
    """

    key: str
    log_e: float
    band: Band

    def __str__(self) -> str:
        """One line."""
        return f"{self.key}: {self.band}"


def row_ratios(rows: Labeled, reach: tuple[float, float] | None) -> Floats:
    """Log-likelihood ratios of the shifts, by row."""
    room = None if reach is None else np.full(len(rows), reach[0])
    return ratios_of(rows, np.broadcast_to(SHIFTS, (len(rows), len(SHIFTS))), room)


def row_values(rows: Labeled) -> Floats:
    """What the sums of a key add up, by row."""
    return np.column_stack([rows.sizes, rows.errors, rows.squares, rows.sizes * rows.p])


@dataclass
class KeyState:
    """E-processes of a key, one for each sub-stream, and its sums: rows, errors, squares, predictions."""

    streams: list[Wealth]
    highest: Floats
    sums: Floats

    @classmethod
    def new(cls, lag: int) -> KeyState:
        """Without rows."""
        return cls([Wealth.new(len(SHIFTS)) for _ in range(lag)], np.zeros(lag), np.zeros((lag, 4)))

    def add(self, rows: Labeled, stream: int, reach: tuple[float, float] | None) -> None:
        """Take rows in order; the entries of a tally together, as one step."""
        ratios = row_ratios(rows, reach)
        if rows.n is None:
            found = self.streams[stream].advance(ratios)
        else:
            found = self.streams[stream].advance(ratios.sum(axis=0)[None], rows.sizes.sum()[None])
        self.highest[stream] = max(self.highest[stream], float(found.max()))
        self.sums[stream] = running(self.sums[stream], row_values(rows))[-1]

    @property
    def log_e(self) -> float:
        """The log e-value now."""
        if len(self.streams) == 1:
            return self.streams[0].log_e
        return float(log_sum(of_maximum(self.highest)) - math.log(len(self.streams)))

    def band(self, alpha: float) -> Band:
        """Observed minus predicted."""
        n, error, _, p = self.sums.sum(axis=0).tolist()
        radius = float(mixture(self.sums[:, 2], alpha / (2.0 * len(self.sums))).sum())
        return band_of(int(n), p, error, radius, 1.0 - alpha)


@dataclass
class KeyWatch:
    """The keys in the order of their first row, at most ``most`` of them."""

    most: int
    lag: int
    found: dict[str, KeyState] = field(default_factory=dict)
    beyond: int = 0
    """Rows of keys that came when there were ``most`` others."""

    def code(self, names: tuple[str, ...], codes: Ints) -> Ints:
        """Places of the keys of rows among those known, new ones in the order of their rows; -1 for none or beyond."""
        order = np.unique(codes, return_index=True)
        for _, code in sorted(zip(order[1].tolist(), order[0].tolist(), strict=True)):
            if code >= 0 and names[code] not in self.found and len(self.found) < self.most:
                self.found[names[code]] = KeyState.new(self.lag)
        place = {name: k for k, name in enumerate(self.found)}
        table = np.array([*(place.get(name, -1) for name in names), -1], dtype=np.int64)
        self.beyond += int(((table[codes] < 0) & (codes >= 0)).sum())
        return np.asarray(table[codes])

    def add(self, rows: Labeled, streams: Ints, reach: tuple[float, float] | None) -> None:
        """Take rows in order."""
        states = list(self.found.values())
        order = np.lexsort((np.arange(len(rows)), streams, rows.keys))
        pairs = rows.keys[order] * self.lag + streams[order]
        ends = np.flatnonzero(np.append(np.diff(pairs) != 0, True)) + 1
        starts = np.append(0, ends[:-1])
        starts, ends = starts[pairs[starts] >= 0], ends[pairs[starts] >= 0]  # rows without a key come first
        found = [(states[pair // self.lag], int(pair) % self.lag) for pair in pairs[starts]]
        if found and len(found) > (ends - starts).max():
            add_by_turns(found, rows.part(order), starts, ends, reach)
            return
        for (state, stream), start, end in zip(found, starts.tolist(), ends.tolist(), strict=True):
            state.add(rows.part(order[start:end]), stream, reach)

    def log_e(self) -> list[float]:
        """Log e-values of the keys now, in their order."""
        if self.lag > 1:
            return [state.log_e for state in self.found.values()]
        wealth = [state.streams[0] for state in self.found.values()]
        totals, opened = np.stack([each.totals for each in wealth]), np.stack([each.opened for each in wealth])
        found: list[float] = log_e_after(totals, opened, np.array([float(each.rows) for each in wealth])).tolist()
        return found

    def off(self, share: float, alpha: float) -> list[KeyFinding]:
        """Keys listed by e-BH with this mean share of false ones, most evidence first."""
        if not self.found:
            return []
        ranked = sorted(zip(self.log_e(), self.found, strict=True), reverse=True)
        limits = math.log(self.most / share) - np.log(np.arange(1, len(ranked) + 1))
        passed = np.flatnonzero(np.array([log_e for log_e, _ in ranked]) >= limits)
        last = int(passed[-1]) + 1 if len(passed) else 0
        return [KeyFinding(name, log_e, self.found[name].band(alpha)) for log_e, name in ranked[:last]]


def add_by_turns(
    found: list[tuple[KeyState, int]], rows: Labeled, starts: Ints, ends: Ints, reach: tuple[float, float] | None
) -> None:
    """Take the first row of every key, then the second of those that have one, and so on: for many keys with few rows.

    Each pair of a key and a sub-stream has the rows from its start to its end. The bits are those of
    :meth:`KeyState.add`.
    """
    longest = np.argsort(starts - ends, kind="stable")
    found, starts, counts = [found[k] for k in longest.tolist()], starts[longest], (ends - starts)[longest]
    wealth = [state.streams[stream] for state, stream in found]
    totals, opened = (np.stack([getattr(each, name) for each in wealth]) for name in ("totals", "opened"))
    highest = np.array([state.highest[stream] for state, stream in found])
    sums = np.stack([state.sums[stream] for state, stream in found])
    seen = np.array([float(each.rows) for each in wealth])
    ratios = row_ratios(rows, reach)
    values = row_values(rows)
    for turn in range(int(counts[0])):
        k = int(np.searchsorted(-counts, -turn))  # pairs with a row left
        at, row = starts[:k] + turn, seen[:k] + (turn + 1.0)
        opened[:k] = np.logaddexp(opened[:k], begins_at(row)[:, None] - totals[:k])
        totals[:k] += ratios[at]
        sums[:k] += values[at]
        highest[:k] = np.maximum(highest[:k], log_e_after(totals[:k], opened[:k], row))
    for k, (state, stream) in enumerate(found):
        state.streams[stream] = Wealth(totals[k], opened[k], wealth[k].rows + int(counts[k]))
        state.highest[stream], state.sums[stream] = highest[k], sums[k]
