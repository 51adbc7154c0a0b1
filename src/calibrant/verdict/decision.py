"""The status of a verdict: tests against calibration, and intervals compared with the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import numpy as np

from calibrant.metrics.binary.curves.likelihood import Parameter, Parameters
from calibrant.metrics.chance import Chance
from calibrant.metrics.curve import LEVEL as LEVEL_CURVE
from calibrant.metrics.curve import CurveError
from calibrant.metrics.multiplicity import holm
from calibrant.metrics.tolerance import LIMIT, Limits
from calibrant.metrics.variance import FEWEST_CLUSTERS, ratio_rate
from calibrant.tallies import Tally
from calibrant.verdict.input.evidence import Evidence, physical_rows
from calibrant.verdict.outlook import more_labels
from calibrant.verdict.shape import Misfit, Tolerance, worst_misfit

Status = Literal["calibrated", "miscalibrated", "off", "cannot tell"]

Rung = Literal["curve", "line", "mean"]
"""What is shown to be within the limit: the curve (moderate calibration), the fitted line alone, or the mean alone."""


class Direction(Enum):
    """How the probabilities deviate overall."""

    TOO_LOW = "too low"
    TOO_HIGH = "too high"
    TOO_EXTREME = "too extreme"
    NOT_EXTREME_ENOUGH = "not extreme enough"
    ONLY_ENDS = "only 0 and 1"
    NOT_ESTABLISHED = "off, in a direction that is not established"


WITHIN_CONFIDENCE = 0.95
"""Confidence level of the intervals of intercept and slope that must lie within limits."""

FEWEST_RANGES, FEWEST_OF_A_CLASS = 5, 20
"""Ranges of scores, and events and non-events, without which a curve is not said to be within the limit."""

ALPHA_INTERCEPT, ALPHA_SLOPE, ALPHA_SHAPE = 0.01, 0.01, 0.01
"""Significance levels of the tests of intercept, slope and score ranges. Those of segments and of a region are 1 % too:
of calibrated models, at most 5 % have anything to report (Bonferroni)."""

ALPHA = ALPHA_INTERCEPT + ALPHA_SLOPE + ALPHA_SHAPE
"""Significance level of the three tests together."""


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
        """Whether perfect calibration is rejected, which happens for at most 3 % of calibrated models."""
        return self.by_intercept or self.by_slope or self.shape is not None

    @property
    def range_alone(self) -> Misfit | None:
        """The score range, if neither intercept nor slope rejects, or their sides are not established."""
        sides = self.by_intercept and self.intercept_side, self.by_slope and self.slope_side
        return None if any(sides) else self.shape


@dataclass(frozen=True)
class Beyond:
    """What is shown to be beyond the limit; each is wrong for at most 5 % of models within it."""

    curve: bool
    intercept: bool
    slope: bool
    shape: Misfit | None
    """A range of the scores alone, which the error of the whole curve may hide."""

    @property
    def found(self) -> bool:
        """Whether the model as a whole is beyond the limit: its curve, or a limit of intercept or slope."""
        return self.curve or self.intercept or self.slope


@dataclass(frozen=True)
class PValues:
    """P-values of the tests of calibration: intercept, slope and score ranges."""

    intercept: float = 1.0
    slope: float = 1.0
    shape: Misfit | None = None
    """The score range that fits worst."""
    intercept_side: float = 0.0
    slope_side: float = 0.0
    """The same p-values if labels vary otherwise than the model says, as a direction requires."""

    @property
    def p_value(self) -> float:
        """One p-value of the three tests (Bonferroni): at most 3 % if and only if one of them rejects."""
        shape = 1.0 if self.shape is None else self.shape.p_value
        levels = ((self.intercept, ALPHA_INTERCEPT), (self.slope, ALPHA_SLOPE), (shape, ALPHA_SHAPE))
        return min(1.0, *(p * ALPHA / level for p, level in levels))

    def times(self, factor: float) -> PValues:
        """With p-values multiplied by a factor, to adjust for other tests."""
        every = self.intercept, self.slope, self.intercept_side, self.slope_side
        intercept, slope, *sides = (min(1.0, factor * each) for each in every)
        return PValues(intercept, slope, _times(self.shape, factor), *sides)

    def against(self) -> Against:
        """As tests of perfect calibration."""
        sides = self.intercept_side <= ALPHA_INTERCEPT, self.slope_side <= ALPHA_SLOPE
        return Against(self.intercept, self.slope, _if_significant(self.shape, ALPHA_SHAPE), *sides)


@dataclass(frozen=True)
class BeyondPValues:
    """P-values that the model is within the limits: the curve, intercept and slope if they have limits, a range."""

    curve: float = 1.0
    intercept: float = 1.0
    slope: float = 1.0
    shape: Misfit | None = None
    parts: int = 1
    """2 if intercept and slope have limits: their tests and that of the curve then share the level."""

    @property
    def p_value(self) -> float:
        """One p-value that the whole is within the limits."""
        return min(1.0, self.parts * self.curve, 2 * self.parts * min(self.intercept, self.slope))

    def times(self, factor: float) -> BeyondPValues:
        """With p-values multiplied by a factor, to adjust for other tests."""
        curve, intercept, slope = (min(1.0, factor * each) for each in (self.curve, self.intercept, self.slope))
        return BeyondPValues(curve, intercept, slope, _times(self.shape, factor), self.parts)

    def beyond(self) -> Beyond:
        """What is shown to be beyond the limits."""
        curve, line = LEVEL_CURVE / self.parts, LEVEL_CURVE / (2 * self.parts)
        shape = _if_significant(self.shape, ALPHA_SHAPE)
        return Beyond(self.curve <= curve, self.intercept <= line, self.slope <= line, shape)


@dataclass(frozen=True)
class Decision:
    """The status and what it is based on; fields shared with :class:`Verdict` are described there."""

    status: Status
    parameters: Parameters
    limits: Limits
    curve: CurveError | None
    chance: Chance
    against: Against
    beyond: Beyond
    rung: Rung | None
    at_ends: tuple[float, float]
    only_ends: bool
    few_groups: bool
    more_labels: int | None
    of_calibration: PValues = PValues()
    of_limits: BeyondPValues = BeyondPValues()
    """The p-values behind ``against`` and ``beyond``."""
    p_value: float | None = None
    """Of perfect calibration, adjusted for several classes by Holm's method; None for one problem."""


