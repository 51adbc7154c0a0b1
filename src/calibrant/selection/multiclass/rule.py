"""Choice of a multiclass map: tuned candidates, compared by cross-validation, with nested estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.fits.multiclass.ridge import Affine
from calibrant.fits.multiclass.softmax import LogRows, fit_slope
from calibrant.maps import MulticlassMap
from calibrant.messages import Note
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import CLAMP, Floats
from calibrant.progress import progress
from calibrant.selection.comparison import (
    CERTAINTY,
    NEGLIGIBLE_SHARE,
    ChoiceRule,
    Comparison,
    compared,
    estimates,
    needs_rows,
    of_procedure,
    too_many_classes,
)
from calibrant.selection.losses import Losses, constant_loss
from calibrant.selection.multiclass.cross_validation import (
    MAX_MATRIX_CLASSES,
    Form,
    Given,
    Setting,
    Trial,
    Trials,
    View,
    fit_setting,
    middle,
    searched,
)
from calibrant.selection.rule import choose

FORMS: dict[str, Form] = {
    "identity": "identity",
    "temperature": "temperature",
    "vector": "vector",
    "structured": "matrix",
}
"""Form of the softmax map of each candidate, simplest first."""

MIN_ROWS = {"identity": 0.0, "temperature": 50.0, "vector": 50.0, "structured": 50.0}
"""Rows that each candidate needs to be tried."""

FEW_ROWS = 200.0
"""Number of rows below which a map must be better than the original model by two standard errors."""


@dataclass(frozen=True)
class MulticlassCandidate:
    """A method that may be chosen: a softmax map whose setting is searched for, or any other method."""

    name: str
    rows: float = 0.0
    given: Given | None = None

    @classmethod
    def named(cls, name: str, rows: float | None = None) -> MulticlassCandidate:
        """One of :data:`FORMS`."""
        return cls(name, MIN_ROWS[name] if rows is None else rows)

    def why_not(self, rows: float, classes: int) -> Note | None:
        """Why it is not tried; None when it is."""
        if self.given is None and self.name == "structured" and classes > MAX_MATRIX_CLASSES:
            return too_many_classes(MAX_MATRIX_CLASSES)
        return needs_rows(self.rows) if rows < self.rows else None

    def found(self, view: View, *, strengths: bool = True) -> Trial:
        """Its best setting on some of the folds; with many classes its penalty is compared only with ``strengths``."""
        if self.given is not None:
            return self.given
        trials = view.trials
        if self.name == "identity":
            return Setting("identity", trials.zeros)
        return searched(view, Setting(FORMS[self.name], CLAMP, middle(trials.size)), strengths=strengths)


def fitted(trial: Trial, rows: MulticlassRows, start: Affine | None = None) -> MulticlassMap:
    """The map of a trial, fitted to all rows; a start saves time."""
    if isinstance(trial, Given):
        return trial.fit(rows)
    logs = LogRows.of(rows, trial.clamp)
    near = None if start is None else start.slope
    slope = 1.0 if trial.form == "identity" else fit_slope(logs, start=near).slope
    return fit_setting(trial, logs, slope, start)[0]


@dataclass(frozen=True)
class MulticlassComparison(Comparison):
    """Cross-validated losses of all candidates; prints as a table."""

    default: str = "structured"

    @property
    def rule(self) -> ChoiceRule:
        """How the choice was made."""
        return ChoiceRule.DEFAULT

    @property
    def steps(self) -> list[str]:
        """The steps of the rule, a sentence each."""
        original = self.original[:1].upper() + self.original[1:]
        return [
            f"{self.default} is the default; the best candidate replaces it if {CERTAINTY:g} SE better.",
            f"A simpler candidate is chosen if its loss is {self.within}.",
            f"{original} is kept if its loss is the same or lower, or if the choice raises the nested loss.",
        ]


@dataclass(frozen=True)
class MulticlassSelection:
    """The chosen candidate, its setting, the comparison, and nested losses of the whole procedure."""

    name: str
    trial: Trial
    comparison: MulticlassComparison
    before: Estimate
    after: Estimate
    change: Estimate


def select_classes(trials: Trials, candidates: Sequence[MulticlassCandidate], rows: float) -> MulticlassSelection:
    r"""Choose the structured map, unless another candidate is better or a simpler one is as good.

    With :math:`L_c` the mean loss of candidate c on held-out rows, and :math:`s_{c,d}` the standard error of
    :math:`L_c - L_d` from paired rows: d is the structured map (above 128 classes the temperature map), or the
    candidate of lowest loss among those with :math:`L_c + 2 s_{c,d} < L_d`. The choice is

    - the original model, if :math:`L_{identity} \le L_d`, or below 200 rows if :math:`L_{identity} \le L_d + 2 s`;
    - else the first c, simplest first, with :math:`L_c - L_d + 2 s_{c,d} \le t`, where t is 0.07 % of the loss of
      predicting the class frequencies for every row;
    - else d.

    If the nested loss of the choice is above that of the original model, the original model is kept.

    ``candidates`` come simplest first, and the first is the original model. ``before``, ``after`` and ``change`` are
    nested: for each fold, the loss of what the same search and the same rule choose on the other folds, or on those
    before it; above 32 classes or from 2,000 rows, on one of the other folds. Without two folds that can be compared
    the original model is kept.
    """
    loss, parts = trials.loss, trials.parts
    tie = _negligible(trials, trials.folds.shares.sum(axis=0))
    tried = [each for each in candidates if each.why_not(rows, trials.size) is None]
    default = _default(tried)
    flat, best = None, 0
    found: list[Trial] = [Setting("identity", trials.zeros)]
    unseen: list[Losses] = []
    if parts and len(tried) > 1:
        unseen = _nested(trials, tried, default)  # first: fits to more folds start from these
        found, flat = _found(View(trials, parts), tried)
        best = settled(flat, default, tie)
    before, after, change = estimates(Losses.total_of(unseen) if unseen else None, loss)
    if change.value > 0.0:
        best = 0
    if best == 0:
        after, change = of_procedure(after), of_procedure(change)
    place = {each.name: column for column, each in enumerate(tried)}
    lines = tuple(
        compared(each.name, flat, place.get(each.name), best, each.why_not(rows, trials.size), tie)
        for each in candidates
    )
    comparison = MulticlassComparison(loss, tried[0].name, lines, tie, default=tried[default].name)
    return MulticlassSelection(tried[best].name, found[best], comparison, before, after, change)


def _negligible(trials: Trials, weights: Floats) -> float:
    """Largest difference of mean losses that is negligible, by the class frequencies of rows with these weights."""
    mass = np.bincount(trials.rows.labels, weights, trials.size)
    return NEGLIGIBLE_SHARE * constant_loss(mass / mass.sum(), trials.loss)


def _default(tried: Sequence[MulticlassCandidate]) -> int:
    """The column of the default candidate."""
    names = [each.name for each in tried]
    for name in ("structured", "temperature"):
        if name in names:
            return names.index(name)
    return len(names) - 1


def _found(view: View, tried: Sequence[MulticlassCandidate]) -> tuple[list[Trial], Losses]:
    richer = any(each.name == "structured" for each in tried)  # then a vector is chosen for its simplicity if at all
    found = [each.found(view, strengths=not (richer and each.name == "vector")) for each in tried]
    return found, view.losses(found)


def settled(losses: Losses, default: int, tie: float) -> int:
    """The column chosen by the rule of :func:`select_classes`."""
    columns = range(len(losses.sums))
    ahead = [c for c in columns if c == default or _surely_better(losses, c, default)]
    taken = min(ahead, key=lambda column: losses.means[column])
    if losses.size < FEW_ROWS and not _surely_better(losses, taken, 0):
        return 0
    return choose(losses, columns, tie, taken)


def _surely_better(losses: Losses, column: int, default: int) -> bool:
    worse, spread = losses.difference(column, default)
    return worse < -CERTAINTY * spread


def _nested(trials: Trials, tried: Sequence[MulticlassCandidate], default: int) -> list[Losses]:
    """Losses by fold. First column: the original model. Second: what is chosen without the fold."""
    made = []
    for part in progress(trials.parts, "calibrate: folds of nested cross-validation"):
        others = [each for each in trials.parts if (each < part if trials.folds.forward else each != part)]
        if not others:
            continue
        if trials.large:
            others = others[-1:] if trials.folds.forward else [trials.partner(part)]
        view = View(trials, others, None if trials.folds.forward else part)
        found, losses = _found(view, tried)
        tie = _negligible(trials, trials.folds.seen(part))
        made.append(trials.paired([found[0], found[settled(losses, default, tie)]], part))
    return made
