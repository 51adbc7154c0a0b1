"""What recalibration would gain on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.fits.isotonic import fit_curve
from calibrant.fits.multiclass.softmax import LogRows, fit_slope
from calibrant.fits.scaling import fit_beta, fit_platt
from calibrant.maps import Map
from calibrant.metrics.binary.bins import Bins
from calibrant.notions import Confidence
from calibrant.numerics import Ends, Floats
from calibrant.selection.folds import FOLDS, Folds, periods_of, shuffled
from calibrant.selection.losses import Losses, outputs_of, row_losses, shared_ends
from calibrant.tallies import Tally, in_effective_rows

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
    ece_before, ece_after
        Of several classes: ECE of the confidences before and after, in 15 bins of equal width.
    ends
        Where the scores and all maps are clipped, if the log loss of one of them is infinite otherwise.
    """

    method: str
    before: float
    after: float
    se: float
    ece_before: float | None = None
    ece_after: float | None = None
    ends: Ends | None = None

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
    judged: list[tuple[Tally, Sequence[Tally], Floats]] = []
    for index, fold in enumerate(folds.parts):
        others = [other for place, other in enumerate(folds.parts) if _seen(place, index, folds.forward)]
        if not others:
            continue
        seen = reduce(Tally.__add__, others)
        if not 0 < seen.positives < seen.total:
            continue
        maps = [FITS[method](seen.for_fitting()) for method in methods]
        outputs = np.vstack([fold.scores, outputs_of(maps, fold)])
        judged.append((fold, folds.clusters[index] if folds.clusters else (), outputs))
    if not judged:
        return None
    ends = shared_ends((outputs, fold.events, fold.n - fold.events) for fold, _, outputs in judged)
    losses = Losses.total_of([Losses.of(*each, "log", ends=ends) for each in judged])
    better, spread = losses.difference(1, 2) if len(methods) > 1 else (0.0, 0.0)
    best = 2 if better > 2.0 * spread > 0.0 else 1
    before, after = losses.means[[0, best]].tolist()
    return Gain(methods[best - 1], before, after, losses.difference(0, best)[1], ends=ends)


def _seen(place: int, index: int, forward: bool) -> bool:
    return place < index if forward else place != index


# ------------------------------------------------------------------------------------------------------ several classes

TEMPERATURE = "TemperatureScaling()"

CONFIDENCE_FITS: dict[str, Callable[[Tally], Map]] = {
    'Reduction("confidence", BetaScaling())': lambda tally: fit_beta(tally)[0],
    'Reduction("confidence", IsotonicCalibrator())': fit_curve,
}
"""Maps of the confidence alone, by the call that fits them; the second needs as many rows as for one score."""


def confidence_gains(classes: MulticlassRows, confidence: Rows, random_state: int = 0) -> tuple[Gain, ...]:
    """Cross-fitted change of the log loss of the confidences by each map; the map to use comes first.

    A temperature gives probabilities of all classes, the others only that of the predicted class. So the temperature
    comes first unless another map is better by two standard errors. ``confidence`` has the probability of the predicted
    class of each row of ``classes``, and whether that class is right. With time, every fold is predicted from earlier
    ones.
    """
    wrong = len(confidence.labels) - int(confidence.labels.sum())
    minority = min(wrong, len(confidence.labels) - wrong)
    if minority < MIN_MINORITY_PLATT:
        return ()
    rows = in_effective_rows(confidence)
    fold, forward = _folds(rows, random_state)
    methods = list(CONFIDENCE_FITS)[: 2 if minority >= MIN_MINORITY_ISOTONIC else 1]
    out = np.full((2 + len(methods), len(fold)), np.nan)
    out[0] = rows.scores
    for index in range(int(fold.max()) + 1):
        there, others = fold == index, fold < index if forward else fold != index
        if not there.any() or not 0 < rows.labels[others].sum() < others.sum():
            continue
        slope = fit_slope(LogRows.for_slope(classes.take(np.flatnonzero(others)))).slope
        out[1, there] = _cooled(classes.take(np.flatnonzero(there)), slope)
        tally = Tally.from_rows(rows.take(others)).for_fitting()
        for place, method in enumerate(methods, 2):
            out[place, there] = CONFIDENCE_FITS[method](tally).apply(rows.scores[there])
    kept = np.isfinite(out).all(axis=0)
    if not kept.any():
        return ()
    some, out = rows.take(kept), out[:, kept]
    weights = np.ones(len(some.scores)) if some.weights is None else some.weights.astype(np.float64)
    ends = shared_ends([(out, some.labels, 1 - some.labels)])
    losses = Losses.of_rows(np.where(some.labels == 1, *row_losses(out, "log", ends)), weights, some.groups)
    errors = [_ece(replace(some, scores=np.clip(each, 0.0, 1.0))) for each in out]
    made = [
        Gain(
            name,
            float(losses.means[0]),
            float(losses.means[place]),
            losses.difference(0, place)[1],
            errors[0],
            error,
            ends,
        )
        for place, (name, error) in enumerate(zip([TEMPERATURE, *methods], errors[1:], strict=True), 1)
    ]
    better = [losses.difference(1, place) for place in range(2, len(out))]
    best = min(range(len(better)), key=lambda place: made[place + 1].after)
    first = best + 1 if better[best][0] > 2.0 * better[best][1] else 0
    return (made[first], *(each for place, each in enumerate(made) if place != first))


def _folds(rows: Rows, random_state: int) -> tuple[NDArray[np.int64], bool]:
    """A fold number for each row, and whether folds are in order of time."""
    if rows.time is not None:
        starts = periods_of(rows.time, rows.weights, FOLDS + 1)[0]
        return np.unique(starts, return_inverse=True)[1].astype(np.int64), True
    if rows.groups is not None:
        return np.unique(rows.groups, return_inverse=True)[1].astype(np.int64) % FOLDS, False
    return shuffled(rows, FOLDS, random_state), False


def _cooled(rows: MulticlassRows, slope: float) -> Floats:
    """The confidence of each row after temperature scaling, which does not change the predicted class."""
    logs = LogRows.of(rows)
    mapped = logs.to_map(np.array([slope]), np.zeros(0)).apply(rows.scores)
    return np.asarray(next(Confidence().problems(mapped)).scores, dtype=np.float64)


def _ece(rows: Rows) -> float:
    bins = Bins.of(Tally.from_rows(rows), strategy="width", n_bins=15)
    return float(np.abs(bins.events - bins.score_sum).sum() / bins.n.sum())
