"""Whether rows reject the original model: a test of its level and its slope, as in ``check``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calibrant.metrics.binary.likelihood import Parameter, Parameters
from calibrant.metrics.variance import FEWEST_CLUSTERS
from calibrant.numerics import expit
from calibrant.tallies import Clusters, Tally

ALPHA = 0.01
"""Chance that a calibrated model is rejected; level and slope have half of it each."""


class Sample(NamedTuple):
    """Rows that a choice is made on."""

    tally: Tally
    """What is fitted to."""
    rows: Callable[[], Tally | Clusters]
    """What is tested: the same rows by their groups, put together only when a test is needed."""


@dataclass(frozen=True)
class OriginalTest:
    r"""Likelihood-ratio tests that the level of the log-odds is 0, and that their slope is 1.

    Attributes
    ----------
    level, slope
        p-values; 1 where the rows say nothing: one class, fewer than ten groups, scores of 0 and 1 alone, or for the
        slope equal scores.
    shift
        Estimated level: above 0 there are more events than predicted.
    stretch
        Estimated slope: below 1 the scores are too extreme.
    """

    level: float = 1.0
    slope: float = 1.0
    shift: float = 0.0
    stretch: float = 1.0

    @classmethod
    def of(cls, data: Tally | Clusters) -> OriginalTest:
        """Test rows of probabilities or log-odds, with their weights and groups."""
        tally = data.tally if isinstance(data, Clusters) else data
        few = isinstance(data, Clusters) and data.size < FEWEST_CLUSTERS
        ends = tally.kind == "probability" and bool(np.isin(tally.scores, (0.0, 1.0)).all())
        if tally.kind == "real" or few or ends:
            return cls()
        found = Parameters.of(_probabilities(data) if tally.kind == "logit" else data)
        level, slope = _tested(found.level, 0.0), _tested(found.slope, 1.0)
        return cls(level[0], slope[0], level[1], slope[1])

    @property
    def rejects(self) -> bool:
        """Whether the original model is rejected; at most 1 % of calibrated models are."""
        return min(self.level, self.slope) <= ALPHA / 2.0

    def __str__(self) -> str:
        """What is rejected, in which direction, with the p-values; empty where nothing is."""
        found = []
        if self.level <= ALPHA / 2.0:
            found.append(f"the probabilities are too {'low' if self.shift > 0.0 else 'high'} ({_p(self.level)})")
        if self.slope <= ALPHA / 2.0:
            word = "too extreme" if self.stretch < 1.0 else "not extreme enough"
            found.append(f"the scores are {word} (slope {self.stretch:.3g}, {_p(self.slope)})")
        return " and ".join(found)


def _tested(parameter: Parameter | None, ideal: float) -> tuple[float, float]:
    """The p-value of the ideal, and the estimate."""
    return (1.0, ideal) if parameter is None else (parameter.p_value(ideal), parameter.value)


def _p(value: float) -> str:
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.4f}"


def _probabilities(data: Tally | Clusters) -> Tally | Clusters:
    """Log-odds as probabilities; those that no double tells apart are one cell."""
    tally = data.tally if isinstance(data, Clusters) else data
    scores = expit(tally.scores)
    made = Tally(replace(tally.cells, offset=None).merged(scores, None), kind="probability", counts=tally.counts)
    if isinstance(data, Tally):
        return made
    return replace(data, tally=made, cell=np.searchsorted(made.cells.keys, scores)[data.cell])
