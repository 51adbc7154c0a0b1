"""The status of a verdict: tests against calibration, and intervals compared with the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import numpy as np

from calibrant.metrics.binary.curves.likelihood import Parameter, Parameters
from calibrant.metrics.chance import Chance
from calibrant.metrics.multiplicity import holm
from calibrant.metrics.tolerance import TOLERANCE, check_tolerance, slope_room
from calibrant.metrics.variance import FEWEST_CLUSTERS, ratio_rate
from calibrant.tallies import Tally
from calibrant.verdict.input.evidence import Evidence, physical_rows
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
    NOT_ESTABLISHED = "off, in a direction that is not established"


WITHIN_CONFIDENCE = 0.95
"""Confidence level of the intervals of intercept and slope that must lie within the tolerance for "calibrated"."""

ALPHA_INTERCEPT, ALPHA_SLOPE, ALPHA_SHAPE = 0.02, 0.02, 0.01
"""Significance levels of the tests of intercept, slope and score ranges; they add up to 5 % (Bonferroni)."""

ALPHA = ALPHA_INTERCEPT + ALPHA_SLOPE + ALPHA_SHAPE
"""Significance level of the three tests together."""

RULE = Rule(WITHIN_CONFIDENCE, 1.0 - ALPHA_INTERCEPT, 1.0 - ALPHA_SLOPE)


@dataclass(frozen=True)
class Against:
    """Tests of perfect calibration: p-values of intercept and slope, and the score range that fits worst."""

    intercept: float
    slope: float
    shape: Misfit | None
    """The score range that fits worst, if its adjusted p-value is at most 1 %."""
    intercept_side: bool = True
    slope_side: bool = True
    """Whether intervals that hold for a wrong model, at the level of the test, are beyond 0 and 1: on which side."""

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
        """The score range, if neither intercept nor slope rejects, or their sides are not established."""
        sides = self.by_intercept and self.intercept_side, self.by_slope and self.slope_side
        return None if any(sides) else self.shape


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
class PValues:
    """P-values of the tests of intercept, slope and score ranges, against calibration or against the tolerance."""

    intercept: float = 1.0
    slope: float = 1.0
    shape: Misfit | None = None
    """The score range that fits worst."""
    intercept_side: float = 0.0
    slope_side: float = 0.0
    """The same p-values if labels vary otherwise than the model says, as a direction requires."""

    @property
    def p_value(self) -> float:
        """One p-value of the three tests (weighted Bonferroni): at most 5 % if and only if one of them rejects."""
        shape = 1.0 if self.shape is None else self.shape.p_value
        levels = ((self.intercept, ALPHA_INTERCEPT), (self.slope, ALPHA_SLOPE), (shape, ALPHA_SHAPE))
        return min(1.0, *(p * ALPHA / level for p, level in levels))

    def times(self, factor: float) -> PValues:
        """With p-values multiplied by a factor, to adjust for other tests."""
        shape = self.shape
        if shape is not None:
            shape = replace(shape, p_value=min(1.0, factor * shape.p_value))
        every = self.intercept, self.slope, self.intercept_side, self.slope_side
        intercept, slope, *sides = (min(1.0, factor * each) for each in every)
        return PValues(intercept, slope, shape, *sides)

    def against(self) -> Against:
        """As tests of perfect calibration."""
        sides = self.intercept_side <= ALPHA_INTERCEPT, self.slope_side <= ALPHA_SLOPE
        return Against(self.intercept, self.slope, _if_significant(self.shape), *sides)

    def beyond(self) -> Beyond:
        """As tests of the tolerance."""
        return Beyond(self.intercept <= ALPHA_INTERCEPT, self.slope <= ALPHA_SLOPE, _if_significant(self.shape))


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
    of_calibration: PValues = PValues()
    of_tolerance: PValues = PValues()
    """The p-values behind ``against`` and ``beyond``."""
    p_value: float | None = None
    """Of perfect calibration, adjusted for several classes by Holm's method; None for one problem."""


def decide(evidence: Evidence, tolerance: tuple[float, float] = TOLERANCE, *, among: bool = False) -> Decision:
    """Compare intercept, slope and score ranges with perfect calibration and with the tolerance.

    With ``among`` the problem is one of several classes: a class that no row has, or that all rows have, is then tested
    too, and the number of labels to add is not estimated.
    """
    tally, data = evidence.tally, evidence.clusters or evidence.tally
    parameters = Parameters.of(data)
    limits = _limits(parameters, check_tolerance(tolerance))
    chance = Chance.of(data)
    few = evidence.clusters is not None and evidence.clusters.size < FEWEST_CLUSTERS
    at_ends, only_ends = _at_ends(tally), bool(np.array_equal(tally.scores, [0.0, 1.0]))
    of_calibration = of_tolerance = PValues()
    within = False
    if not tally.has_interior and any(at_ends):
        of_tolerance = PValues(0.0)
    elif parameters.level is None and among and not (few or only_ends):
        sided = float(ratio_rate(data).p_values[0])
        of_calibration = PValues(chance.p_value(float(tally.positives)), intercept_side=sided)
    elif not (few or only_ends or parameters.level is None):
        of_calibration = _of_calibration(evidence, parameters, chance)
        of_tolerance = _of_tolerance(evidence, parameters, limits)
        within = _within(parameters, limits)
    decision = Decision(
        "cannot tell",
        parameters,
        limits,
        chance,
        of_calibration.against(),
        Beyond(False, False, None) if only_ends else of_tolerance.beyond(),
        within,
        at_ends,
        only_ends,
        few,
        None,
        of_calibration,
        of_tolerance,
    )
    decision = replace(decision, status=_status(decision))
    if among or decision.status not in ("off", "cannot tell") or only_ends or few:
        return decision
    return replace(decision, more_labels=more_labels(parameters, limits, RULE, physical_rows(tally)))


