"""Early warnings before outcomes come: drift of the scores, of the delays, and of the share of labeled rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from calibrant.live.monitor.evidence import CELL, CELLS
from calibrant.live.monitor.rows import FAR
from calibrant.messages import Note, note
from calibrant.numerics import Floats, Ints, logit

REFERENCE, BLOCK = 5_000, 1_000
"""First values, with which later ones are compared, and the size of a block; the latest two blocks are compared."""

CHANCE = 1e-3
"""Probability, at one look, of a warning without drift."""

DELAY_CELLS = 96

scores_drift = note(
    "scores-drift",
    "early warning: the distribution of {nouns.scores} moved by {distance:.3f} (up to {expected:.3f} is expected at "
    "one look); outcomes do not show yet whether calibration suffers",
)
delays_drift = note(
    "delays-drift",
    "early warning: the distribution of outcome delays moved by {distance:.3f} (up to {expected:.3f} is expected at "
    "one look); labels that come late are missing for now",
)
coverage_drift = note(
    "coverage-drift",
    "early warning: {recent:.1%} of recent {nouns.rows} have outcomes, {before:.1%} had them before; those with "
    "outcomes may no longer represent all {nouns.rows}",
)


@dataclass
class Drift:
    """Counts by cell of the first values, of the last full block and of the current one."""

    first: Ints
    last: Ints
    current: Ints

    @classmethod
    def new(cls, cells: int) -> Drift:
        """Without values."""
        return cls(*(np.zeros(cells, dtype=np.int64) for _ in range(3)))

    def add(self, cells: Ints) -> None:
        """Count values in order; batches and single values give the same counts."""
        while len(cells):
            filling = REFERENCE - int(self.first.sum())
            counts, room = (self.first, filling) if filling > 0 else (self.current, BLOCK - int(self.current.sum()))
            np.add.at(counts, cells[:room], 1)
            cells = cells[room:]
            if counts is self.current and int(counts.sum()) == BLOCK:
                self.last, self.current = self.current, np.zeros_like(self.current)

    def distance(self) -> tuple[float, float]:
        """Kolmogorov distance of the latest values from the first, and what is expected; NaN before it is known."""
        recent = self.last + self.current
        sizes = int(self.first.sum()), int(recent.sum())
        if sizes[0] < REFERENCE or sizes[1] < BLOCK:
            return math.nan, math.nan
        found = float(np.abs(np.cumsum(self.first) / sizes[0] - np.cumsum(recent) / sizes[1]).max())
        return found, math.sqrt(math.log(4.0 / CHANCE) / 2.0) * sum(1.0 / math.sqrt(n) for n in sizes)


@dataclass
class Early:
    """What is watched before outcomes come."""

    scores: Drift = field(default_factory=lambda: Drift.new(CELLS))
    delays: Drift = field(default_factory=lambda: Drift.new(DELAY_CELLS))
    covered: Drift = field(default_factory=lambda: Drift.new(2))

    def add_scores(self, p: Floats) -> None:
        """Count predictions."""
        self.scores.add(np.clip(np.floor((logit(p) + FAR) / CELL).astype(np.int64), 0, CELLS - 1))

    def add_delays(self, delays: Floats) -> None:
        """Count delays by doubling, four cells each, around 1."""
        steps = np.floor(4.0 * np.log2(np.maximum(delays, 2.0**-12))).astype(np.int64)
        self.delays.add(np.clip(steps + DELAY_CELLS // 2, 0, DELAY_CELLS - 1))

    def add_covered(self, labeled: Ints) -> None:
        """Count rows with (1) and without (0) an outcome by the time it was due."""
        self.covered.add(labeled)

    def notes(self) -> tuple[Note, ...]:
        """The warnings now."""
        found = []
        for kind, drift in ((scores_drift, self.scores), (delays_drift, self.delays)):
            distance, expected = drift.distance()
            if distance > expected:
                found.append(kind(distance=distance, expected=expected))
        distance, expected = self.covered.distance()
        if distance > expected:
            recent = self.covered.last + self.covered.current
            shares = recent[1] / recent.sum(), self.covered.first[1] / self.covered.first.sum()
            found.append(coverage_drift(recent=float(shares[0]), before=float(shares[1])))
        return tuple(found)
