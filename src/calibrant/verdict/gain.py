"""What recalibration would gain on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from calibrant.fits.isotonic import fit_curve
from calibrant.fits.scaling import fit_platt
from calibrant.maps import Map
from calibrant.selection.folds import Folds
from calibrant.selection.losses import Losses, outputs_of
from calibrant.tallies import Tally

MIN_MINORITY_PLATT, MIN_MINORITY_ISOTONIC = 10, 1_000
"""Minority-class rows needed to try Platt scaling, and to try isotonic regression as well."""

FITS: dict[str, Callable[[Tally], Map]] = {
    "PlattScaling": lambda tally: fit_platt(tally)[0],
    "IsotonicCalibrator": fit_curve,
}
"""The default fit of each calibrator, without its estimator class, which would import scikit-learn."""


@dataclass(frozen=True)
class Gain:
    """Cross-fitted change of the log loss.

    Attributes
    ----------
    method
        The calibrator: Platt scaling, unless isotonic regression was tried and is better by two standard errors.
    before, after
        Mean log loss of the scores, and of the scores mapped by a calibrator fitted to other folds.
    se
        Standard error of the difference.
    """

    method: str
    before: float
    after: float
    se: float

    @property
    def share(self) -> float:
        """Relative reduction of the loss by recalibration; negative when the loss increases."""
        return (self.before - self.after) / self.before if self.before > 0.0 else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The share minus and plus two standard errors."""
        half = 2.0 * self.se / self.before if self.before > 0.0 else 0.0
        return self.share - half, self.share + half

    @property
    def clear(self) -> bool:
        """Whether the gain is more than twice its standard error."""
        return self.before - self.after > 2.0 * self.se


def crossfitted_gain(folds: Folds) -> Gain | None:
    """Log loss before and after, each fold mapped by calibrators fitted to the other (with time: earlier) folds."""
    events = sum(float(fold.positives) for fold in folds.parts)
    minority = min(events, sum(float(fold.total) for fold in folds.parts) - events)
    if minority < MIN_MINORITY_PLATT or len(folds.parts) < 2:
        return None
    methods = ["PlattScaling", *(["IsotonicCalibrator"] if minority >= MIN_MINORITY_ISOTONIC else [])]
    losses: Losses | None = None
    for index, fold in enumerate(folds.parts):
        others = [other for place, other in enumerate(folds.parts) if _seen(place, index, folds.forward)]
        if not others:
            continue
        seen = reduce(Tally.__add__, others)
        if not 0 < seen.positives < seen.total:
            continue
        maps = [FITS[method](seen.for_fitting()) for method in methods]
        outputs = np.vstack([fold.scores, outputs_of(maps, fold)])
        buckets = folds.clusters[index] if folds.clusters else ()
        here = Losses.of(fold, buckets, outputs, "log")
        losses = here if losses is None else losses + here
    if losses is None:
        return None
    better, spread = losses.difference(1, 2) if len(methods) > 1 else (0.0, 0.0)
    best = 2 if better > 2.0 * spread > 0.0 else 1
    return Gain(methods[best - 1], float(losses.means[0]), float(losses.means[best]), losses.difference(0, best)[1])


def _seen(place: int, index: int, forward: bool) -> bool:
    return place < index if forward else place != index
