"""Choice of a calibrator: cross-validated losses, a rule that prefers simple candidates, and nested estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.fits.curves import averaged
from calibrant.fits.needs import minority_rows
from calibrant.maps import Map
from calibrant.messages import Note
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import Floats
from calibrant.selection.comparison import (
    BLENDED,
    CERTAINTY,
    IDENTITY,
    NEGLIGIBLE_SHARE,
    Comparison,
    compared,
    estimates,
    gap,
    needs_minority_rows,
    needs_rows,
    of_procedure,
    other_scores,
)
from calibrant.selection.cross_validation import Crossed
from calibrant.selection.folds import Folds
from calibrant.selection.losses import Loss, Losses, constant_loss
from calibrant.selection.original_model import OriginalTest, Sample
from calibrant.tallies import Tally, end_notes

PARSIMONY_SE = 0.5
"""Without a blend: standard errors by which a simpler candidate may be worse than the best and still be chosen."""

MIN_BLEND_WEIGHT = 0.02
"""A map with a smaller weight is left out of the blend."""


class Facts(NamedTuple):
    """What decides which candidates are tried: score type, rows, and minority-class rows (effective, with weights)."""

    score_type: ScoreType
    rows: float
    minority: float

    @classmethod
    def of(cls, tally: Tally) -> Self:
        """The facts about a tally."""
        return cls(tally.score_type, float(tally.total), minority_rows(tally))


@dataclass(frozen=True)
class Candidate:
    """A method that may be chosen: its fit, and the minority-class rows and rows that it needs to be tried."""

    name: str
    fit: Callable[[Tally], Map]
    least: float = 0.0
    """Minority-class rows that it needs."""
    rows: float = 0.0
    """Rows that it needs."""
    kinds: tuple[ScoreType, ...] = ("probability", "logit", "real")
    when: Callable[[Tally], Note | None] | None = None
    """Any further reason why it must not be chosen on these rows; None if it may be chosen."""

    def why_not(self, tally: Tally) -> Note | None:
        """Why it is not tried; None when it is."""
        facts = Facts.of(tally)
        if facts.score_type not in self.kinds:
            return other_scores(facts.score_type)
        if facts.rows < self.rows:
            return needs_rows(self.rows)
        if facts.minority < self.least:
            return needs_minority_rows(self.least)
        return None if self.when is None else self.when(tally)


# ----------------------------------------------------------------------------------------------------------- the choice


@dataclass(frozen=True)
class Blend:
    """A weighted average of several candidates; the weights minimize the cross-validated loss."""

    parts: tuple[Candidate, ...]
    least: float = 0.0
    """Minority-class rows that it needs to be tried."""
    name: str = BLENDED

    def why_not(self, tally: Tally) -> Note | None:
        """Why it is not tried; None when it is."""
        return needs_minority_rows(self.least) if Facts.of(tally).minority < self.least else None


@dataclass(frozen=True)
class Selection:
    """The chosen candidate, the comparison, and nested losses of the whole procedure."""

    chosen: Candidate | Blend
    weights: dict[str, float]
    """Weights of a blend by the name of the candidate; empty for a single map."""
    comparison: Comparison
    before: Estimate
    after: Estimate
    change: Estimate
    test: OriginalTest
    """Test of the original model on all rows; computed only where the original model is kept."""

    def fit(self, tally: Tally) -> Map:
        """The chosen map, fitted to these rows."""
        if isinstance(self.chosen, Candidate):
            return self.chosen.fit(tally)
        parts = [each for each in self.chosen.parts if each.name in self.weights]
        maps = [each.fit(tally) for each in parts]
        return averaged(maps, np.array([self.weights[each.name] for each in parts]), tally)


def select(
    folds: Folds,
    candidates: Sequence[Candidate],
    whole: Tally,
    loss: Loss,
    *,
    keep: Candidate | None = None,
    blend: Blend | None = None,
) -> Selection:
    r"""Choose the blend, unless the original model has no higher loss or a simpler candidate is as good.

    With :math:`L_c` the mean loss of candidate c on held-out rows, :math:`s_{c,d}` the standard error of
    :math:`L_c - L_d` from paired rows, d the blend and t 0.07 % of the loss of a constant prediction, the choice is

    - the first candidate, the original model, if :math:`L_{first} \le L_d`;
    - else the first c, simplest first, with :math:`L_c - L_d + 2 s_{c,d} \le t`;
    - else d.

    Without a blend, d is the candidate of lowest loss, and the first c with :math:`L_c - L_d \le s_{c,d} / 2` is
    chosen.

    Three checks follow. The original model is also kept if choices made without each fold do not lower the loss on the
    folds left out, in total. But if a test of its intercept and slope rejects it (with the groups of ``folds``), the
    same rule chooses among the others. Finally, if the nested loss of this procedure is not below that of the original
    model, the original model is kept.

    ``candidates`` come simplest first; ``blend`` is the average of some of them. ``keep`` is the reference, by default
    the first candidate; a reference that is passed cannot be chosen. ``before``, ``after`` and ``change`` are nested:
    for each fold, the loss of what the same rule with the same checks chooses on, weights by and fits to the other
    folds (or those before it), each candidate tried where there are enough rows for it. Without two folds that can be
    compared the first candidate is chosen.

    Notes
    -----
    With few rows, choosing one map by its cross-validated loss is mostly noise; an average is more stable. On 385 real
    cases the blend is nearer to the best map of each case than the choice by lowest loss, twice as near up to 1,000
    rows (``docs/decisions/0010-calibrate.md``).
    Guarantee: no finite-sample guarantee; the nested loss is that of the procedure on (K - 1) / K of the rows.
    Cost: K (K - 1) / 2 + K fits per candidate with K folds; K - 1 when walking forward.
    """
    runs: tuple[Candidate | Blend, ...] = (*candidates, *([] if blend is None else [blend]))
    runs = runs if keep is None else (keep, *runs)
    reasons = {each.name: each.why_not(whole) for each in runs}
    tried = [each for each in runs if reasons[each.name] is None]
    blended = blend if blend in tried else None
    singles = [each for each in tried if isinstance(each, Candidate)]
    crossed = Crossed(folds, *_fits(singles, blended), loss)
    parts = crossed.flat()
    rule = Rule(tuple(tried), loss, 0 if keep is None or tried[0] is not keep else 1, blended)
    sample = Sample(whole, lambda: whole if folds.rows is None else folds.rows)
    best = rule.choice(sample, parts) if parts else rule.first
    flat, unseen = (Losses.total_of(each) if each else None for each in (parts, crossed.nested(rule.choice)))
    if rule.keeps and unseen is not None and unseen.difference(1, 0)[0] >= 0.0:
        best = 0
    kept, read = rule.keeps and best == 0 and bool(parts), end_notes(whole)
    before, after, change = estimates(unseen, loss, 0.0 if kept else gap(flat, unseen, best), read)
    if kept:
        after, change = of_procedure(after), of_procedure(change)
    place = {each.name: column for column, each in enumerate(tried)}
    tie = negligible(whole, loss)
    lines = tuple(compared(each.name, flat, place.get(each.name), best, reasons[each.name], tie) for each in runs)
    chosen = tried[best]
    return Selection(
        chosen,
        _kept_weights(chosen, crossed.weights) if isinstance(chosen, Blend) else {},
        Comparison(loss, tried[0].name, lines, tie, rule.keeps, notes=read),
        before,
        after,
        change,
        rule.test(sample) if kept else OriginalTest(),
    )


@dataclass(frozen=True)
class Rule:
    """The rule of :func:`select` with its checks, on all rows and within the folds."""

    tried: tuple[Candidate | Blend, ...]
    loss: Loss
    first: int
    """Column of the first candidate that may be chosen; the reference is column 0."""
    blend: Blend | None

    @property
    def keeps(self) -> bool:
        """Whether the reference may be chosen."""
        return self.first == 0

    def test(self, sample: Sample) -> OriginalTest:
        """The test of the original model; another reference is not tested."""
        return OriginalTest.of(sample.rows()) if self.tried[0].name == IDENTITY else OriginalTest()

    def choice(self, sample: Sample, parts: Sequence[Losses]) -> int:
        """The chosen column, from losses by fold; with fewer rows, fewer candidates may be admitted."""
        admitted = [column for column, each in enumerate(self.tried) if each.why_not(sample.tally) is None]
        columns = [column for column in admitted if column >= self.first] or [self.first]
        tie = negligible(sample.tally, self.loss)
        best = self._best(parts, columns, tie)
        if not self.keeps or len(columns) < 2 or (best and self._lowers(parts, columns, tie)):
            return best
        return self._best(parts, columns[1:], tie) if self.test(sample).rejects else 0

    def _best(self, parts: Sequence[Losses], columns: Sequence[int], tie: float) -> int:
        blend = None if self.blend is None else self.tried.index(self.blend)
        return choose(Losses.total_of(parts), columns, tie, blend)

    def _lowers(self, parts: Sequence[Losses], columns: Sequence[int], tie: float) -> bool:
        """Whether choices made by the losses on other folds lower the loss in total.

        A cheap proxy for the nested change: the choice for a fold may depend on fits to rows of that fold.
        """
        if len(parts) < 2:
            return True
        change = 0.0
        for place, part in enumerate(parts):
            best = self._best([*parts[:place], *parts[place + 1 :]], columns, tie)
            change += float(part.sums[best] - part.sums[0])
        return change < 0.0


def negligible(tally: Tally, loss: Loss) -> float:
    """Largest difference of mean losses that is negligible."""
    rate = float(tally.positives) / float(tally.total)
    both = constant_loss(np.array([rate, 1.0 - rate]), loss)
    return NEGLIGIBLE_SHARE * (both / 2.0 if loss == "brier" else both)  # a binary Brier score is of one class


def _fits(
    singles: Sequence[Candidate], blend: Blend | None
) -> tuple[list[Callable[[Tally], Map]], int, list[int] | None]:
    """All fits, how many of the first are candidates, and which belong to the blend; each is fitted once."""
    if blend is None:
        return [each.fit for each in singles], len(singles), None
    every = [*singles, *(each for each in blend.parts if each not in singles)]
    return [each.fit for each in every], len(singles), [every.index(each) for each in blend.parts]


def choose(losses: Losses, columns: Sequence[int], tie: float, blend: int | None = None) -> int:
    """The rule of :func:`select` among some columns, without its checks; ``blend`` is the blend's column, if tried."""
    if blend is None or blend not in columns:
        best = min(columns, key=lambda column: losses.means[column])
        return next(column for column in columns if _within(PARSIMONY_SE, losses.difference(column, best)))
    for column in columns:
        worse, spread = losses.difference(column, blend)
        if worse + CERTAINTY * spread <= tie or (column == 0 and worse <= 0.0):
            return column
    return blend


def _within(errors: float, difference: tuple[float, float]) -> bool:
    return difference[0] <= errors * difference[1]


def _kept_weights(blend: Blend, weights: Floats) -> dict[str, float]:
    shares = np.where(weights >= MIN_BLEND_WEIGHT, weights, 0.0)
    shares = shares / shares.sum()
    return {each.name: float(share) for each, share in zip(blend.parts, shares, strict=True) if share > 0.0}
