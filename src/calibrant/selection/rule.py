"""Which calibrator, honestly: cross-fitted losses of candidates, a rule that prefers the simple, and nested numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from calibrant.arrays import Kind
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

PARSIMONY = 0.5
"""Standard errors by which a candidate may be worse than the best and be taken for being simpler, without a blend."""

LEAST_WEIGHT = 0.02
"""A map with a smaller weight is left out of a blend."""


class Facts(NamedTuple):
    """What decides what is tried: kind of the scores, rows, and rows of the rarer class (or what weights are worth)."""

    kind: Kind
    rows: float
    rarer: float

    @classmethod
    def of(cls, tally: Tally) -> Self:
        """The facts about a tally."""
        return cls(tally.kind, float(tally.total), minority_rows(tally))


@dataclass(frozen=True)
class Candidate:
    """A method that may be chosen: its fit, and from how many rows, and rows of the rarer class, on it is tried."""

    name: str
    fit: Callable[[Tally], Map]
    least: float = 0.0
    rows: float = 0.0
    kinds: tuple[Kind, ...] = ("probability", "logit", "real")
    when: Callable[[Tally], Note | None] | None = None
    """Why it must not be chosen on these rows, beyond their number; None when it may be."""

    def why_not(self, tally: Tally) -> Note | None:
        """Why it is not tried; None when it is."""
        facts = Facts.of(tally)
        if facts.kind not in self.kinds:
            return other_scores(facts.kind)
        if facts.rows < self.rows:
            return needs_rows(self.rows)
        if facts.rarer < self.least:
            return needs_minority_rows(self.least)
        return None if self.when is None else self.when(tally)


# ----------------------------------------------------------------------------------------------------------- the choice


@dataclass(frozen=True)
class Blend:
    """The average of several candidates, weighted by how they do on rows that they have not seen."""

    parts: tuple[Candidate, ...]
    least: float = 0.0
    """Rows of the rarer class from which on it is tried."""
    name: str = BLENDED

    def why_not(self, tally: Tally) -> Note | None:
        """Why it is not tried; None when it is."""
        return needs_minority_rows(self.least) if Facts.of(tally).rarer < self.least else None


@dataclass(frozen=True)
class Selection:
    """The chosen candidate, its fit, what it was compared with, and nested numbers of the whole procedure."""

    chosen: Candidate | Blend
    weights: dict[str, float]
    """Of a blend, by the name of the candidate; empty for a single map."""
    comparison: Comparison
    before: Estimate
    after: Estimate
    change: Estimate
    test: OriginalTest
    """Of the original model on all rows; made only where the original model is kept."""

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
    r"""The blend, unless something simpler is surely as good or the model itself does better; and what that is worth.

    With :math:`L_c` the mean loss of candidate c on rows that its maps had not seen, :math:`s_{c,d}` the standard error
    of :math:`L_c - L_d` from paired rows, d the blend and t 0.07 % of the loss of a constant prediction:

    - the first candidate, which is to keep the original model, if :math:`L_{first} \le L_d`;
    - else the first c, simplest first, with :math:`L_c - L_d + 2 s_{c,d} \le t`;
    - else d.

    Without a blend d is the candidate of lowest loss, and the first c with :math:`L_c - L_d \le s_{c,d} / 2` is taken.

    Two gates follow. The original model is also kept if choices made without a part of the rows do not lower the loss
    there, taken together. But if a test of its level and slope rejects it (with the groups of ``folds``), the same rule
    chooses among the others. At last, if the nested loss of all this is not below that of the original model, it is
    kept.

    ``candidates`` come simplest first; ``blend`` is the average of some of them. ``keep`` is what they are compared
    with, the first of them by default; given, it cannot be chosen. ``before``, ``after`` and ``change`` are nested: in
    each part of the rows the loss of what the same rule with the same gates chooses on, weighs by, and fits to, the
    other parts (or those before it), each candidate tried where its ladder admits it. Without two parts that can be
    compared the first candidate is taken.

    Notes
    -----
    Choosing one map by its cross-fitted loss is mostly luck with few rows; an average is not. On 385 real cases the
    blend is nearer to the best map of each case than the choice by least loss, twice as near up to 1,000 rows
    (``docs/decisions/0010-calibrate.md``).
    Guarantee: none in finite samples; the nested loss is that of the procedure on (K - 1) / K of the rows.
    Cost: fits to K (K - 1) / 2 + K parts of the rows per candidate; K - 1 when walking forward.
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
    """What :func:`select` chooses by, on all rows and within the folds, gates included."""

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
        """The chosen column, from losses by part of the rows; on fewer rows fewer candidates may be admitted."""
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
        """Whether choices made by the losses on other parts lower the loss of each part, taken together.

        It stands in for the nested change: a fit that saw a part may have a say in the choice that is judged there.
        """
        if len(parts) < 2:
            return True
        change = 0.0
        for place, part in enumerate(parts):
            best = self._best([*parts[:place], *parts[place + 1 :]], columns, tie)
            change += float(part.sums[best] - part.sums[0])
        return change < 0.0


def negligible(tally: Tally, loss: Loss) -> float:
    """Differences of mean losses up to this are negligible."""
    rate = float(tally.positives) / float(tally.total)
    both = constant_loss(np.array([rate, 1.0 - rate]), loss)
    return NEGLIGIBLE_SHARE * (both / 2.0 if loss == "brier" else both)  # a binary Brier score is of one class


def _fits(
    singles: Sequence[Candidate], blend: Blend | None
) -> tuple[list[Callable[[Tally], Map]], int, list[int] | None]:
    """What is fitted, how many of the first are candidates, and which are parts of the blend; each is fitted once."""
    if blend is None:
        return [each.fit for each in singles], len(singles), None
    every = [*singles, *(each for each in blend.parts if each not in singles)]
    return [each.fit for each in every], len(singles), [every.index(each) for each in blend.parts]


def choose(losses: Losses, columns: Sequence[int], tie: float, blend: int | None = None) -> int:
    """The rule of :func:`select` among some columns, without its gates; ``blend`` is the blend's, if it was tried."""
    if blend is None or blend not in columns:
        best = min(columns, key=lambda column: losses.means[column])
        return next(column for column in columns if _within(PARSIMONY, losses.difference(column, best)))
    for column in columns:
        worse, spread = losses.difference(column, blend)
        if worse + CERTAINTY * spread <= tie or (column == 0 and worse <= 0.0):
            return column
    return blend


def _within(errors: float, difference: tuple[float, float]) -> bool:
    return difference[0] <= errors * difference[1]


def _kept_weights(blend: Blend, weights: Floats) -> dict[str, float]:
    shares = np.where(weights >= LEAST_WEIGHT, weights, 0.0)
    shares = shares / shares.sum()
    return {each.name: float(share) for each, share in zip(blend.parts, shares, strict=True) if share > 0.0}
