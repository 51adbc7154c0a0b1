"""Test whether the rows reject the original model, by its intercept and slope, as in ``check``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calibrant.messages import Shown
from calibrant.metrics.binary.curves.likelihood import Parameter, Parameters
from calibrant.metrics.variance import FEWEST_CLUSTERS
from calibrant.numerics import expit
from calibrant.tallies import Clusters, Tally

ALPHA = 0.01
"""Significance level: probability that a calibrated model is rejected; intercept and slope get half of it each."""

TRAINING_SLOPE = 1.5
"""Slope above which a reader is asked whether these are rows that the model was trained on."""


class Sample(NamedTuple):
    """The rows on which a choice is made."""

    tally: Tally
    """Rows for fitting."""
    rows: Callable[[], Tally | Clusters]
    """Rows for testing: the same ones by their groups, collected only if a test is needed."""


@dataclass(frozen=True)
class OriginalTest(Shown):
    r"""Likelihood-ratio tests that the intercept of the log-odds is 0, and that their slope is 1.

    Attributes
    ----------
    level, slope
        p-values of intercept and slope. They are 1 where the rows carry no information: one class, fewer than ten
        groups, only scores of 0 and 1, or, for the slope, equal scores.
    shift
        Estimated intercept: above 0 there are more events than predicted.
    estimated_slope
        Estimated slope: below 1 the scores are too extreme.
    sides
        The p-values of intercept and slope if labels vary otherwise than the model says, as a direction requires.
    """

    level: float = 1.0
    slope: float = 1.0
    shift: float = 0.0
    estimated_slope: float = 1.0
    sides: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, data: Tally | Clusters) -> OriginalTest:
        """Test rows of probabilities or log-odds, with their weights and groups."""
        tally = data.tally if isinstance(data, Clusters) else data
        few = isinstance(data, Clusters) and data.size < FEWEST_CLUSTERS
        ends = tally.score_type == "probability" and bool(np.isin(tally.scores, (0.0, 1.0)).all())
        if tally.score_type == "real" or few or ends:
            return cls()
        found = Parameters.of(_probabilities(data) if tally.score_type == "logit" else data)
        level, slope = _tested(found.level, 0.0), _tested(found.slope, 1.0)
        return cls(level[0], slope[0], level[1], slope[1], (level[2], slope[2]))

    @property
    def rejects(self) -> bool:
        """Whether the original model is rejected; the nominal rate for calibrated models is at most 1 %."""
        return min(self.level, self.slope) <= ALPHA / 2.0

    @property
    def on_training_rows(self) -> bool:
        """Whether the slope is as steep as that of a model on its own training rows."""
        return self.estimated_slope > TRAINING_SLOPE and max(self.slope, self.sides[1]) <= ALPHA / 2.0

    def __str__(self) -> str:
        """The rejected hypotheses, with p-value, and direction where it is established; empty if there are none."""
        found, (by_level, by_slope) = [], (side <= ALPHA / 2.0 for side in self.sides)
        if self.level <= ALPHA / 2.0:
            word = (
                f"too {'low' if self.shift > 0.0 else 'high'}"
                if by_level
                else "off in total, in a direction that is not established"
            )
            found.append(f"the probabilities are {word} ({_p(self.level)})")
        if self.slope <= ALPHA / 2.0:
            word = "too extreme" if self.estimated_slope < 1.0 else "not extreme enough"
            said = f"the scores are {word}" if by_slope else "the slope is not 1, on a side that is not established"
            found.append(f"{said} (slope {self.estimated_slope:.3g}, {_p(self.slope)})")
        return " and ".join(found)


def _tested(parameter: Parameter | None, ideal: float) -> tuple[float, float, float]:
    """The p-value of the ideal value, the estimate, and the p-value of its side."""
    if parameter is None:
        return 1.0, ideal, 1.0
    return parameter.p_value(ideal), parameter.value, parameter.p_of_interval(ideal)


def _p(value: float) -> str:
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.4f}"


def _probabilities(data: Tally | Clusters) -> Tally | Clusters:
    """Log-odds as probabilities; those that round to the same double share a cell."""
    tally = data.tally if isinstance(data, Clusters) else data
    scores = expit(tally.scores)
    made = Tally(replace(tally.cells, offset=None).merged(scores, None), score_type="probability", counts=tally.counts)
    if isinstance(data, Tally):
        return made
    return replace(data, tally=made, cell=np.searchsorted(made.cells.keys, scores)[data.cell])
