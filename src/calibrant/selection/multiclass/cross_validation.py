"""Maps of class scores on rows that they have not seen, and the search for the best setting of a softmax map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.multiclass.rows import ClassRows
from calibrant.fits.ridge import SETTLED, Affine, Ridge, fit_affine
from calibrant.fits.softmax import UNHELD, LogRows, fit_slope, zeros_as
from calibrant.maps import ClassMap, SoftmaxMap
from calibrant.numerics import CLAMP, Floats
from calibrant.selection.losses import Loss, Losses
from calibrant.selection.multiclass.folds import ClassFolds

Form = Literal["identity", "temperature", "vector", "matrix"]
"""The model as it is, one slope, a slope and an intercept for each class, all slopes between classes."""

CLAMPS = (UNHELD, 2.0**-52, CLAMP, 1e-6, 1e-4, 1e-3, 1e-2)
"""Where probabilities may be held from below: models of few trees or bold assumptions say 0 where they should not."""

STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
"""Penalties that are tried, in rows, the nearest to a pure temperature first."""

MIDDLE, MIDDLE_OF_MANY, MANY = 30.0, 300.0, 32
"""The first of them to be tried, and the same for more classes than the last number."""

MOST_FULL = 128
"""Up to so many classes each class may draw on the scores of all."""

SURELY, HARDLY = 1.0, 0.5
"""Standard errors by which a penalty must be better than the first to be taken instead, and by which a higher clamp may
be worse than the best and be taken for being safer."""

SLOPE_SHARE, INTERCEPT_ROWS = 0.2, 1.0
"""What a slope's deviation costs beside an off-diagonal number, and what an intercept costs."""

ROUGH = 1e-5
"""How near to the least mean loss a map that is only compared must be before its last step."""

LEAST_OUTPUT = 2.0**-52
"""Probabilities below this count as this, so that one certain mistake costs something finite."""


@dataclass(frozen=True)
class Setting:
    """A softmax map before it is fitted: its form, the clamp of probabilities, and its penalty in rows."""

    form: Form
    clamp: float
    strength: float = MIDDLE
    share: float = SLOPE_SHARE
    intercepts: float = INTERCEPT_ROWS

    @property
    def ridge(self) -> Ridge:
        """The penalties of a form with many numbers."""
        return Ridge(self.share * self.strength, self.strength if self.form == "matrix" else None, self.intercepts)


@dataclass(frozen=True)
class Given:
    """Any other way to a map, by name."""

    name: str
    fit: Callable[[ClassRows], ClassMap]


def fit_setting(
    setting: Setting, rows: LogRows, slope: float, start: Affine | None = None, settled: float = SETTLED
) -> tuple[SoftmaxMap, Affine | None]:
    """The fitted map, with ``slope`` that of the temperature on the same rows; and its numbers, to start others."""
    if setting.form in ("identity", "temperature"):
        return rows.to_map(np.array([slope if setting.form == "temperature" else 1.0]), np.zeros(0)), None
    numbers = fit_affine(rows, setting.ridge, slope, start, settled)
    return numbers.to_map(rows), numbers


Trial = Setting | Given
"""What can be compared."""


def middle(classes: int) -> float:
    """The penalty that is tried first."""
    return MIDDLE_OF_MANY if classes > MANY else MIDDLE


