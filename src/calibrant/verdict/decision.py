"""The status of a verdict: tests against calibration, and intervals compared with the tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from calibrant.messages import InputError
from calibrant.metrics.binary.likelihood import Parameter, Parameters
from calibrant.metrics.chance import Chance
from calibrant.metrics.variance import FEWEST_CLUSTERS
from calibrant.tallies import Tally
from calibrant.verdict.evidence import Evidence
from calibrant.verdict.outlook import Rule, more_labels
from calibrant.verdict.shape import Misfit, Tolerance, worst_misfit

Status = Literal["calibrated", "miscalibrated", "off", "cannot tell"]


class Direction(Enum):
    """How the probabilities deviate overall."""

    TOO_LOW = "too low"
    TOO_HIGH = "too high"
    TOO_EXTREME = "too extreme"
    NOT_EXTREME_ENOUGH = "not extreme enough"
    ONLY_ENDS = "only 0 and 1"


TOLERANCE = (0.2, 0.2)
"""Default tolerance of intercept and slope."""

WITHIN_CONFIDENCE = 0.95
"""Confidence level of the intervals of intercept and slope that must lie within the tolerance for "calibrated"."""

ALPHA_INTERCEPT, ALPHA_SLOPE, ALPHA_SHAPE = 0.02, 0.02, 0.01
"""Significance levels of the tests of intercept, slope and score ranges; they add up to 5 % (Bonferroni)."""

RULE = Rule(WITHIN_CONFIDENCE, 1.0 - ALPHA_INTERCEPT, 1.0 - ALPHA_SLOPE)


@dataclass(frozen=True)
class Against:
    """Tests of perfect calibration: p-values of intercept and slope, and the score range that fits worst."""

    intercept: float
    slope: float
    shape: Misfit | None
    """The score range that fits worst, if its adjusted p-value is at most 1 %."""

    @property
    def by_intercept(self) -> bool:
        """Whether the number of events differs significantly from what the scores predict."""
        return self.intercept <= ALPHA_INTERCEPT

    @property
    def by_slope(self) -> bool:
        """Whether the scores are significantly too extreme, or not extreme enough."""
        return self.slope <= ALPHA_SLOPE

    @property
    def found(self) -> bool:
        """Whether perfect calibration is rejected, which happens for at most 5 % of calibrated models."""
        return self.by_intercept or self.by_slope or self.shape is not None

    @property
    def range_alone(self) -> Misfit | None:
        """The score range, if neither intercept nor slope rejects."""
        return None if self.by_intercept or self.by_slope else self.shape


@dataclass(frozen=True)
class Beyond:
    """What is shown to be beyond the tolerance; wrong for at most 5 % of models within the tolerance."""

    intercept: bool
    slope: bool
    shape: Misfit | None

    @property
    def found(self) -> bool:
        """Whether anything is beyond the tolerance."""
        return self.intercept or self.slope or self.shape is not None

    @property
    def range_alone(self) -> Misfit | None:
        """The score range, if neither intercept nor slope is shown to be beyond the tolerance."""
        return None if self.intercept or self.slope else self.shape


@dataclass(frozen=True)
class Decision:
    """The status and what it is based on; fields shared with :class:`Verdict` are described there."""

    status: Status
    parameters: Parameters
    tolerance: Tolerance
    chance: Chance
    against: Against
    beyond: Beyond
    within: bool
    at_ends: tuple[float, float]
    only_ends: bool
    few_groups: bool
    more_labels: int | None


def decide(evidence: Evidence, tolerance: tuple[float, float] = TOLERANCE) -> Decision:
    """Compare intercept, slope and score ranges with perfect calibration and with the tolerance."""
    tally, data = evidence.tally, evidence.clusters or evidence.tally
    parameters = Parameters.of(data)
    limits = _limits(parameters, check_tolerance(tolerance))
    chance = Chance.of(data)
    few = evidence.clusters is not None and evidence.clusters.size < FEWEST_CLUSTERS
    at_ends, only_ends = _at_ends(tally), bool(np.isin(tally.scores, (0.0, 1.0)).all())
    if few or only_ends or parameters.level is None:
        against, beyond, within = Against(1.0, 1.0, None), Beyond(False, False, None), False
    else:
        against = _against(evidence, parameters, chance)
        beyond = _beyond(evidence, parameters, limits)
        within = _within(parameters, limits)
    status: Status = "cannot tell"
    if beyond.found or (only_ends and any(at_ends)):
        status = "miscalibrated"
    elif within:
        status = "calibrated"
    elif against.found:
        status = "off"
    needed = None
    if status in ("off", "cannot tell") and not only_ends and not few:
        needed = more_labels(parameters, limits, RULE, physical_rows(tally))
    return Decision(status, parameters, limits, chance, against, beyond, within, at_ends, only_ends, few, needed)


def _limits(parameters: Parameters, tolerance: tuple[float, float]) -> Tolerance:
    spread = parameters.likelihood.spread
    return Tolerance(tolerance[0], tolerance[1] / min(spread, 1.0) if spread > 0.0 else np.inf)


def _against(evidence: Evidence, parameters: Parameters, chance: Chance) -> Against:
    level, slope = parameters.level, parameters.slope
    plain = evidence.clusters is None and evidence.tally.counts
    total = chance.p_value(float(evidence.tally.positives)) if plain or level is None else level.p_value(0.0)
    shape = worst_misfit(parameters.likelihood, Tolerance(0.0, 0.0), evidence)
    return Against(total, 1.0 if slope is None else slope.p_value(1.0), _if_significant(shape))


def _beyond(evidence: Evidence, parameters: Parameters, limits: Tolerance) -> Beyond:
    level = _outside(parameters.level, 0.0, limits.intercept, 1.0 - ALPHA_INTERCEPT)
    slope = _outside(parameters.slope, 1.0, limits.slope, 1.0 - ALPHA_SLOPE)
    return Beyond(level, slope, _if_significant(worst_misfit(parameters.likelihood, limits, evidence)))


def _within(parameters: Parameters, limits: Tolerance) -> bool:
    pairs = ((parameters.level, 0.0, limits.intercept), (parameters.slope, 1.0, limits.slope))
    return all(parameter is None or _inside(parameter, ideal, limit) for parameter, ideal, limit in pairs)


def _inside(parameter: Parameter, ideal: float, limit: float) -> bool:
    low, high = parameter.interval(WITHIN_CONFIDENCE)
    return ideal - limit <= low and high <= ideal + limit


def _outside(parameter: Parameter | None, ideal: float, limit: float, confidence: float) -> bool:
    if parameter is None:
        return False
    low, high = parameter.interval(confidence)
    return low > ideal + limit or high < ideal - limit


def _if_significant(misfit: Misfit | None) -> Misfit | None:
    return misfit if misfit is not None and misfit.p_value <= ALPHA_SHAPE else None


def physical_rows(tally: Tally) -> float:
    """Number of rows, regardless of their weights."""
    rows = tally.cells.rows
    return float(tally.total if tally.counts or rows is None else rows.sum())


def check_tolerance(tolerance: tuple[float, float]) -> tuple[float, float]:
    """Two positive numbers; anything else raises an error."""
    pair = np.asarray(tolerance, dtype=np.float64)
    if pair.shape != (2,) or not (np.isfinite(pair).all() and (pair > 0.0).all()):
        raise InputError("tolerance", f"must be two positive numbers, for intercept and slope, got {tolerance!r}")
    return float(pair[0]), float(pair[1])


def _at_ends(tally: Tally) -> tuple[float, float]:
    """Events at a score of exactly 0, and non-events at exactly 1."""
    scores = tally.scores
    zero, one = scores == 0.0, scores == 1.0
    return float(tally.events[zero].sum()), float((tally.n[one] - tally.events[one]).sum())
