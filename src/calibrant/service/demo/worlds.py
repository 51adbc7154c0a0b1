"""Synthetic models of the demo: scores whose relation to the outcomes changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from calibrant.numerics import Floats, Ints
from calibrant.service.settings import Settings

KEYS = ("search", "mail", "partner", "social", "direct", "video")
"""Keys, with other levels each."""

HORIZON = 20.0
"""Seconds within which an outcome counts: a day in production."""


@dataclass(frozen=True)
class World:
    """A model and what really happens.

    Attributes
    ----------
    name, settings
        Its stream.
    level, drift, period
        The log-odds of an event are those of the score, plus ``level``, plus a wave of size ``drift`` with a period in
        seconds.
    break_by
        By how much the log-odds move when the world breaks.
    spread
        Spread of the levels of keys in log-odds.
    """

    name: str
    settings: Settings
    level: float
    drift: float
    period: float
    break_by: float
    spread: float

    def draw(self, rng: np.random.Generator, n: int) -> tuple[list[UUID], Floats, Ints]:
        """Ids, scores and places of the keys of new rows."""
        ids = [UUID(bytes=rng.bytes(16), version=4) for _ in range(n)]
        scores = np.clip(rng.beta(1.5, 6.0, size=n), 1e-4, 1.0 - 1e-4)
        return ids, scores, rng.integers(len(KEYS), size=n)

    def outcomes(self, rng: np.random.Generator, scores: Floats, keys: Ints, when: float, broken: bool) -> Ints:
        """Outcomes of rows at a time in seconds.

        Parameters
        ----------
        rng
            Source of randomness.
        scores, keys
            Of the rows.
        when
            Time in seconds.
        broken
            Whether the world is broken.

        Returns
        -------
        array
            0 or 1.
        """
        moved = self.level + self.drift * math.sin(2.0 * math.pi * when / self.period) + self.break_by * broken
        by_key = self.spread * (keys - (len(KEYS) - 1) / 2.0) / len(KEYS)
        odds = np.log(scores / (1.0 - scores)) + moved + by_key
        return (rng.random(len(scores)) < 1.0 / (1.0 + np.exp(-odds))).astype(np.int64)


def _settings(**changed: object) -> Settings:
    base = {
        "horizon": HORIZON, "silence": "unknown", "publish_rows": 500, "publish_seconds": 86_400.0, "cool_down": 30.0,
        "half_life": 5_000.0,
    }  # fmt: skip
    return Settings.of(base | changed)


WORLDS = (
    World("clicks", _settings(), -0.5, 0.35, 10 * 86_400.0, 0.0, 0.8),
    World("payments", _settings(), 0.25, 0.05, 3 * 86_400.0, 1.2, 0.0),
)
"""One that drifts, and one that breaks while somebody looks."""
