"""Cross-validated losses of multiclass maps, and the search for the best setting of a softmax map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.fits.ridge import NEWTON_TOLERANCE, Affine, Ridge, fit_affine
from calibrant.fits.softmax import UNCLAMPED, LogRows, fit_slope, zeros_as
from calibrant.maps import MulticlassMap, SoftmaxMap
from calibrant.numerics import CLAMP, Floats
from calibrant.selection.losses import Loss, Losses
from calibrant.selection.multiclass.folds import MulticlassFolds

Form = Literal["identity", "temperature", "vector", "matrix"]
"""The original model; one slope; a slope and an intercept for each class; all slopes between classes."""

CLAMPS = (UNCLAMPED, 2.0**-52, CLAMP, 1e-6, 1e-4, 1e-3, 1e-2)
"""Lower clamps of probabilities that are tried: some models, such as small forests, predict 0 where they should not."""

STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
"""Penalties that are tried, in rows, the strongest (nearest to a pure temperature) first."""

FIRST_STRENGTH, FIRST_STRENGTH_MANY_CLASSES, MANY_CLASSES = 30.0, 300.0, 32
"""The penalty that is tried first; the same with more classes than the last number."""

MAX_MATRIX_CLASSES = 128
"""Largest number of classes for which all slopes between classes are fitted."""

STRENGTH_GAIN_SE, CLAMP_LOSS_SE = 1.0, 0.5
"""Standard errors by which another penalty must be better than the first to replace it, and by which a higher, safer
clamp may be worse than the best."""

SLOPE_SHARE, INTERCEPT_ROWS = 0.2, 1.0
"""Penalty of a diagonal slope relative to an off-diagonal one, and penalty of an intercept, in rows."""

COMPARISON_TOLERANCE = 1e-5
"""Tolerance, in mean loss, of fits that are only compared."""

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
    setting: Setting, rows: LogRows, slope: float, start: Affine | None = None, settled: float = NEWTON_TOLERANCE
) -> tuple[SoftmaxMap, Affine | None]:
    """The fitted map and its parameters, as a start for other fits; ``slope`` is the temperature fit on these rows."""
    if setting.form in ("identity", "temperature"):
        return rows.to_map(np.array([slope if setting.form == "temperature" else 1.0]), np.zeros(0)), None
    numbers = fit_affine(rows, setting.ridge, slope, start, settled)
    return numbers.to_map(rows), numbers


Trial = Setting | Given
"""A candidate with its setting."""


def middle(classes: int) -> float:
    """The penalty that is tried first."""
    return FIRST_STRENGTH_MANY_CLASSES if classes > MANY_CLASSES else FIRST_STRENGTH


class Trials:
    """Losses of maps on every fold, fitted without it, or without it and one other fold; fits are made on demand.

    ``parts`` are the folds that can be evaluated: when walking forward, nothing comes before the first.
    """

    def __init__(self, rows: MulticlassRows, folds: MulticlassFolds, loss: Loss, zeros: float | None = None) -> None:
        self.rows, self.folds, self.loss = rows, folds, loss
        self.zeros = zeros_as(rows) if zeros is None else zeros
        """The value that replaces probabilities of exactly 0, also where these rows are a fold of more rows."""
        self.size = len(rows.classes)
        self.parts = tuple(range(1 if folds.forward else 0, len(folds))) if len(folds) > 1 else ()
        self._where = [np.flatnonzero(share) for share in folds.shares]
        self._logs = {UNCLAMPED: LogRows.of(rows, UNCLAMPED)}
        self._seen: dict[tuple[float, frozenset[int]], tuple[LogRows, float]] = {}
        self._maps: dict[tuple[Trial, frozenset[int]], MulticlassMap] = {}
        self._losses: dict[tuple[Trial, int, frozenset[int]], Floats] = {}
        self._last: dict[tuple[Form, frozenset[int]], Affine] = {}  # by left-out folds: a start must not leak them

    def clamps(self) -> tuple[float, ...]:
        """Clamps that have different effects on these rows, the lowest first."""
        least = float(self._logs[UNCLAMPED].logs.min())
        kept = [clamp for clamp, higher in zip(CLAMPS, (*CLAMPS[1:], 1.0), strict=True) if np.log(higher) > least]
        return tuple(kept) or CLAMPS[-1:]

    def losses(self, setting: Trial, part: int, also: int | None = None) -> Floats:
        """Loss of each row of a fold, by a map fitted without this fold and without the fold ``also``."""
        left_out = frozenset({part} if also is None or self.folds.forward else {part, also})
        key = setting, part, left_out
        if key not in self._losses:
            where = self._where[part]
            p = self._fitted(setting, left_out).apply(self.rows.scores[where])
            self._losses[key] = class_losses(np.asarray(p, dtype=np.float64), self.rows.labels[where], self.loss)
        return self._losses[key]

    def paired(self, settings: Sequence[Trial], part: int, also: int | None = None) -> Losses:
        """Paired losses of several maps on one fold."""
        where = self._where[part]
        lines = np.array([self.losses(setting, part, also) for setting in settings])
        clusters = None if self.folds.clusters is None else self.folds.clusters[where]
        return Losses.of_rows(lines, self.folds.shares[part][where], clusters)

    def _fitted(self, setting: Trial, left_out: frozenset[int]) -> MulticlassMap:
        key = setting, left_out
        if key not in self._maps:
            made = self._softmax(setting, left_out) if isinstance(setting, Setting) else self._given(setting, left_out)
            self._maps[key] = made
        return self._maps[key]

    def _softmax(self, setting: Setting, left_out: frozenset[int]) -> SoftmaxMap:
        rows, slope = self._without(setting.clamp, left_out)
        start = self._last.get((setting.form, left_out))
        made, numbers = fit_setting(setting, rows, slope, start, COMPARISON_TOLERANCE)
        if numbers is not None:
            self._last[setting.form, left_out] = numbers
        return made

    def _given(self, trial: Given, left_out: frozenset[int]) -> MulticlassMap:
        weights = self.folds.seen(*sorted(left_out))
        whole = np.rint(weights).astype(np.int64) if self.rows.counts else weights
        kept = np.flatnonzero(weights > 0.0)
        return trial.fit(replace(self.rows, weights=whole).take(kept))

    def _without(self, clamp: float, left_out: frozenset[int]) -> tuple[LogRows, float]:
        """The training rows without some folds, and the slope of their temperature fit."""
        if clamp not in self._logs:
            self._logs[clamp] = self._logs[UNCLAMPED].clipped(clamp)
        key = clamp, left_out
        if key not in self._seen:
            rows = self._logs[clamp].weighing(self.folds.seen(*sorted(left_out)))
            self._seen[key] = rows, fit_slope(rows).slope
        return self._seen[key]


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
        return reduce(Losses.__add__, [self.trials.paired(settings, part, self.also) for part in self.parts])

    def mean(self, setting: Trial) -> float:
        """Mean loss of one map."""
        return float(self.losses([setting]).means[0])


def best_setting(view: View, first: Setting, clamps: Sequence[float]) -> Setting:
    """The setting of lowest mean loss: first the clamp, then the penalty, by descent from the first one.

    The first penalty stays unless another is better by a standard error: with few rows the lowest loss is mostly noise.
    """
    start = safest(view, [replace(first, clamp=clamp) for clamp in clamps])
    if start.form in ("identity", "temperature"):
        return start
    found = start
    for direction in (1, -1):
        place = STRENGTHS.index(start.strength) + direction
        while 0 <= place < len(STRENGTHS):
            trial = replace(found, strength=STRENGTHS[place])
            if view.mean(trial) >= view.mean(found):
                break
            found, place = trial, place + direction
    gain, spread = view.losses([start, found]).difference(0, 1)
    return found if gain > STRENGTH_GAIN_SE * spread else start


def searched(view: View, first: Setting) -> Setting:
    """The best setting of a form; with many classes the clamp is that of the temperature map, which is faster."""
    clamps = view.trials.clamps()
    if view.trials.size > MANY_CLASSES and first.form not in ("identity", "temperature"):
        clamps = (best_setting(view, replace(first, form="temperature"), clamps).clamp,)
    return best_setting(view, first, clamps)


def safest(view: View, settings: Sequence[Setting]) -> Setting:
    """The setting with the highest clamp within half a standard error of the lowest loss; clamps are ascending."""
    losses = view.losses(settings)
    best = int(losses.means.argmin())

    def near(column: int) -> bool:
        worse, spread = losses.difference(column, best)
        return worse <= CLAMP_LOSS_SE * spread

    return settings[max(column for column in range(len(settings)) if column == best or near(column))]