def decide(evidence: Evidence, tolerance: float | tuple[float, float] = LIMIT, *, among: bool = False) -> Decision:
    """Compare the error of the curve with its limit, and test perfect calibration.

    With ``among`` the problem is one of several classes: a class that no row has, or that all rows have, is then tested
    too, and the number of labels to add is not estimated.
    """
    tally, data = evidence.tally, evidence.clusters or evidence.tally
    parameters, limits, chance = Parameters.of(data), Limits.of(tolerance), Chance.of(data)
    few = evidence.clusters is not None and evidence.clusters.size < FEWEST_CLUSTERS
    at_ends, only_ends = _at_ends(tally), bool(np.array_equal(tally.scores, [0.0, 1.0]))
    of_calibration, of_limits, curve, rung = PValues(), BeyondPValues(), None, None
    if not tally.has_interior and any(at_ends):
        of_limits = BeyondPValues(0.0)
    elif parameters.level is None and among and not (few or only_ends):
        sided = float(ratio_rate(data).p_values[0])
        of_calibration = PValues(chance.p_value(float(tally.positives)), intercept_side=sided)
    elif not (few or only_ends or parameters.level is None):
        of_calibration = _of_calibration(evidence, parameters, chance)
        curve = CurveError.of(data, limits.curve)
        of_limits = _of_limits(evidence, parameters, limits, curve)
        rung = _rung(tally, parameters, limits, curve)
    beyond = Beyond(False, False, False, None) if only_ends else of_limits.beyond()
    decision = Decision(
        "cannot tell", parameters, limits, curve, chance, of_calibration.against(), beyond, rung, at_ends, only_ends,
        few, None, of_calibration, of_limits,
    )  # fmt: skip
    decision = replace(decision, status=_status(decision))
    if among or decision.status != "cannot tell" or curve is None:
        return decision
    return replace(decision, more_labels=more_labels(curve, limits.curve, physical_rows(tally)))


def adjusted(decisions: Sequence[Decision]) -> list[Decision]:
    """Decisions about several classes, with p-values adjusted for their number by Holm's method (1979).

    At most 5 % of calibrated models have a class that is called off or miscalibrated, and at most 5 % of models within
    the limit in every class have one that is called miscalibrated, however the classes depend on each other.
    """
    factors = []
    for tests in ("of_calibration", "of_limits"):
        raw = np.array([getattr(decision, tests).p_value for decision in decisions])
        factors.append(np.divide(holm(raw), raw, out=np.full(len(raw), float(len(raw))), where=raw > 0.0))
    made = []
    for decision, calibration, limit in zip(decisions, *factors, strict=True):
        of_calibration = decision.of_calibration.times(float(calibration))
        of_limits = decision.of_limits.times(float(limit))
        changed = replace(
            decision,
            against=of_calibration.against(),
            beyond=decision.beyond if decision.only_ends else of_limits.beyond(),
            of_calibration=of_calibration,
            of_limits=of_limits,
            p_value=min(1.0, float(calibration) * decision.of_calibration.p_value),
        )
        made.append(replace(changed, status=_status(changed)))
    return made


