"""Maximum likelihood fits of scaling maps to a tally: Platt and beta scaling, one slope, one intercept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np

from calibrant.maps import Axis, BetaMap, ComposeMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap
from calibrant.messages import Advice, InputError, Note, note
from calibrant.numerics import USUAL_ENDS, Ends, Floats, Grid, expit, logit
from calibrant.solvers import Pieces, fit_logistic
from calibrant.tallies import NO_INTERIOR, Tally, end_notes

Variant = Literal["abm", "am", "ab"]

Loss = Literal["log", "square"]
"""Loss that a fit minimizes: maximum likelihood, or least squares."""

Noted = tuple[Map, tuple[Note, ...]]
"""A fitted map with notes for the user."""

Design = Callable[[Floats], Floats]
"""Features of some scores, one row per parameter."""

WARM_START_ROWS = 1 << 18
"""Above this many rows, Newton's method starts from the solution on the grid, whose error is O(cell width squared)."""

SMALLEST_SPREAD = 1e-290
"""If scores are closer together than this, a slope would overflow."""

FARTHEST_LOG_ODDS = 1e6
"""Real scores beyond this cannot be log-odds, and adding an intercept to them would lose all accuracy."""

LEVEL_STEPS, LEVEL_ERROR = 200, 1e-12
"""Maximum number of steps, and relative error, of the search for an intercept."""


scores_at_one_half = note(
    "scores-at-one-half",
    "all scores are 1/2 (log-odds 0), where a temperature has no effect: scores are not changed",
)
two_rates = note("two-rates", f"{NO_INTERIOR}: the map is a table of two rates")
newton_unsettled = note("newton-unsettled", "Newton's method did not converge: check the map before you use it")

SOFT_TARGETS = "Platt's soft targets were used, because the likelihood has no maximum"
one_class = note("soft-targets-for-one-class", f"only one class is present: {SOFT_TARGETS}")
separated_classes = note(
    "soft-targets-for-separated-classes", f"the classes are separated by the score: {SOFT_TARGETS}"
)
steps_fit_better = note(
    "soft-targets-for-a-step",
    "a step has the least squares, and no curve attains it: Platt's soft targets were used",
)
labels_on_their_side = note("labels-on-their-side", f"every score is on the right side of 1/2: {SOFT_TARGETS}")


@dataclass(frozen=True)
class Scaling:
    """Options of a fit; see :class:`~calibrant.calibrators.binary.scaling.PlattScaling`."""

    soft_targets: bool = False
    increasing: bool = True
    limits: bool = False
    loss: Loss = "log"

    def rough(self) -> Scaling:
        """The same options for a rough fit."""
        return replace(self, limits=False)

    def finish(self, fitted: Map, tally: Tally) -> Map:
        """The map, with outputs clipped to the limits that the number of rows supports, if requested."""
        if not self.limits:
            return fitted
        low = 1.0 / (tally.effective_size + 2.0)
        ends = np.array([low, 1.0 - low])
        return ComposeMap((fitted, PiecewiseLinearMap(ends, ends)))


DEFAULT = Scaling()


def _is_large(tally: Tally) -> bool:
    """Whether the tally may have too many cells to keep their features in memory."""
    return tally.resolution == "exact" and tally.effective_size > WARM_START_ROWS


def _starts_on_grid(tally: Tally) -> bool:
    """Whether a rough fit comes first."""
    return tally.score_type == "probability" and _is_large(tally)


def _on_grid(tally: Tally) -> Tally:
    """The same rows on the grid, with the ends of the rows themselves."""
    return tally.with_ends(tally.ends).coarsen(Grid())


def fit_rates(tally: Tally, how: Scaling = DEFAULT) -> Noted:
    """Event rates of scores below 1/2, and of 1/2 and above, for scores that are all exactly 0 or 1.

    A rate of 0 or 1 becomes (k + 1) / (n + 2); decreasing rates are pooled if the map must not decrease.

    Examples
    --------
    >>> fitted, notes = fit_rates(Tally.from_arrays([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]))
    >>> fitted.apply(np.array([0.0, 1.0])).tolist(), *map(str, notes)
    ([0.25, 0.75], 'every score is exactly 0 or 1, so log-odds are not defined: the map is a table of two rates')
    """
    from calibrant.fits.bins import rates  # here: loads scipy, which scaling does without

    upper = tally.scores >= 0.5
    n, events = (
        np.array([column[~upper].sum(), column[upper].sum()], dtype=np.float64) for column in (tally.n, tally.events)
    )
    values = rates(n, events)
    if how.increasing and values[0] > values[1]:
        values = np.repeat(rates(n.sum(keepdims=True), events.sum(keepdims=True)), 2)
    return StepMap(np.array([0.5]), values), (two_rates(),)