def adjusted(decisions: Sequence[Decision]) -> list[Decision]:
    """Decisions about several classes, with p-values adjusted for their number by Holm's method (1979).

    At most 5 % of calibrated models have a class that is called off or miscalibrated, and at most 5 % of models within
    the tolerance in every class have one that is called miscalibrated, however the classes depend on each other.
    """
    factors = []
    for tests in ("of_calibration", "of_tolerance"):
        raw = np.array([getattr(decision, tests).p_value for decision in decisions])
        factors.append(np.divide(holm(raw), raw, out=np.full(len(raw), float(len(raw))), where=raw > 0.0))
    made = []
    for decision, calibration, tolerance in zip(decisions, *factors, strict=True):
        of_calibration = decision.of_calibration.times(float(calibration))
        of_tolerance = decision.of_tolerance.times(float(tolerance))
        beyond = decision.beyond if decision.only_ends else of_tolerance.beyond()
        changed = replace(
            decision,
            against=of_calibration.against(),
            beyond=beyond,
            of_calibration=of_calibration,
            of_tolerance=of_tolerance,
            p_value=min(1.0, float(calibration) * decision.of_calibration.p_value),
        )
        made.append(replace(changed, status=_status(changed)))
    return made


def _status(decision: Decision) -> Status:
    if decision.beyond.found or (decision.only_ends and any(decision.at_ends)):
        return "miscalibrated"
    if decision.within:
        return "calibrated"
    return "off" if decision.against.found else "cannot tell"


def joint_status(statuses: Sequence[Status]) -> Status:
    """The status of several problems: miscalibrated or off if one is, calibrated if all are.

    Examples
    --------
    >>> joint_status(["calibrated", "off"]), joint_status(["calibrated", "cannot tell"])
    ('off', 'cannot tell')
    """
    for status in ("miscalibrated", "off"):
        if status in statuses:
            return status
    return "calibrated" if statuses and set(statuses) == {"calibrated"} else "cannot tell"


def _limits(parameters: Parameters, tolerance: tuple[float, float]) -> Tolerance:
    return Tolerance(tolerance[0], slope_room(tolerance[1], parameters.likelihood.spread))


def _of_calibration(evidence: Evidence, parameters: Parameters, chance: Chance) -> PValues:
    level, slope = parameters.level, parameters.slope
    plain = evidence.clusters is None and evidence.tally.counts
    total = chance.p_value(float(evidence.tally.positives)) if plain or level is None else level.p_value(0.0)
    shape = worst_misfit(parameters.likelihood, Tolerance(0.0, 0.0), evidence)
    sides = (0.0 if each is None else each.p_of_interval(ideal) for each, ideal in ((level, 0.0), (slope, 1.0)))
    return PValues(total, 1.0 if slope is None else slope.p_value(1.0), shape, *sides)


def _of_tolerance(evidence: Evidence, parameters: Parameters, limits: Tolerance) -> PValues:
    return PValues(
        _outside(parameters.level, 0.0, limits.intercept),
        _outside(parameters.slope, 1.0, limits.slope),
        worst_misfit(parameters.likelihood, limits, evidence),
    )


def _within(parameters: Parameters, limits: Tolerance) -> bool:
    pairs = ((parameters.level, 0.0, limits.intercept), (parameters.slope, 1.0, limits.slope))
    return all(parameter is None or _inside(parameter, ideal, limit) for parameter, ideal, limit in pairs)


def _inside(parameter: Parameter, ideal: float, limit: float) -> bool:
    low, high = parameter.interval(WITHIN_CONFIDENCE)
    return ideal - limit <= low and high <= ideal + limit


def _outside(parameter: Parameter | None, ideal: float, limit: float) -> float:
    """P-value of the nearer limit of the tolerance, if the estimate is outside; otherwise 1."""
    if parameter is None or not np.isfinite(limit) or abs(parameter.value - ideal) <= limit:
        return 1.0
    return parameter.p_of_interval(ideal + float(np.copysign(limit, parameter.value - ideal)))


def _if_significant(misfit: Misfit | None) -> Misfit | None:
    return misfit if misfit is not None and misfit.p_value <= ALPHA_SHAPE else None


def _at_ends(tally: Tally) -> tuple[float, float]:
    """Events at a score of exactly 0, and non-events at exactly 1."""
    scores = tally.scores
    zero, one = scores == 0.0, scores == 1.0
    return float(tally.events[zero].sum()), float((tally.n[one] - tally.events[one]).sum())