def _status(decision: Decision) -> Status:
    if decision.beyond.found or (decision.only_ends and any(decision.at_ends)):
        return "miscalibrated"
    if decision.rung == "curve":
        return "calibrated"
    return "off" if decision.against.found or decision.beyond.shape is not None else "cannot tell"


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


def _of_calibration(evidence: Evidence, parameters: Parameters, chance: Chance) -> PValues:
    level, slope = parameters.level, parameters.slope
    plain = evidence.clusters is None and evidence.tally.counts
    total = chance.p_value(float(evidence.tally.positives)) if plain or level is None else level.p_value(0.0)
    shape = worst_misfit(parameters.likelihood, Tolerance(0.0, 0.0), evidence)
    sides = (0.0 if each is None else each.p_of_interval(ideal) for each, ideal in ((level, 0.0), (slope, 1.0)))
    return PValues(total, 1.0 if slope is None else slope.p_value(1.0), shape, *sides)


def _of_limits(evidence: Evidence, parameters: Parameters, limits: Limits, curve: CurveError) -> BeyondPValues:
    shape = worst_misfit(parameters.likelihood, Tolerance(limits.curve, 0.0), evidence)
    beyond = curve.p_values(limits.curve)[1]
    if limits.intercept is None or limits.slope is None:
        return BeyondPValues(beyond, shape=shape)
    line = _outside(parameters.level, 0.0, limits.intercept), _outside(parameters.slope, 1.0, limits.slope)
    return BeyondPValues(beyond, *line, shape, 2)


def _rung(tally: Tally, parameters: Parameters, limits: Limits, curve: CurveError) -> Rung | None:
    """The highest rung that is shown: the curve, and intercept and slope if they have limits; the line; the mean."""
    pairs = ((parameters.level, 0.0, limits.intercept), (parameters.slope, 1.0, limits.slope))
    literal = all(one is None or limit is None or _inside(one, ideal, limit) for one, ideal, limit in pairs)
    if parameters.level is None or curve.rarer < FEWEST_OF_A_CLASS:
        return None
    if literal and within(curve, limits.curve, len(tally)):
        return "curve"
    ends = [0.0 if one is None else max(abs(end - ideal) for end in one.interval(0.975)) for one, ideal, _ in pairs]
    information = parameters.likelihood.information(0.0, 0.0)
    width = float(np.sqrt(information[1, 1] / information[0, 0]))
    if np.hypot(ends[0], ends[1] * width) <= limits.curve:
        return "line"
    return "mean" if _inside(parameters.level, 0.0, limits.curve) else None


def within(curve: CurveError, limit: float, cells: int) -> bool:
    """Whether a curve is shown to be within the limit; ``cells`` is the number of distinct scores."""
    resolved = len(curve) >= min(FEWEST_RANGES, cells) and curve.rarer >= FEWEST_OF_A_CLASS
    return resolved and curve.p_values(limit)[0] <= LEVEL_CURVE


def _inside(parameter: Parameter, ideal: float, limit: float) -> bool:
    low, high = parameter.interval(WITHIN_CONFIDENCE)
    return ideal - limit <= low and high <= ideal + limit


def _outside(parameter: Parameter | None, ideal: float, limit: float) -> float:
    """P-value of the nearer limit of the tolerance, if the estimate is outside; otherwise 1."""
    if parameter is None or abs(parameter.value - ideal) <= limit:
        return 1.0
    return parameter.p_of_interval(ideal + float(np.copysign(limit, parameter.value - ideal)))


def _if_significant(misfit: Misfit | None, level: float) -> Misfit | None:
    return misfit if misfit is not None and misfit.p_value <= level else None


def _times(misfit: Misfit | None, factor: float) -> Misfit | None:
    return None if misfit is None else replace(misfit, p_value=min(1.0, factor * misfit.p_value))


def _at_ends(tally: Tally) -> tuple[float, float]:
    """Events at a score of exactly 0, and non-events at exactly 1."""
    scores = tally.scores
    zero, one = scores == 0.0, scores == 1.0
    return float(tally.events[zero].sum()), float((tally.n[one] - tally.events[one]).sum())