def unlimited(fitted: Map) -> Map:
    """A fitted map without the limits on its outputs."""
    return fitted.maps[0] if isinstance(fitted, ComposeMap) else fitted


def rates_text(fitted: Map) -> str:
    """What :func:`fit_rates` found, in words.

    Examples
    --------
    >>> rates_text(StepMap([0.5], [0.25, 0.75]))
    'rate 0.25 for scores below 1/2, 0.75 for others'
    """
    below, above = cast(StepMap, fitted).values
    return f"rate {below:.4g} for scores below 1/2, {above:.4g} for others"


def fit_platt(tally: Tally, how: Scaling = DEFAULT, on: Axis = "log-odds") -> Noted:
    """Logistic regression on the log-odds of the score, or on the score itself.

    Examples
    --------
    >>> fitted, notes = fit_platt(Tally.from_arrays([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]))
    >>> fitted.apply(np.array([0.5])).round(3).tolist(), notes
    ([0.537], ())
    """
    if on not in ("log-odds", "score"):
        raise InputError("on", f"must be 'log-odds' or 'score', got {on!r}")
    axis: Axis = on if tally.score_type == "probability" else "score"
    if axis == "log-odds" and not tally.has_interior:
        return fit_rates(tally, how)
    ends, read = _reading(tally, axis)
    support = Support.of(tally)
    low, high = support.span(axis, ends)
    targets = Targets.of(support, how)
    center, spread = low / 2 + high / 2, high / 2 - low / 2
    if (
        spread < SMALLEST_SPREAD
    ):  # one score: the rate determines the intercept, and the slope stays that of the identity
        slope = 1.0 if axis == "log-odds" or tally.score_type == "logit" else 0.0
        level = LogitAffineMap(slope, targets.log_odds() - slope * low, axis, *ends)
        return how.finish(level, tally), (*read, *targets.notes)

    def design(scores: Floats) -> Floats:
        x = logit(scores, ends) if axis == "log-odds" else scores
        return np.stack([(x - center) / spread, np.ones(len(x))])

    start = None
    if _starts_on_grid(tally):
        near = cast(LogitAffineMap, fit_platt(_on_grid(tally), how.rough(), on)[0])
        start = np.array([near.slope * spread, near.intercept + near.slope * center])
    bounds = (0,) if how.increasing else ()
    fit = fit_logistic(targets.pieces(tally, design), 2, non_negative=bounds, start=start)
    a, b = fit.coefficients
    if how.loss == "square":
        from calibrant.fits.squares import is_step, least_squares  # here: most fits do without

        a, b = least_squares(targets.pieces(tally, design), fit.coefficients, bounds)
        if targets.hit == 1.0 and is_step(targets.pieces(tally, design), a, b):
            targets = Targets.softened(support, how, steps_fit_better())
            a, b = least_squares(targets.pieces(tally, design), fit.coefficients, bounds)
    notes = (*read, *targets.notes, *(() if fit.converged else (newton_unsettled(),)))
    return how.finish(LogitAffineMap(a / spread, b - a * center / spread, axis, *ends), tally), notes


def fit_beta(tally: Tally, how: Scaling = DEFAULT, variant: Variant = "abm") -> Noted:
    """The beta map with all three parameters, with a = b (``"am"``), or through (1/2, 1/2) (``"ab"``).

    Examples
    --------
    >>> tally = Tally.from_arrays([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1])
    >>> fit_beta(tally, variant="ab")[0].apply(np.array([0.5])).round(3).tolist()
    [0.5]
    """
    if variant not in get_args(Variant):
        raise InputError("variant", f"must be 'abm', 'am' or 'ab', got {variant!r}")
    if tally.score_type != "probability":
        raise InputError("scores", f"must be probabilities, not {tally.score_type} scores", Advice.USE_PLATT)
    if not tally.has_interior:
        return fit_rates(tally, how)
    ends, read = _reading(tally, "log-odds")
    support = Support.of(tally)
    targets = Targets.of(support, how)
    low, high = support.span("log-odds", ends)
    if low == high:
        level = BetaMap(1.0, 1.0, targets.log_odds() - low, *ends)
        return how.finish(level, tally), (*read, *targets.notes)
    family = _FAMILIES[variant]
    start = None
    if _starts_on_grid(tally):
        start = family.start(cast(BetaMap, fit_beta(_on_grid(tally), how.rough(), variant)[0]))
    pieces = targets.pieces(tally, lambda scores: family.design(scores, ends))
    fit = fit_logistic(pieces, family.size, non_negative=family.bounds, start=start)
    notes = (*read, *targets.notes, *(() if fit.converged else (newton_unsettled(),)))
    return how.finish(BetaMap(*family.read(fit.coefficients), *ends), tally), notes


