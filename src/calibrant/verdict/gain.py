"""What recalibration would gain, on rows that the map did not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from calibrant.calibrators.pooling import fit_curve
from calibrant.calibrators.scaling import fit_platt
from calibrant.maps import Map
from calibrant.numerics import Floats, logit
from calibrant.tallies import Tally

FEWEST, MANY = 10, 1_000
"""Rows of the rarer class from which on a two-number map, and from which on also any monotone map, is tried."""

SMALL = 0.01
"""Share of the loss below which a gain is called small, when the interval says so."""

FITS: dict[str, Callable[[Tally], Map]] = {
    "PlattScaling": lambda tally: fit_platt(tally)[0],
    "IsotonicCalibrator": fit_curve,
}
"""What each calibrator fits by default, without the estimator around it, which would load scikit-learn."""


@dataclass(frozen=True)
class Gain:
    """Cross-fitted change of the log loss.

    Attributes
    ----------
    method
        The calibrator: Platt scaling, unless isotonic regression was tried too and is better by two standard errors.
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
    def interval(self) -> tuple[float, float]:
        """The share, less and plus two standard errors."""
        half = 2.0 * self.se / self.before if self.before > 0.0 else 0.0
        return self.share - half, self.share + half

    @property
    def clear(self) -> bool:
        """Whether the gain is more than twice its standard error."""
        return self.before - self.after > 2.0 * self.se

    def sentence(self, how: str) -> str:
        """The gain in words: clear, small, or not to be told from chance."""
        low, high = (100.0 * end for end in self.interval)
        if self.clear:
            return (
                f"Recalibration with {self.method} would cut the log loss by {100 * self.share:.2g} % ({how}: "
                f"{self.before:.4f} to {self.after:.4f})."
            )
        if max(abs(low), abs(high)) <= 100.0 * SMALL:
            return f"Recalibration with {self.method} would change the log loss by less than 1 % ({how})."
        if high < 0.0:
            return (
                f"Recalibration with {self.method} would do harm: {-100 * self.share:+.2g} % log loss when {how}. "
                "Keep the scores as they are."
            )
        return (
            f"Recalibration with {self.method} changed the log loss by {-100 * self.share:+.2g} % when {how}, which "
            f"may be chance ({-high:+.2g} to {-low:+.2g} %)."
        )


def crossfitted_gain(folds: Sequence[Tally], *, forward: bool = False, inflation: float = 1.0) -> Gain | None:
    """Log loss before and after, each fold mapped by calibrators fitted to the others (or to those before it)."""
    events = sum(float(fold.positives) for fold in folds)
    rarer = min(events, sum(float(fold.total) for fold in folds) - events)
    if rarer < FEWEST or len(folds) < 2:
        return None
    methods = ["PlattScaling", *(["IsotonicCalibrator"] if rarer >= MANY else [])]
    total, size, losses, squares = 0.0, 0.0, np.zeros(1 + len(methods)), np.zeros((1 + len(methods),) * 2)
    for index, fold in enumerate(folds):
        others = [other for place, other in enumerate(folds) if (place < index if forward else place != index)]
        if not others:
            continue
        seen = reduce(Tally.__add__, others)
        if not 0 < seen.positives < seen.total:
            continue
        seen = seen.for_fitting()
        mapped = [np.asarray(FITS[method](seen).apply(fold.scores), dtype=np.float64) for method in methods]
        rows, sums, products = _losses(fold, [fold.scores, *mapped])
        total, losses, squares = total + rows, losses + sums, squares + products
        size += fold.effective_size / inflation
    if not total:
        return None
    means = losses / total

    def spread(one: int, other: int) -> float:
        """Standard error of the difference of two mean losses, from paired rows."""
        square = (squares[one, one] - 2.0 * squares[one, other] + squares[other, other]) / total
        return float(np.sqrt(max(square - (means[one] - means[other]) ** 2, 0.0) / size))

    best = 2 if len(means) > 2 and means[1] - means[2] > 2.0 * spread(1, 2) else 1
    return Gain(methods[best - 1], float(means[0]), float(means[best]), spread(0, best))


def _losses(fold: Tally, candidates: Sequence[Floats]) -> tuple[float, Floats, Floats]:
    """Rows, and each candidate's summed loss and summed products; scores of 0 and 1 at the log-odds clamp."""
    n, events = np.asarray(fold.n, dtype=np.float64), np.asarray(fold.events, dtype=np.float64)
    odds = np.array([logit(scores) for scores in candidates])
    sums, products = np.zeros(len(odds)), np.zeros((len(odds), len(odds)))
    for sign, weight in ((-1.0, events), (1.0, n - events)):
        loss = np.logaddexp(0.0, sign * odds)
        sums += np.einsum("c,jc->j", weight, loss)
        products += np.einsum("c,jc,kc->jk", weight, loss, loss)
    return float(n.sum()), sums, products
