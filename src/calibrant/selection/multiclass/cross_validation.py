"""Cross-validated losses of multiclass maps, and the search for the best setting of a softmax map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.fits.multiclass.curvature import Inverse
from calibrant.fits.multiclass.penalty import Ridge
from calibrant.fits.multiclass.ridge import NEWTON_TOLERANCE, Affine, fit_affine, shared_inverse
from calibrant.fits.multiclass.softmax import UNCLAMPED, LogRows, fit_slope, row_blocks, zeros_as
from calibrant.maps import MulticlassMap, SoftmaxMap
from calibrant.maps.classes import softmax
from calibrant.numerics import CLAMP, Floats
from calibrant.selection.losses import Loss, Losses
from calibrant.selection.multiclass.folds import MulticlassFolds

Form = Literal["identity", "temperature", "vector", "matrix"]
"""The original model; one slope; a slope and an intercept for each class; all slopes between classes."""

CLAMPS = (UNCLAMPED, 2.0**-52, CLAMP, 1e-6, 1e-4, 1e-3, 1e-2)
"""Lower clamps of probabilities that are tried: some models, such as small forests, predict 0 where they should not."""

STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
"""Penalties that are tried, in rows, the strongest (nearest to a pure temperature) first."""

MANY_ROWS = 2_000
"""With this many rows, or many classes, the choice within nested cross-validation is made on one other fold, and fits
that are only compared start from one approximate Hessian."""

FIRST_STRENGTH, FIRST_STRENGTH_MANY_CLASSES, MANY_CLASSES = 30.0, 300.0, 32
"""The penalty that is tried first; the same with more classes than the last number."""

MAX_MATRIX_CLASSES = 128
"""Largest number of classes for which all slopes between classes are fitted."""

STRENGTH_GAIN_SE, CLAMP_LOSS_SE = 1.0, 0.5
"""Standard errors by which another penalty must be better than the first to replace it, and by which a higher, safer
clamp may be worse than the best."""

SLOPE_SHARE, INTERCEPT_ROWS = 0.2, 1.0
"""Penalty of a diagonal slope relative to an off-diagonal one, and penalty of an intercept, in rows."""

COMPARISON_TOLERANCE, ROUGH_TOLERANCE = 1e-7, 1e-3
"""Tolerances, in mean loss, of fits that are only compared; the second with many classes."""

TUNING_FOLDS = 1
"""With many classes, penalties and clamps are compared on this many folds."""

MIN_OUTPUT = 2.0**-52
"""Smaller probabilities are raised to this, so that a confident mistake has a finite loss."""


@dataclass(frozen=True)
class Setting:
    """Settings of a softmax map: its form, the clamp of probabilities, and its penalty in rows."""

    form: Form
    clamp: float
    strength: float = FIRST_STRENGTH
    share: float = SLOPE_SHARE
    intercepts: float = INTERCEPT_ROWS

    def distance(self, other: Setting) -> tuple[float, float]:
        """How far the penalties of another setting are, in factors of e; then its clamp."""
        penalties = abs(np.log(self.strength / other.strength)) + abs(np.log(self.intercepts / other.intercepts))
        return float(penalties), float(abs(np.log(self.clamp / other.clamp)))

    @property
    def ridge(self) -> Ridge:
        """The penalties of a form with many parameters."""
        return Ridge(self.share * self.strength, self.strength if self.form == "matrix" else None, self.intercepts)


@dataclass(frozen=True)
class Given:
    """Any other method, by name."""

    name: str
    fit: Callable[[MulticlassRows], MulticlassMap]


def fit_setting(
    setting: Setting,
    rows: LogRows,
    slope: float,
    start: Affine | None = None,
    settled: float = NEWTON_TOLERANCE,
    inverse: Inverse | None = None,
) -> tuple[SoftmaxMap, Affine | None]:
    """The fitted map and its parameters, as a start for other fits; ``slope`` is the temperature fit on these rows."""
    if setting.form in ("identity", "temperature"):
        return rows.to_map(np.array([slope if setting.form == "temperature" else 1.0]), np.zeros(0)), None
    numbers = fit_affine(rows, setting.ridge, slope, start, settled, inverse)
    return numbers.to_map(rows), numbers


Trial = Setting | Given
"""A candidate with its setting."""


def middle(classes: int) -> float:
    """The penalty that is tried first."""
    return FIRST_STRENGTH_MANY_CLASSES if classes > MANY_CLASSES else FIRST_STRENGTH


def fold_count(rows: MulticlassRows, cv: int) -> int:
    """The number of folds: with many classes an even one, because two folds at a time are left out of nested fits.

    Four folds take two such fits for each setting, five would take three. Below four, or with time, it stays.
    """
    return cv - cv % 2 if len(rows.classes) > MANY_CLASSES and rows.time is None and cv > 4 else cv


class Trials:
    """Losses of maps on every fold, fitted without it, or without it and one other fold; fits are made on demand.

    ``parts`` are the folds that can be evaluated: when walking forward, nothing comes before the first. A fit starts
    from one to the same folds or to fewer, never from one that has seen other labels. With more than 32 classes,
    fits for comparison alone are in single precision.
    """

    def __init__(self, rows: MulticlassRows, folds: MulticlassFolds, loss: Loss, zeros: float | None = None) -> None:
        self.rows, self.folds, self.loss = rows, folds, loss
        self.zeros = zeros_as(rows) if zeros is None else zeros
        """The value that replaces probabilities of exactly 0, also where these rows are a fold of more rows."""
        self.size = len(rows.classes)
        self.many = self.size > MANY_CLASSES
        self.large = self.many or len(rows) >= MANY_ROWS
        self.parts = tuple(range(1 if folds.forward else 0, len(folds))) if len(folds) > 1 else ()
        self._where = [np.flatnonzero(share) for share in folds.shares]
        order = np.lexsort(folds.shares[::-1]) if len(folds) else np.arange(len(rows))
        self._place = np.argsort(order)
        self._order = order
        self._logs = LogRows.of(rows, UNCLAMPED, order, single=self.many)
        self._slopes: dict[tuple[float, frozenset[int]], float] = {}
        self._losses: dict[tuple[Trial, int, frozenset[int]], Floats] = {}
        self._shared: dict[tuple[Form, float], Inverse | None] = {}
        self._fits: dict[frozenset[int], dict[Setting, Affine]] = {}  # by left-out folds: a start must not leak them

    def clamps(self) -> tuple[float, ...]:
        """Clamps that have different effects on these rows, the lowest first; one for logits of many classes.

        Networks with many classes do not predict 0, and with few rows for each class a clamp is hard to choose.
        """
        least = float(self._logs.logs.min())
        kept = [clamp for clamp, higher in zip(CLAMPS, (*CLAMPS[1:], 1.0), strict=True) if np.log(higher) > least]
        if self.many and self.rows.score_type == "logit":
            return (kept[0] if kept else CLAMPS[-1],)
        return tuple(kept) or CLAMPS[-1:]

    def losses(self, setting: Trial, part: int, also: int | None = None) -> Floats:
        """Loss of each row of a fold, by a map fitted without this fold and without the fold ``also``."""
        left_out = self._left_out(part, also)
        if (setting, part, left_out) not in self._losses:
            if isinstance(setting, Given):
                self._judge_given(setting, left_out)
            else:
                self._fit(setting, left_out)
        return self._losses[setting, part, left_out]

    def prepare(self, setting: Trial, parts: Sequence[int], also: int | None = None) -> None:
        """With many classes, make fits that will be needed together: they share an approximate Hessian."""
        if not self.many or isinstance(setting, Given) or setting.form not in ("vector", "matrix"):
            return
        wanted = [self._left_out(part, also) for part in parts]
        if also is not None and not self.folds.forward:
            wanted += [frozenset({part, self.partner(part)}) for part in self.parts]
            wanted += [frozenset({part}) for part in self.parts[:TUNING_FOLDS]]
        missing = [each for each in dict.fromkeys(wanted) if (setting, min(each), each) not in self._losses]
        for each in missing:
            self._fit(setting, each)

    def _inverse(self, setting: Setting, left_out: frozenset[int]) -> Inverse | None:
        """An approximate inverse Hessian, the same for all penalties of a form: they change it by a factor of a few."""
        if not self.large or setting.form not in ("vector", "matrix"):
            return None
        key = setting.form, setting.clamp
        if key not in self._shared:
            if self.many:  # to save memory, before the next one is made
                self._shared = {other: kept for other, kept in self._shared.items() if other[0] != setting.form}
            seen = self._seen(setting.clamp, left_out)
            share = float(seen.weights.sum() / self.folds.shares.sum())
            slope = self._slope(seen, left_out)
            self._shared[key] = shared_inverse(self._clipped(setting.clamp), setting.ridge, slope, share)
        return self._shared[key]

    def partner(self, part: int) -> int:
        """The fold on which, with many classes, settings are compared for the nested loss of a fold."""
        place = self.parts.index(part) ^ 1
        return self.parts[place if place < len(self.parts) else 0]

    def paired(self, settings: Sequence[Trial], part: int, also: int | None = None) -> Losses:
        """Paired losses of several maps on one fold."""
        where = self._where[part]
        lines = np.array([self.losses(setting, part, also) for setting in settings])
        clusters = None if self.folds.clusters is None else self.folds.clusters[where]
        return Losses.of_rows(lines, self.folds.shares[part][where], clusters)

    def start(self, setting: Trial) -> Affine | None:
        """Parameters of a fit to some of the folds, as a start for a fit to all rows; None where it saves nothing."""
        if not self.many or not isinstance(setting, Setting):
            return None
        single = [fits[setting] for left_out, fits in self._fits.items() if len(left_out) == 1 and setting in fits]
        return single[-1] if single else None

    def _left_out(self, part: int, also: int | None) -> frozenset[int]:
        return frozenset({part} if also is None or self.folds.forward else {part, also})

    def _fit(self, setting: Setting, left_out: frozenset[int]) -> None:
        rows = self._seen(setting.clamp, left_out)
        slope = 1.0 if setting.form == "identity" else self._slope(rows, left_out)
        start = self._start(setting, left_out)
        tolerance = ROUGH_TOLERANCE if self.many else COMPARISON_TOLERANCE
        inverse = self._inverse(setting, left_out)
        made, numbers = fit_setting(setting, rows, slope, start, tolerance, inverse)
        if numbers is not None:
            kept = numbers._replace(numbers=numbers.numbers.astype(np.float32)) if self.many else numbers
            self._fits.setdefault(left_out, {})[setting] = kept
        for part in left_out:
            self._losses[setting, part, left_out] = self._judge(made, rows, part)

    def _judge(self, made: SoftmaxMap, rows: LogRows, part: int) -> Floats:
        """Loss of each row of a fold."""
        where = self._where[part]
        found = np.empty(len(where))
        slope = made.slope.reshape(self.size, -1) if len(made.slope) > self.size else made.slope
        for some in row_blocks(np.empty((len(where), self.size), dtype=np.int8)):
            places = self._place[where[some]]
            z = rows.at(places)
            a = z @ slope.T.astype(z.dtype) if slope.ndim == 2 else z * slope.astype(z.dtype)
            p = softmax((a + made.intercept if len(made.intercept) else a).astype(np.float64))
            found[some] = class_losses(p, rows.labels[places], self.loss)
        return found

    def _start(self, setting: Setting, left_out: frozenset[int]) -> Affine | None:
        """A fit to the same folds with near penalties, or to fewer; for a matrix also one of slopes alone."""
        fewer = [] if self.folds.forward else [each for each in self._fits if each > left_out]
        for form in (setting.form, "vector") if setting.form == "matrix" and self.many else (setting.form,):
            for each in (left_out, *fewer):
                fits = {other: found for other, found in self._fits.get(each, {}).items() if other.form == form}
                if fits:
                    return fits[min(fits, key=setting.distance)]
        return None

    def _judge_given(self, trial: Given, left_out: frozenset[int]) -> None:
        fitted = self._given(trial, left_out)
        for part in left_out:
            where = self._where[part]
            p = np.asarray(fitted.apply(self.rows.scores[where]), dtype=np.float64)
            self._losses[trial, part, left_out] = class_losses(p, self.rows.labels[where], self.loss)

    def _given(self, trial: Given, left_out: frozenset[int]) -> MulticlassMap:
        weights = self.folds.seen(*sorted(left_out))
        whole = np.rint(weights).astype(np.int64) if self.rows.counts else weights
        kept = np.flatnonzero(weights > 0.0)
        return trial.fit(replace(self.rows, weights=whole).take(kept))

    def _clipped(self, clamp: float) -> LogRows:
        return self._logs if clamp == UNCLAMPED else self._logs.clipped(clamp)

    def _seen(self, clamp: float, left_out: frozenset[int]) -> LogRows:
        """The training rows without some folds."""
        return self._clipped(clamp).weighing(self.folds.seen(*sorted(left_out))[self._order])

    def _slope(self, rows: LogRows, left_out: frozenset[int]) -> float:
        """The slope of the temperature fit to these folds."""
        key = rows.clamp, left_out
        if key not in self._slopes:
            near = [slope for (_, other), slope in self._slopes.items() if other >= left_out]
            start = near[-1] if near and not self.folds.forward else None
            self._slopes[key] = fit_slope(rows, start=start).slope
        return self._slopes[key]


def class_losses(p: Floats, labels: NDArray[Any], loss: Loss) -> Floats:
    """Loss of each row of probabilities; the Brier score is summed over classes."""
    own = p[np.arange(len(p)), labels]
    if loss == "log":
        return np.asarray(-np.log(np.maximum(own, MIN_OUTPUT)))
    return np.asarray(1.0 - 2.0 * own + np.einsum("nk,nk->n", p, p))


# ----------------------------------------------------------------------------------------------------------- the search


class View(NamedTuple):
    """Some folds, each evaluated by maps fitted without it and without the fold ``also``."""

    trials: Trials
    parts: Sequence[int]
    also: int | None = None

    def losses(self, settings: Sequence[Trial]) -> Losses:
        """Losses of several maps on all of these folds."""
        for setting in settings:
            self.trials.prepare(setting, self.parts, self.also)
        return reduce(Losses.__add__, [self.trials.paired(settings, part, self.also) for part in self.parts])

    def few(self) -> View:
        """The folds on which penalties and clamps are compared: with many classes not all."""
        return self._replace(parts=self.parts[:TUNING_FOLDS]) if self.trials.many else self

    def mean(self, setting: Trial) -> float:
        """Mean loss of one map."""
        return float(self.losses([setting]).means[0])


def best_setting(view: View, first: Setting, clamps: Sequence[float]) -> Setting:
    """The setting of lowest mean loss: first the clamp, then the penalty, by descent from the first one.

    The first penalty stays unless another is better by a standard error: with few rows the lowest loss is mostly noise.
    """
    settings = [replace(first, clamp=clamp) for clamp in clamps]
    start = settings[0] if len(settings) == 1 else safest(view, settings)
    view = view.few()
    if start.form in ("identity", "temperature"):
        return start
    found = start
    for direction in (1, -1):
        if found is not start:  # the loss has one minimum along the penalties
            break
        place = STRENGTHS.index(start.strength) + direction
        while 0 <= place < len(STRENGTHS):
            trial = replace(found, strength=STRENGTHS[place])
            if view.mean(trial) >= view.mean(found):
                break
            found, place = trial, place + direction
    gain, spread = view.losses([start, found]).difference(0, 1)
    return found if gain > STRENGTH_GAIN_SE * spread else start


def searched(view: View, first: Setting, *, strengths: bool = True) -> Setting:
    """The best setting of a form; with many classes the clamp is that of the temperature map, which is faster.

    Without ``strengths`` the penalty is the first one.
    """
    clamps = view.trials.clamps()
    if view.trials.many and first.form not in ("identity", "temperature"):
        clamps = (best_setting(view, replace(first, form="temperature"), clamps).clamp,)
        if not strengths:
            return replace(first, clamp=clamps[0])
    return best_setting(view, first, clamps)


def safest(view: View, settings: Sequence[Setting]) -> Setting:
    """The setting with the highest clamp within half a standard error of the lowest loss; clamps are ascending."""
    losses = view.losses(settings)
    best = int(losses.means.argmin())

    def near(column: int) -> bool:
        worse, spread = losses.difference(column, best)
        return worse <= CLAMP_LOSS_SE * spread

    return settings[max(column for column in range(len(settings)) if column == best or near(column))]