def fit_temperature(tally: Tally, how: Scaling = DEFAULT) -> Noted:
    """One slope on the log-odds of the score, without an intercept; see ``TemperatureScaling``.

    Examples
    --------
    >>> fitted, notes = fit_temperature(Tally.from_arrays([0.1, 0.1, 0.1, 0.9], [0, 0, 1, 1]))
    >>> fitted.apply(np.array([0.1, 0.5, 0.9])).round(6).tolist(), notes  # three of four are on the right side
    ([0.25, 0.5, 0.75], ())
    """
    axis: Axis = "log-odds" if tally.score_type == "probability" else "score"
    if not tally.has_interior:
        return fit_rates(tally, how)
    ends, read = _reading(tally, axis)
    support = Support.of(tally)
    far = max(abs(x) for x in support.span(axis, ends))
    if far < SMALLEST_SPREAD:
        return how.finish(LogitAffineMap(1.0, 0.0, axis, *ends), tally), (scores_at_one_half(),)
    middle = 0.5 if axis == "log-odds" else 0.0
    apart = support.lowest_event >= middle >= support.highest_other
    targets = Targets.softened(support, how, labels_on_their_side() if apart else None)

    def design(scores: Floats) -> Floats:
        return ((logit(scores, ends) if axis == "log-odds" else scores) / far)[None, :]

    start = None
    if _starts_on_grid(tally):
        near = cast(LogitAffineMap, fit_temperature(_on_grid(tally), how.rough())[0])
        start = np.array([near.slope * far])
    fit = fit_logistic(targets.pieces(tally, design), 1, non_negative=(0,), start=start)
    notes = (*read, *targets.notes, *(() if fit.converged else (newton_unsettled(),)))
    return how.finish(LogitAffineMap(fit.coefficients[0] / far, 0.0, axis, *ends), tally), notes


def fit_level(tally: Tally, how: Scaling = DEFAULT) -> Noted:
    """One intercept added to the log-odds of the score; see ``LogitShift``.

    Examples
    --------
    >>> fitted, notes = fit_level(Tally.from_arrays([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1]))
    >>> fitted.apply(np.array([0.5])).round(6).tolist(), notes
    ([0.25], ())
    """
    axis: Axis = "log-odds" if tally.score_type == "probability" else "score"
    if not tally.has_interior:
        return fit_rates(tally, how)
    ends, read = _reading(tally, axis)
    support = Support.of(tally)
    low, high = support.span(axis, ends)
    if max(abs(low), abs(high)) > FARTHEST_LOG_ODDS:
        raise InputError(
            "scores",
            f"reach {max(support.lowest, support.highest, key=abs):g}, but LogitShift reads them as log-odds of at "
            f"most {FARTHEST_LOG_ODDS:g} in absolute value",
            "use PlattScaling, which estimates their scale",
        )
    both = 0 < support.events < support.total
    targets = Targets.softened(support, how, None if both else one_class())
    goal = targets.log_odds()
    passes = targets.pieces(tally, lambda scores: logit(scores, ends) if axis == "log-odds" else scores)
    start = goal - low / 2 - high / 2
    if _starts_on_grid(tally):
        start = cast(LogitAffineMap, fit_level(_on_grid(tally), how.rough())[0]).intercept
    level, settled = _solve_level(passes, start, (goal - high, goal - low))
    notes = (*read, *targets.notes, *(() if settled else (newton_unsettled(),)))
    return how.finish(LogitAffineMap(1.0, level, axis, *ends), tally), notes


def _reading(tally: Tally, axis: Axis) -> tuple[Ends, tuple[Note, ...]]:
    """Ends to which scores are clipped before the log-odds, and notes on that; none without log-odds."""
    return (tally.ends, end_notes(tally)) if axis == "log-odds" else (USUAL_ENDS, ())


def _solve_level(pieces: Pieces, level: float, bracket: tuple[float, float]) -> tuple[float, bool]:
    """Intercept at which mean prediction and rate agree, by Newton steps with bisection as a fallback."""
    low, high = bracket
    for _ in range(LEVEL_STEPS):
        total, excess, slope = 0.0, 0.0, 0.0
        for x, n, events in pieces():
            p = expit(x + level)
            total, excess = total + float(n.sum()), excess + float((n * p - events).sum())
            slope += float((n * p * (1.0 - p)).sum())
        low, high = (low, level) if excess > 0.0 else (level, high)
        step = excess / slope
        if abs(step) <= LEVEL_ERROR * max(1.0, abs(level)) or high - low <= LEVEL_ERROR * max(1.0, abs(level)):
            return level - step if low <= level - step <= high else level, True
        level = level - step if low < level - step < high else low / 2 + high / 2
    return level, False


