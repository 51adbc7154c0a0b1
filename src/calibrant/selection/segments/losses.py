"""Losses of segment maps on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrant.fits.ranking import Ranking
from calibrant.fits.segments.counts import SegmentCells
from calibrant.maps import Map, StepMap
from calibrant.messages import Note, Voice, note
from calibrant.metrics.binary.scores import auc
from calibrant.metrics.estimates import TWO_SIDED, Estimate
from calibrant.numerics import Floats, Ints, expit
from calibrant.selection.candidates import CANDIDATES
from calibrant.selection.folds import Folds
from calibrant.selection.losses import Loss, Losses
from calibrant.selection.rule import Candidate
from calibrant.tallies import Tally

TIE_TOLERANCE = 1e-9
"""Log-odds that differ by less are tied: the difference is rounding."""


def random_parts(cells: SegmentCells, count: int, random_state: int) -> tuple[tuple[Ints, Tally], ...]:
    """Random folds: the numbers of their cells, and a tally over these numbers as if they were scores.

    The draw is on the counts, so that the order of rows does not matter.
    """
    folds = Folds.at_random(cells.numbered(), count, random_state)
    return tuple((part.scores.astype(np.int64), part) for part in folds.parts)


def reference(tally: Tally) -> Candidate:
    """The original model: its probabilities, or Platt scaling where scores are not probabilities."""
    found = CANDIDATES["platt" if tally.score_type == "real" else "identity"]
    return replace(found, least=0.0)


def kept(tally: Tally) -> Map:
    """The map of the original model, as defined by :func:`reference`."""
    return reference(tally).fit(tally)


def by_number(values: Floats) -> StepMap:
    """Map from the number of a cell to its probability."""
    return StepMap(np.arange(1.0, len(values)) - 0.5, values)


too_few_to_judge = note("too-few-to-judge", "too few {nouns.rows} to fit on some and evaluate on others")


@note("sources-unjudged")
def sources_unjudged(voice: Voice, sources: tuple[str, ...]) -> str:
    """Of a mean over sources."""
    return f"without {', '.join(sources)}: too few {voice.nouns.rows} to evaluate them"


def estimate(
    name: str, losses: Losses | None, weights: Sequence[float], loss: Loss, notes: tuple[Note, ...] = ()
) -> Estimate:
    """A linear combination of mean losses, with its 95 % confidence interval."""
    if losses is None:
        return Estimate(name, float("nan"), notes=(too_few_to_judge(),))
    return Estimate(name, *losses.interval(np.array(weights), loss), notes=notes)


def weighted_mean(name: str, found: Mapping[str, tuple[float, Estimate]], shared: bool = False) -> Estimate:
    """Mean over sources without common rows, weighted by rows; a note names sources without an estimate.

    ``shared``: whether groups of dependent rows may be in several sources. The errors of the sources then count as
    fully correlated, which gives the largest standard error that is possible.
    """
    known = [(weight, each.value, each.se or 0.0) for weight, each in found.values() if not np.isnan(each.value)]
    if not known:
        return Estimate(name, float("nan"), notes=(too_few_to_judge(),))
    unknown = [source for source, (_, each) in found.items() if np.isnan(each.value)]
    notes = (sources_unjudged(tuple(unknown)),) if unknown else ()
    weight, values, ses = np.array(known).T
    value = float((weight * values).sum() / weight.sum())
    se = float((weight * ses).sum() if shared else np.sqrt(((weight * ses) ** 2).sum())) / float(weight.sum())
    return Estimate(name, value, se, value - TWO_SIDED * se, value + TWO_SIDED * se, notes=notes)


@dataclass(frozen=True)
class SplitTies(Ranking):
    """Higher scores get higher probabilities, but tied scores may get different ones."""

    def __str__(self) -> str:
        """One sentence."""
        areas = f"AUC {self.before:.4f} -> {self.after:.4f} on the fitted rows"
        shown = areas if self.before == self.before else "one class, so no AUC"
        return f"Ranking unchanged, except that tied scores differ by segment ({shown})."


def ranking_between(cells: SegmentCells, x: Floats) -> Ranking:
    """Compare the order of the scores with that of log-odds x, on rows that have both."""
    scores = np.where(np.isnan(x), np.nan, cells.axis[cells.place])
    before, after = (auc(cells.ranked(each)).value for each in (scores, expit(x)))
    known = np.flatnonzero(~np.isnan(x))
    known = known[np.argsort(scores[known], kind="stable")]
    starts = np.flatnonzero(np.diff(scores[known], prepend=-np.inf))
    low, high = (extreme.reduceat(x[known], starts) for extreme in (np.minimum, np.maximum))
    return _ranking(low, high, before, after)


def _ranking(low: Floats, high: Floats, before: float, after: float) -> Ranking:
    """From the smallest and the largest log-odds at each score, in ascending order of the scores."""
    falls = bool((np.maximum.accumulate(high)[:-1] > low[1:] + TIE_TOLERANCE).any())
    rises = bool((np.minimum.accumulate(low)[:-1] + TIE_TOLERANCE < high[1:]).any())
    split = bool((high > low + TIE_TOLERANCE).any())
    if falls:
        return Ranking("mixed" if rises or split else "reversed", before, after)
    if split:
        return SplitTies("unchanged", before, after)
    if (low[1:] > high[:-1]).all():
        return Ranking("unchanged", before, after)
    return Ranking("ties" if rises else "lost", before, after)
