"""Logistic regression of labels on the log-odds of the score, with standard errors, for ``recalibration``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit

from calibrant.messages import Note, note
from calibrant.metrics.binary.curves.likelihood import Parameters
from calibrant.metrics.draws import only_values
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.variance import FEWEST_CLUSTERS, few_groups, ratio_rate
from calibrant.numerics import Floats, Grid, logit
from calibrant.solvers import Pieces, fit_logistic
from calibrant.tallies import Clusters, Tally, end_notes

MANY_CELLS = 1 << 16
"""With more distinct scores than this, regressions start from the solution on a grid."""

POLISH = 2
"""Newton steps from the solution on a grid, which is within about 1e-5; a step squares the distance."""

KEPT_ROWS = 1 << 20
"""Up to this many rows the log-odds are cached between passes, beyond it they are recomputed."""


@dataclass(frozen=True, eq=False)
class LogOdds:
    """A tally of probabilities with what the regressions need."""

    tally: Tally
    expected: float
    low: float
    high: float
    """Lowest and highest log-odds."""
    apart: bool
    """Whether a threshold on the score separates the classes."""
    start: LogOdds | None = None
    """The same rows on a grid, if there are many: its solution is the starting point."""
    parameters: Parameters | None = None
    """Intercept and slope with their intervals, on the grid if there are many rows; None on the grid itself."""
    few_groups: bool = False
    """Whether groups of dependent rows are too few for intervals."""

    @classmethod
    def of(cls, data: Tally | Clusters) -> LogOdds:
        """One pass over the tally, and intervals from at most 65,536 cells."""
        tally = data.tally if isinstance(data, Clusters) else data
        found = cls._of(tally)
        if only_values():
            return found
        source = data if isinstance(data, Clusters) or found.start is None else found.start.tally
        few = isinstance(data, Clusters) and data.size < FEWEST_CLUSTERS
        return replace(found, parameters=Parameters.of(source), few_groups=few)

    @classmethod
    def _of(cls, tally: Tally) -> LogOdds:
        many = tally.resolution == "exact" and len(tally) > MANY_CELLS
        clip = tally.ends
        start = cls._of(tally.coarsen(Grid()).with_ends(clip)) if many else None
        expected = 0.0
        ends, hits, misses = ([math.inf, -math.inf] for _ in range(3))
        for scores, n, events in tally.pieces():
            expected += float((n * scores).sum())
            z = logit(scores, clip)
            for span, among in ((ends, slice(None)), (hits, events > 0), (misses, events < n)):
                found = z[among]
                if len(found):
                    span[0], span[1] = min(span[0], float(found[0])), max(span[1], float(found[-1]))
        apart = ends[0] < ends[1] and (misses[1] <= hits[0] or hits[1] <= misses[0])
        return cls(tally, expected, ends[0], ends[1], apart, start)

    @property
    def total(self) -> float:
        """Rows, or sum of weights."""
        return float(self.tally.total)

    @property
    def observed(self) -> float:
        """Events."""
        return float(self.tally.positives)

    @property
    def one_class(self) -> bool:
        """Whether intercept and slope are undefined, because there are no events or no non-events."""
        return not 0.0 < self.observed < self.total

    def notes(self) -> tuple[Note, ...]:
        """Notes on these data."""
        notes: list[Note] = [*end_notes(self.tally)]
        if self.one_class:
            notes.append(only_events() if self.observed > 0.0 else parameters_of_one_class())
        elif self.low == self.high:
            notes.append(constant_score())
        elif self.apart:
            notes.append(separated_classes())
        if self.few_groups:
            notes.append(few_groups(FEWEST_CLUSTERS))
        return tuple(notes)

    def pieces(self, center: float = 0.0, spread: float = 1.0) -> Pieces:
        """Passes for the solver: standardized log-odds and 1; cached if there are not too many rows."""

        def run() -> Iterator[tuple[Floats, Floats, Floats]]:
            for scores, n, events in self.tally.pieces():
                z = (logit(scores, self.tally.ends) - center) / spread
                yield np.stack([z, np.ones(len(z))]), n.astype(np.float64), events.astype(np.float64)

        if self.tally.effective_size > KEPT_ROWS:
            return run
        once = list(run())
        return lambda: once


def fit_intercept(data: LogOdds) -> Estimate:
    """The shift of all log-odds at which expected events equal the observed ones."""
    name = "intercept, slope fixed at 1"
    if data.one_class:
        return Estimate(name, math.nan)
    shift = _bracketed_shift(data.start or data)
    if data.start is not None:
        pieces = data.pieces()
        for _ in range(POLISH):
            excess, information = _balance(pieces, shift)
            shift -= excess / information
    return _profiled(name, shift, data, "level")


def _bracketed_shift(data: LogOdds) -> float:
    from scipy.optimize import brentq  # imported here because it is slow to load

    pieces, base = data.pieces(), math.log(data.observed / (data.total - data.observed))

    def excess(shift: float) -> float:
        return sum(float((n * expit(x[0] + shift) - e).sum()) for x, n, e in pieces()) / data.total

    # At the ends of this bracket all probabilities are on one side of the base rate.
    low, high = base - data.high, base - data.low
    return low if low == high else float(brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-13, rtol=1e-13))


def _balance(pieces: Pieces, shift: float) -> tuple[float, float]:
    """Expected minus observed events at a shift, and the derivative."""
    excess = information = 0.0
    for x, n, events in pieces():
        p = expit(x[0] + shift)
        expected = n * p
        excess += float((expected - events).sum())
        information += float((expected - expected * p).sum())
    return excess, information


def fit_slope(data: LogOdds) -> tuple[Estimate, Estimate, tuple[tuple[float, float], tuple[float, float]]]:
    """Slope, the intercept estimated with it, and their covariances."""
    names = ("slope", "intercept, slope estimated")
    if data.one_class or data.low == data.high or data.apart:
        nan = math.nan
        return Estimate(names[0], nan), Estimate(names[1], nan), ((nan, nan), (nan, nan))
    center, spread = (data.low + data.high) / 2.0, (data.high - data.low) / 2.0
    pieces = data.pieces(center, spread)
    first = None if data.start is None else fit_logistic(data.start.pieces(center, spread), 2).coefficients
    fit = fit_logistic(pieces, 2, start=first)
    slope = float(fit.coefficients[0]) / spread
    beside = float(fit.coefficients[1]) - center * slope
    covariance = _covariance(data)
    (_, _), (_, variance) = covariance
    return _profiled(names[0], slope, data, "slope"), _wald(names[1], beside, variance, data), covariance


def _profiled(name: str, value: float, data: LogOdds, which: Literal["level", "slope"]) -> Estimate:
    """The estimate with the interval of its parameter, shifted by the error of the grid."""
    parameter = None if data.parameters is None else getattr(data.parameters, which)
    if parameter is None or data.few_groups:
        return Estimate(name, value)
    low, high = parameter.interval(0.95)
    moved = value - parameter.value
    return Estimate(name, value, se=parameter.se, low=low + moved, high=high + moved)


def _wald(name: str, value: float, variance: float, data: LogOdds) -> Estimate:
    slope = None if data.parameters is None else data.parameters.slope
    if slope is None or data.few_groups:
        return Estimate(name, value)
    se, errors = math.sqrt(variance), slope.spread.quantile(0.95)
    return Estimate(name, value, se=se, low=value - errors * se, high=value + errors * se)


def _covariance(data: LogOdds) -> tuple[tuple[float, float], tuple[float, float]]:
    """Covariances of the slope and the intercept estimated with it, under weights and clusters."""
    nan = math.nan
    if data.parameters is None:
        return (nan, nan), (nan, nan)
    slope, intercept, both = data.parameters.variances(((0.0, 1.0), (1.0, -data.parameters.likelihood.center)))
    cross = (both - slope - intercept) / 2.0
    return (slope, cross), (cross, intercept)


def event_ratios(data: LogOdds) -> tuple[Estimate, Estimate]:
    """Expected over observed and its inverse; with only events there is no interval."""
    names = ("expected over observed (E/O)", "observed over expected (O/E)")
    if not (data.observed > 0.0 and data.expected > 0.0):
        values = [math.nan if not below else above / below for above, below in _both(data)]
        return Estimate(names[0], values[0]), Estimate(names[1], values[1])
    rho = data.observed / data.expected
    if data.few_groups or data.one_class or data.parameters is None:
        return Estimate(names[0], 1.0 / rho), Estimate(names[1], rho)
    rates = ratio_rate(data.parameters.data)
    (low,), (high,) = (end.tolist() for end in rates.ratios(0.95))
    relative = math.sqrt(rates.variance[0]) / float(data.parameters.likelihood.events.sum())
    return (
        Estimate(names[0], 1.0 / rho, se=relative / rho, low=1.0 / high, high=1.0 / low if low > 0.0 else math.inf),
        Estimate(names[1], rho, se=relative * rho, low=low, high=high),
    )


def _both(data: LogOdds) -> tuple[tuple[float, float], tuple[float, float]]:
    return (data.expected, data.observed), (data.observed, data.expected)


parameters_of_one_class = note(
    "parameters-of-one-class", "only one class is present: intercept, slope and E/O are not defined"
)
only_events = note(
    "only-events",
    "only {nouns.events} are present: intercept and slope are not defined, and the ratio of observed to expected "
    "{nouns.events} has no interval",
)
constant_score = note("constant-score", "the {nouns.score} is constant: a slope is not defined")
separated_classes = note(
    "separated-classes", "the classes are separated by the {nouns.score}: the slope has no finite estimate"
)
