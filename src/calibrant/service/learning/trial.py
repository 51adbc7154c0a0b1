"""Trials: whether a version is worse than another, by the paired loss on the same rows, at every look."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from calibrant.live.monitor.boundary import mixture
from calibrant.live.snapshots import damaged
from calibrant.numerics import Floats

FAR = 2.0
"""Loss in units of what it would be if the older version were right, beyond which the world is to blame."""

LEAST_BOUND = 1e-12
"""Smallest bound of a difference, so that equal versions divide by something."""


@dataclass
class Paired:
    """Sums of the differences of squared errors of two versions on the same rows, the new one minus the old one.

    Attributes
    ----------
    rows
        Rows so far.
    excess, squares
        Sums of half the difference beyond the margin over its largest possible size so far, and of its square.
    bound
        The largest possible size so far.
    difference, apart, margin
        Sums of the difference, of the squared distance of the two predictions, and of the margin.

    Notes
    -----
    Guarantee: let both predictions of a row be fixed before its outcome is used. With probability at least 1 - alpha,
    whenever :meth:`worse` says so, at any of all looks, the expected loss of the new version on these rows exceeds that
    of the old one by more than the margin, in the weighted mean of the rows. Proof: ``docs/service/protocol.md``.

    Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), Time-uniform confidence sequences.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.1, 0.5, 2_000)
    >>> paired = Paired()
    >>> paired.add(np.minimum(1.6 * p, 1.0), p, (rng.random(2_000) < p).astype(float), tolerance=0.2)
    >>> paired.worse(0.01), round(paired.ratio, 1)
    (True, 1.0)
    """

    rows: int = 0
    excess: float = 0.0
    squares: float = 0.0
    bound: float = LEAST_BOUND
    difference: float = 0.0
    apart: float = 0.0
    margin: float = 0.0

    def add(self, new: Floats, old: Floats, outcomes: Floats, tolerance: float) -> None:
        """Add rows in their order.

        Parameters
        ----------
        new, old
            Predictions of the two versions.
        outcomes
            0 or 1.
        tolerance
            The margin of a row is the loss by a shift of this size in log-odds.
        """
        if not len(new):
            return
        difference = (new - outcomes) ** 2 - (old - outcomes) ** 2
        margin = (old * (1.0 - old) * tolerance) ** 2
        most = np.abs(new - old) * np.maximum(new + old, 2.0 - new - old) + margin
        bounds = np.maximum(np.maximum.accumulate(most), self.bound)
        halves = (difference - margin) / (2.0 * bounds)
        self.rows += len(new)
        self.excess += float(halves.sum())
        self.squares += float((halves * halves).sum())
        self.bound = float(bounds[-1])
        self.difference += float(difference.sum())
        self.apart += float(((new - old) ** 2).sum())
        self.margin += float(margin.sum())

    def worse(self, alpha: float) -> bool:
        """Whether the new version is shown to be worse by more than the margin."""
        return self.rows > 0 and self.excess >= float(mixture(self.squares, alpha))

    @property
    def ratio(self) -> float:
        """The loss beside what it would be if the old version were right: 1 if it is, -1 if the new one is right.

        A large ratio says that the truth is far beyond the old version, so that both are off.
        """
        return self.difference / self.apart if self.apart else 0.0

    def document(self) -> dict[str, Any]:
        """Figures per row."""
        n = max(self.rows, 1)
        return {"rows": self.rows, "difference": self.difference / n, "margin": self.margin / n, "ratio": self.ratio}


@dataclass
class Watch:
    """A version that is served, watched against the one before it.

    Attributes
    ----------
    version, before
        The version that is served, and the one before it.
    number
        Place among the trials of the stream that a person began, or among the others, from 1: its share of the level is
        3 / (pi number)^2.
    since
        Rows count that were predicted at this time, in seconds, or later.
    paired
        The sums.
    """

    version: int
    before: int
    number: int
    since: float
    paired: Paired

    def alpha(self, level: float) -> float:
        """The share of this trial of the level over all versions."""
        return level * 3.0 / (math.pi * self.number) ** 2

    def verdict(self, level: float) -> bool:
        """Whether the version is to be rolled back: shown to be worse, and not because both are far off."""
        return self.paired.worse(self.alpha(level)) and self.paired.ratio <= FAR

    def document(self) -> dict[str, Any]:
        """What is reported about it."""
        return {"version": self.version, "before": self.before} | self.paired.document()

    def stored(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, stored: Any) -> Watch:
        """From :meth:`stored`."""
        try:
            paired = Paired(**stored["paired"])
            found = cls(**(stored | {"paired": paired}))
        except (KeyError, TypeError):
            raise damaged() from None
        numbers = [getattr(paired, each.name) for each in fields(Paired)]
        numbers += [found.version, found.before, found.number, found.since]
        if any(type(each) not in (int, float) or not math.isfinite(each) for each in numbers):
            raise damaged()
        return found
