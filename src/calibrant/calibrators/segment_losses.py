"""Honest numbers about segments: losses on rows that the maps had not seen.

Nothing here is an estimator, so that the mathematics needs no scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibrant.calibrators.candidates import CANDIDATES
from calibrant.calibrators.choosing import Candidate
from calibrant.calibrators.losses import Losses
from calibrant.calibrators.ranking import Ranking
from calibrant.calibrators.segmenting import SegmentCells
from calibrant.maps import Map, StepMap
from calibrant.metrics.estimates import TWO_SIDED, Estimate
from calibrant.metrics.scores import auc
from calibrant.numerics import Floats, expit
from calibrant.tallies import Tally


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


def estimate(name: str, losses: Losses | None, weights: Sequence[float]) -> Estimate:
    """A combination of mean losses, with its 95 % interval."""
    if losses is None:
        return Estimate(name, float("nan"), notes=("too few rows to fit to some and judge on others",))
    value, se = float((np.array(weights) * losses.means).sum()), losses.spread(np.array(weights))
    return Estimate(name, value, se, value - TWO_SIDED * se, value + TWO_SIDED * se)


def weighted_mean(name: str, found: Sequence[tuple[float, Estimate]]) -> Estimate:
    """Mean over sources, which share no rows, by their rows."""
    known = [(weight, each.value, each.se or 0.0) for weight, each in found if not np.isnan(each.value)]
    if not known:
        return Estimate(name, float("nan"), notes=("too few rows to fit to some and judge on others",))
    weight, values, ses = np.array(known).T
    value = float((weight * values).sum() / weight.sum())
    se = float(np.sqrt(((weight * ses) ** 2).sum()) / weight.sum())
    return Estimate(name, value, se, value - TWO_SIDED * se, value + TWO_SIDED * se)


def ranking_between(cells: SegmentCells, x: Floats) -> Ranking:
    """Segments that move apart change the order between them, whatever each one's map does."""
    scores, probabilities = (auc(cells.ranked(each)).value for each in (cells.axis[cells.place], expit(x)))
    return Ranking("mixed", scores, probabilities)
