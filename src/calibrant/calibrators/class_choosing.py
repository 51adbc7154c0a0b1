"""Which map of class scores, honestly: candidates searched and compared on unseen rows, and nested numbers.

Nothing here is an estimator, so that a choice can be made without loading scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from calibrant.arrays.class_rows import ClassRows
from calibrant.calibrators.choosing import CERTAINTY, IMMATERIAL, Comparison, choose, compared, estimates
from calibrant.calibrators.class_crossing import (
    MOST_FULL,
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
from calibrant.calibrators.losses import NAMES, Loss, Losses
from calibrant.calibrators.softmax_fits import LogRows, fit_slope
from calibrant.maps import ClassMap
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import CLAMP

FORMS: dict[str, Form] = {
    "identity": "identity",
    "temperature": "temperature",
    "vector": "vector",
    "structured": "matrix",
}
"""Form of the softmax map of each candidate, simplest first."""

ROWS = {"identity": 0.0, "temperature": 50.0, "vector": 50.0, "structured": 50.0}
"""Rows from which on each of them is tried."""

FEW = 200.0
"""Rows below which a map must be better than the model by two standard errors."""


@dataclass(frozen=True)
class ClassCandidate:
    """What may be chosen: a softmax map whose setting is searched for, or any other way to a map."""

    name: str
    rows: float = 0.0
    given: Given | None = None

    @classmethod
    def named(cls, name: str, rows: float | None = None) -> ClassCandidate:
        """One of :data:`FORMS`."""
        return cls(name, ROWS[name] if rows is None else rows)

    def why_not(self, rows: float, classes: int) -> str:
        """Why it is not tried; empty when it is."""
        if self.given is None and self.name == "structured" and classes > MOST_FULL:
            return f"up to {MOST_FULL} classes"
        return f"from {self.rows:,.6g} rows on" if rows < self.rows else ""

    def found(self, view: View) -> Trial:
        """What of it does best on some parts of the rows."""
        if self.given is not None:
            return self.given
        trials = view.trials
        if self.name == "identity":
            return Setting("identity", trials.zeros)
        return searched(view, Setting(FORMS[self.name], CLAMP, middle(trials.size)))


def fitted(trial: Trial, rows: ClassRows) -> ClassMap:
    """The map of a trial, fitted to all rows."""
    if isinstance(trial, Given):
        return trial.fit(rows)
    logs = LogRows.of(rows, trial.clamp)
    slope = 1.0 if trial.form == "identity" else fit_slope(logs).slope
    return fit_setting(trial, logs, slope)[0]


@dataclass(frozen=True)
class ClassComparison(Comparison):
    """What was compared, on rows that the maps had not seen; prints as a table."""

    default: str = "structured"

    @property
    def rule(self) -> str:
        """How the choice was made, in a sentence."""
        return (
            f"Taken is {self.default}, or what is better by two standard errors, unless {self.reference} does as well, "
            f"or a simpler candidate is worse by {IMMATERIAL[self.loss]:g} at most for certain (two standard errors)."
        )


@dataclass(frozen=True)
class ClassSelection:
    """The chosen candidate, its setting, what it was compared with, and nested numbers of the whole procedure."""

    name: str
    trial: Trial
    comparison: ClassComparison
    before: Estimate
    after: Estimate
    change: Estimate


def select_classes(trials: Trials, candidates: Sequence[ClassCandidate], rows: float) -> ClassSelection:
    r"""The structured map, unless something else is better or something simpler as good; and what that is worth.

    With :math:`L_c` the mean loss of candidate c on rows that its maps had not seen, and :math:`s_{c,d}` the standard
    error of :math:`L_c - L_d` from paired rows: d is the structured map (above 128 classes the temperature), or the
    candidate of least loss among those with :math:`L_c + 2 s_{c,d} < L_d`. Then

    - the model as it is, if :math:`L_{identity} \le L_d`, below 200 rows if :math:`L_{identity} \le L_d + 2 s`;
    - else the first c, simplest first, with :math:`L_c - L_d + 2 s_{c,d} \le` 0.0005 nats (0.0001 of a Brier score);
    - else d.

    ``candidates`` come simplest first, and the first is the model as it is. ``before``, ``after`` and ``change`` are
    nested: in each part of the rows the loss of what the same search and the same rule choose on the other parts, or
    those before it. Without two parts that can be compared the model is kept.
    """
    loss, parts = trials.loss, trials.parts
    tried = [each for each in candidates if not each.why_not(rows, trials.size)]
    default = _default(tried)
    flat, best = None, 0
    found: list[Trial] = [Setting("identity", trials.zeros)]
    if parts and len(tried) > 1:
        view = View(trials, parts)
        found, flat = _found(view, tried)
        best = settled(flat, default, loss)
    place = {each.name: column for column, each in enumerate(tried)}
    lines = tuple(
        compared(each.name, flat, place.get(each.name), best, each.why_not(rows, trials.size)) for each in candidates
    )
    nested = _nested(trials, tried, default) if flat is not None else None
    comparison = ClassComparison(loss, tried[0].name, lines, tried[default].name)
    return ClassSelection(tried[best].name, found[best], comparison, *estimates(nested, loss))


def _default(tried: Sequence[ClassCandidate]) -> int:
    """The column of what is taken when nothing speaks against it."""
    names = [each.name for each in tried]
    for name in ("structured", "temperature"):
        if name in names:
            return names.index(name)
    return len(names) - 1


def _found(view: View, tried: Sequence[ClassCandidate]) -> tuple[list[Trial], Losses]:
    found = [each.found(view) for each in tried]
    return found, view.losses(found)


def settled(losses: Losses, default: int, loss: Loss) -> int:
    """The column that the rule of :func:`select_classes` takes."""
    columns = range(len(losses.sums))
    ahead = [c for c in columns if c == default or _surely_better(losses, c, default)]
    taken = min(ahead, key=lambda column: losses.means[column])
    if losses.size < FEW and not _surely_better(losses, taken, 0):
        return 0
    return choose(losses, columns, loss, taken)


def _surely_better(losses: Losses, column: int, default: int) -> bool:
    worse, spread = losses.difference(column, default)
    return worse < -CERTAINTY * spread


def _nested(trials: Trials, tried: Sequence[ClassCandidate], default: int) -> Losses | None:
    """First column: the model. Second: what is chosen without the part that it is judged on."""
    made = []
    for part in trials.parts:
        others = [each for each in trials.parts if (each < part if trials.folds.forward else each != part)]
        if not others:
            continue
        view = View(trials, others, None if trials.folds.forward else part)
        found, losses = _found(view, tried)
        made.append(trials.paired([found[0], found[settled(losses, default, trials.loss)]], part))
    return reduce(Losses.__add__, made) if made else None


def told(selection: ClassSelection) -> str:
    """What the nested numbers say, in a sentence."""
    name, change = NAMES[selection.comparison.loss], selection.change
    if np.isnan(change.value):
        return f"The {name} of this procedure on unseen rows is not known: {selection.after.notes[0]}."
    if change.value == 0.0 and change.se == 0.0:
        return f"Choosing on parts of the rows keeps the model each time ({name} {selection.before.value:.4f})."
    return (
        f"Choosing and fitting on parts of the rows takes the {name} of the others from {selection.before.value:.4f} "
        f"to {selection.after.value:.4f} ({change.value:+.4f}, 95 % interval {change.low:+.4f} to {change.high:+.4f})."
    )
