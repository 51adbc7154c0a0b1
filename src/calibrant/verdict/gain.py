"""What recalibration would gain, on rows that the map did not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator
from calibrant.calibrators.isotonic import IsotonicCalibrator
from calibrant.calibrators.parametric import PlattScaling
from calibrant.numerics import Floats, logit
from calibrant.tallies import Tally

FOLDS = 5
FEWEST, MANY = 10, 1_000
"""Rows of the rarer class from which on a two-number map, and from which on any monotone map, is tried."""


@dataclass(frozen=True)
class Gain:
    """Cross-fitted change of the log loss.

    Attributes
    ----------
    method
        Name of the calibrator that was tried: chosen by the number of events, never by the outcome.
    before, after
        Mean log loss of the scores, and of scores mapped by a calibrator fitted to other rows.
    se
        Standard error of the difference.
    """

    method: str
    before: float
    after: float
    se: float

    @property
    def share(self) -> float:
        """Share of the loss that recalibration removes; negative when it harms."""
        return (self.before - self.after) / self.before if self.before > 0.0 else 0.0

    @property
    def clear(self) -> bool:
        """Whether the gain is more than twice its standard error."""
        return self.before - self.after > 2.0 * self.se


def crossfitted_gain(folds: Sequence[Tally], *, forward: bool = False) -> Gain | None:
    """Log loss before and after, each fold mapped by a calibrator fitted to the others (or to those before it)."""
    events = sum(float(fold.positives) for fold in folds)
    rarer = min(events, sum(float(fold.total) for fold in folds) - events)
    if rarer < FEWEST or len(folds) < 2:
        return None
    calibrator: BinaryCalibrator = IsotonicCalibrator() if rarer >= MANY else PlattScaling()
    sums = np.zeros(4)
    for index, fold in enumerate(folds):
        others = [other for place, other in enumerate(folds) if (place < index if forward else place != index)]
        if not others:
            continue
        seen = others[0]
        for other in others[1:]:
            seen = seen + other
        if not 0 < seen.positives < seen.total:
            continue
        mapped = np.asarray(calibrator.fit_tally(seen).map_.apply(fold.scores), dtype=np.float64)
        sums += _losses(fold, mapped)
    if not sums[0]:
        return None
    total, before, after, squares = sums
    mean = (before - after) / total
    size = sum(fold.effective_size for fold in folds)
    return Gain(
        type(calibrator).__name__,
        before / total,
        after / total,
        float(np.sqrt(max(squares / total - mean**2, 0.0) / size)),
    )


def random_folds(tally: Tally, random_state: int) -> tuple[Tally, ...]:
    """Five random parts of a tally of counts, drawn on the counts, so that the order of rows does not matter."""
    folds, rest = [], tally
    for left in range(FOLDS, 1, -1):
        fold, rest = rest.split(int(rest.total) // left, random_state)
        folds.append(fold)
    return tuple(fold for fold in [*folds, rest] if fold.total > 0)


def _losses(fold: Tally, mapped: Floats) -> Floats:
    """Rows, loss before, loss after, and squared differences, summed; scores of 0 and 1 at the log-odds clamp."""
    n, events = np.asarray(fold.n, dtype=np.float64), np.asarray(fold.events, dtype=np.float64)
    odds_before, odds_after = logit(fold.scores), logit(mapped)
    out = np.zeros(4)
    out[0] = n.sum()
    for label, weight in ((1.0, events), (0.0, n - events)):
        sign = 1.0 - 2.0 * label
        before, after = np.logaddexp(0.0, sign * odds_before), np.logaddexp(0.0, sign * odds_after)
        out[1:] += (weight * before).sum(), (weight * after).sum(), (weight * (before - after) ** 2).sum()
    return out
