"""Honest numbers about segments: losses on rows that the maps had not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrant.fits.ranking import Ranking
from calibrant.fits.segments import SegmentCells
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

SAME = 1e-9
"""Log-odds that differ by less are those of one probability, and its rounding."""


def random_parts(cells: SegmentCells, count: int, random_state: int) -> tuple[tuple[Ints, Tally], ...]:
    """Random parts of the rows: the numbers of their cells, and a tally over these numbers as if they were scores.

    The draw is on the counts, so that the order of rows does not matter.
    """
    folds = Folds.at_random(cells.numbered(), count, random_state)
    return tuple((part.scores.astype(np.int64), part) for part in folds.parts)


def reference(tally: Tally) -> Candidate:
    """What the model itself says: its probabilities, or Platt's map where real scores are none."""
    found = CANDIDATES["platt" if tally.kind == "real" else "identity"]
    return replace(found, least=0.0)


def kept(tally: Tally) -> Map:
    """The model as it is, fitted as :func:`reference` says."""
    return reference(tally).fit(tally)


def by_number(values: Floats) -> StepMap:
    """From the number of a cell to its probability."""
    return StepMap(np.arange(1.0, len(values)) - 0.5, values)


too_few_to_judge = note("too-few-to-judge", "too few {nouns.rows} to fit to some and judge on others")


@note("sources-unjudged")
def sources_unjudged(voice: Voice, sources: tuple[str, ...]) -> str:
    """Of a mean over sources."""
    return f"without {', '.join(sources)}: too few {voice.nouns.rows} to judge them"


def estimate(
    name: str, losses: Losses | None, weights: Sequence[float], loss: Loss, notes: tuple[Note, ...] = ()
) -> Estimate:
    """A combination of mean losses, with its 95 % interval."""
    if losses is None:
        return Estimate(name, float("nan"), notes=(too_few_to_judge(),))
    return Estimate(name, *losses.interval(np.array(weights), loss), notes=notes)


def weighted_mean(name: str, found: Mapping[str, tuple[float, Estimate]]) -> Estimate:
    """Mean over sources, which share no rows, by their rows; a note names those whose estimate is not known."""
    known = [(weight, each.value, each.se or 0.0) for weight, each in found.values() if not np.isnan(each.value)]
    if not known:
        return Estimate(name, float("nan"), notes=(too_few_to_judge(),))
    unknown = [source for source, (_, each) in found.items() if np.isnan(each.value)]
    notes = (sources_unjudged(tuple(unknown)),) if unknown else ()
    weight, values, ses = np.array(known).T
    value = float((weight * values).sum() / weight.sum())
    se = float(np.sqrt(((weight * ses) ** 2).sum()) / weight.sum())
    return Estimate(name, value, se, value - TWO_SIDED * se, value + TWO_SIDED * se, notes=notes)


@dataclass(frozen=True)
class SplitTies(Ranking):
    """Higher scores keep higher probabilities, but equal scores do not get equal ones."""

    def __str__(self) -> str:
        """One sentence."""
        areas = f"AUC {self.before:.4f} to {self.after:.4f} on the fitted rows"
        shown = areas if self.before == self.before else "one class, so no AUC"
        return f"Ranking kept; equal scores differ by segment ({shown})."


def ranking_between(cells: SegmentCells, x: Floats) -> Ranking:
    """The order of the scores against that of log-odds x, on the rows that have both."""
    scores = np.where(np.isnan(x), np.nan, cells.axis[cells.place])
    before, after = (auc(cells.ranked(each)).value for each in (scores, expit(x)))
    known = np.flatnonzero(~np.isnan(x))
    known = known[np.argsort(scores[known], kind="stable")]
    starts = np.flatnonzero(np.diff(scores[known], prepend=-np.inf))
    low, high = (extreme.reduceat(x[known], starts) for extreme in (np.minimum, np.maximum))
    return _ranking(low, high, before, after)


def _ranking(low: Floats, high: Floats, before: float, after: float) -> Ranking:
    """From the least and the largest log-odds at each score, in ascending order of the scores."""
    falls = bool((np.maximum.accumulate(high)[:-1] > low[1:] + SAME).any())
    rises = bool((np.minimum.accumulate(low)[:-1] + SAME < high[1:]).any())
    split = bool((high > low + SAME).any())
    if falls:
        return Ranking("mixed" if rises or split else "reversed", before, after)
    if split:
        return SplitTies("unchanged", before, after)
    if (low[1:] > high[:-1]).all():
        return Ranking("unchanged", before, after)
    return Ranking("ties" if rises else "lost", before, after)