def _log_sides(scores: Floats, ends: Ends) -> tuple[Floats, Floats]:
    """The columns log s and -log(1 - s) of scores clipped to the ends."""
    s = np.clip(scores, *ends)
    return np.log(s), -np.log1p(-s)


def _abm_design(scores: Floats, ends: Ends) -> Floats:
    rise, fall = _log_sides(scores, ends)
    return np.stack([rise, fall, np.ones(len(scores))])


def _am_design(scores: Floats, ends: Ends) -> Floats:
    return np.stack([logit(scores, ends), np.ones(len(scores))])


def _ab_design(scores: Floats, ends: Ends) -> Floats:
    rise, fall = _log_sides(scores, ends)
    return np.stack([rise + np.log(2.0), fall - np.log(2.0)])


@dataclass(frozen=True)
class _Family:
    """A beta family: its features, the non-negative coefficients, and their relation to a, b, c."""

    size: int
    bounds: tuple[int, ...]
    design: Callable[[Floats, Ends], Floats]
    read: Callable[[Floats], tuple[float, float, float]]
    start: Callable[[BetaMap], Floats]


_FAMILIES: dict[Variant, _Family] = {
    "abm": _Family(
        3,
        (0, 1),
        _abm_design,
        lambda fit: (fit[0], fit[1], fit[2]),
        lambda near: np.array([near.a, near.b, near.c]),
    ),
    "am": _Family(2, (0,), _am_design, lambda fit: (fit[0], fit[0], fit[1]), lambda near: np.array([near.a, near.c])),
    "ab": _Family(
        2,
        (0, 1),
        _ab_design,
        lambda fit: (fit[0], fit[1], (fit[0] - fit[1]) * float(np.log(2.0))),
        lambda near: np.array([near.a, near.b]),
    ),
}


@dataclass(frozen=True)
class Support:
    """Total weight, events, and the range of scores of each class."""

    total: float
    events: float
    lowest: float
    highest: float
    lowest_event: float
    highest_other: float
    rising: bool
    """All events have scores above all negatives, or equal to the highest."""
    falling: bool

    @classmethod
    def of(cls, tally: Tally) -> Support:
        """From one pass over the tally."""
        hits, misses = [np.inf, -np.inf], [np.inf, -np.inf]
        for scores, n, events in tally.pieces():
            for ends, among in ((hits, events > 0), (misses, events < n)):
                found = scores[among]
                if len(found):
                    ends[0], ends[1] = min(ends[0], found[0]), max(ends[1], found[-1])
        lowest, highest = min(hits[0], misses[0]), max(hits[1], misses[1])
        apart = lowest < highest
        rising, falling = apart and misses[1] <= hits[0], apart and hits[1] <= misses[0]
        sums = float(tally.total), float(tally.positives)
        return cls(*sums, lowest, highest, hits[0], misses[1], rising, falling)

    def span(self, axis: Axis, ends: Ends) -> tuple[float, float]:
        """The lowest and the highest score, or their log-odds."""
        low, high = self.lowest, self.highest
        if axis == "score":
            return low, high
        return float(logit(np.array(low), ends)), float(logit(np.array(high), ends))


@dataclass(frozen=True)
class Targets:
    """Targets of events and negatives: 1 and 0, or Platt's soft targets."""

    support: Support
    hit: float = 1.0
    miss: float = 0.0
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, support: Support, how: Scaling) -> Targets:
        """For maps with intercept and slope, whose likelihood has no maximum with one class or separated classes."""
        separated = support.rising or (support.falling and not how.increasing)
        if not 0 < support.events < support.total:
            return cls.softened(support, how, one_class())
        return cls.softened(support, how, separated_classes() if separated else None)

    @classmethod
    def softened(cls, support: Support, how: Scaling, why: Note | None) -> Targets:
        """Soft targets if requested, or if the likelihood has no maximum, for the reason ``why``."""
        if not how.soft_targets and why is None:
            return cls(support)
        notes = () if why is None or how.soft_targets else (why,)
        others = support.total - support.events
        hit, miss = (support.events + 1.0) / (support.events + 2.0), 1.0 / (others + 2.0)
        return cls(support, hit, miss, notes)

    def log_odds(self) -> float:
        """Log-odds of the overall rate."""
        others = self.support.total - self.support.events
        return float(logit(np.array((self.support.events * self.hit + others * self.miss) / self.support.total)))

    def pieces(self, tally: Tally, design: Design) -> Pieces:
        """Passes over the tally for the solver."""

        def run() -> Iterator[tuple[Floats, Floats, Floats]]:
            for scores, n, events in tally.pieces():
                soft = events * self.hit + (n - events) * self.miss
                yield design(scores), n.astype(np.float64), soft.astype(np.float64)

        if _is_large(tally):
            return run
        once = list(run())
        return lambda: once