class Trials:
    """Losses of maps on every part, from rows without it, and without one other part; each fitted when asked for.

    ``parts`` are those that something can be fitted for: walking forward, the first has nothing before it.
    """

    def __init__(self, rows: ClassRows, folds: ClassFolds, loss: Loss, zeros: float | None = None) -> None:
        self.rows, self.folds, self.loss = rows, folds, loss
        self.zeros = zeros_as(rows) if zeros is None else zeros
        """What the model's probabilities of exactly 0 are read as, where these are some of its rows too."""
        self.size = len(rows.classes)
        self.parts = tuple(range(1 if folds.forward else 0, len(folds))) if len(folds) > 1 else ()
        self._where = [np.flatnonzero(share) for share in folds.shares]
        self._logs = {UNHELD: LogRows.of(rows, UNHELD)}
        self._seen: dict[tuple[float, frozenset[int]], tuple[LogRows, float]] = {}
        self._maps: dict[tuple[Trial, frozenset[int]], ClassMap] = {}
        self._losses: dict[tuple[Trial, int, frozenset[int]], Floats] = {}
        self._last: dict[tuple[Form, frozenset[int]], Affine] = {}  # one that saw other rows would give them away

    def clamps(self) -> tuple[float, ...]:
        """Clamps that differ from each other on these rows, the lowest first."""
        least = float(self._logs[UNHELD].logs.min())
        kept = [clamp for clamp, higher in zip(CLAMPS, (*CLAMPS[1:], 1.0), strict=True) if np.log(higher) > least]
        return tuple(kept) or CLAMPS[-1:]

    def losses(self, setting: Trial, part: int, also: int | None = None) -> Floats:
        """Loss of each row of a part, by a map that saw neither the part nor the other one."""
        left_out = frozenset({part} if also is None or self.folds.forward else {part, also})
        key = setting, part, left_out
        if key not in self._losses:
            where = self._where[part]
            p = self._fitted(setting, left_out).apply(self.rows.scores[where])
            self._losses[key] = class_losses(np.asarray(p, dtype=np.float64), self.rows.labels[where], self.loss)
        return self._losses[key]

    def paired(self, settings: Sequence[Trial], part: int, also: int | None = None) -> Losses:
        """Losses of several maps on one part, with what standard errors of differences need."""
        where = self._where[part]
        lines = np.array([self.losses(setting, part, also) for setting in settings])
        clusters = None if self.folds.clusters is None else self.folds.clusters[where]
        return Losses.of_rows(lines, self.folds.shares[part][where], clusters)

    def _fitted(self, setting: Trial, left_out: frozenset[int]) -> ClassMap:
        key = setting, left_out
        if key not in self._maps:
            made = self._softmax(setting, left_out) if isinstance(setting, Setting) else self._given(setting, left_out)
            self._maps[key] = made
        return self._maps[key]

    def _softmax(self, setting: Setting, left_out: frozenset[int]) -> SoftmaxMap:
        rows, slope = self._without(setting.clamp, left_out)
        start = self._last.get((setting.form, left_out))
        made, numbers = fit_setting(setting, rows, slope, start, ROUGH)
        if numbers is not None:
            self._last[setting.form, left_out] = numbers
        return made

    def _given(self, trial: Given, left_out: frozenset[int]) -> ClassMap:
        weights = self.folds.seen(*sorted(left_out))
        whole = np.rint(weights).astype(np.int64) if self.rows.counts else weights
        kept = np.flatnonzero(weights > 0.0)
        return trial.fit(replace(self.rows, weights=whole).take(kept))

    def _without(self, clamp: float, left_out: frozenset[int]) -> tuple[LogRows, float]:
        """The rows that are fitted to, and the slope of their temperature."""
        if clamp not in self._logs:
            self._logs[clamp] = self._logs[UNHELD].held(clamp)
        key = clamp, left_out
        if key not in self._seen:
            rows = self._logs[clamp].weighing(self.folds.seen(*sorted(left_out)))
            self._seen[key] = rows, fit_slope(rows).slope
        return self._seen[key]


def class_losses(p: Floats, labels: NDArray[Any], loss: Loss) -> Floats:
    """Loss of each row of probabilities; the Brier score is summed over classes."""
    own = p[np.arange(len(p)), labels]
    if loss == "log":
        return np.asarray(-np.log(np.maximum(own, LEAST_OUTPUT)))
    return np.asarray(1.0 - 2.0 * own + np.einsum("nk,nk->n", p, p))


# ----------------------------------------------------------------------------------------------------------- the search


class View(NamedTuple):
    """Some parts of the rows, judged by maps that saw neither them nor one other part."""

    trials: Trials
    parts: Sequence[int]
    also: int | None = None

    def losses(self, settings: Sequence[Trial]) -> Losses:
        """Of several maps on all of these parts."""
        return reduce(Losses.__add__, [self.trials.paired(settings, part, self.also) for part in self.parts])

    def mean(self, setting: Trial) -> float:
        """Mean loss of one map."""
        return float(self.losses([setting]).means[0])


def best_setting(view: View, first: Setting, clamps: Sequence[float]) -> Setting:
    """The setting of least mean loss: the clamp, then the penalty, downhill from the first one.

    The first penalty stays unless another is better by a standard error: on few rows the least loss is mostly luck.
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
    return found if gain > SURELY * spread else start


def searched(view: View, first: Setting) -> Setting:
    """The best setting of a form; with many classes at the clamp that suits the temperature, which is found faster."""
    clamps = view.trials.clamps()
    if view.trials.size > MANY and first.form not in ("identity", "temperature"):
        clamps = (best_setting(view, replace(first, form="temperature"), clamps).clamp,)
    return best_setting(view, first, clamps)


def safest(view: View, settings: Sequence[Setting]) -> Setting:
    """Of settings with rising clamps, the last that is worse than the best by half a standard error at most."""
    losses = view.losses(settings)
    best = int(losses.means.argmin())

    def near(column: int) -> bool:
        worse, spread = losses.difference(column, best)
        return worse <= HARDLY * spread

    return settings[max(column for column in range(len(settings)) if column == best or near(column))]
