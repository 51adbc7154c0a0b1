"""How scaling maps are fitted, from a tally to a map: Platt's and the beta family, by maximum likelihood.

Nothing here is an estimator, so that a verdict can try a map without loading scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np

from calibrant.arrays import InputError
from calibrant.maps import Axis, BetaMap, ComposeMap, LogitAffineMap, Map, PiecewiseLinearMap
from calibrant.numerics import CLAMP, Floats, Grid, logit
from calibrant.solvers import Pieces, fit_logistic
from calibrant.tallies import Tally

Variant = Literal["abm", "am", "ab"]

Noted = tuple[Map, tuple[str, ...]]
"""A fitted map, and what its user must know, as sentences."""

Design = Callable[[Floats], Floats]
"""Features of some scores, one row per parameter."""

WARM_START_ROWS = 1 << 18
"""Above this many rows, Newton's method starts from the solution on the grid, off by O(cell width squared)."""

SMALLEST_SPREAD = 1e-290
"""Scores closer together than this have no slope that a double could hold."""

UNSETTLED = "Newton's method did not settle: look at the map before you use it"


@dataclass(frozen=True)
class Scaling:
    """How a map is fitted; see :class:`~calibrant.calibrators.parametric.PlattScaling`."""

    soft_targets: bool = False
    increasing: bool = True
    limits: bool = False

    def rough(self) -> Scaling:
        """The same for that rough fit."""
        return replace(self, limits=False)

    def finish(self, fitted: Map, tally: Tally) -> Map:
        """The map, followed by a cut at what the number of rows supports where that is asked for."""
        if not self.limits:
            return fitted
        low = 1.0 / (tally.effective_size + 2.0)
        ends = np.array([low, 1.0 - low])
        return ComposeMap((fitted, PiecewiseLinearMap(ends, ends)))


DEFAULT = Scaling()


def _is_large(tally: Tally) -> bool:
    """Whether the tally may have too many cells to keep their features at hand."""
    return tally.resolution == "exact" and tally.effective_size > WARM_START_ROWS


def _starts_on_grid(tally: Tally) -> bool:
    """Whether a rough fit comes first."""
    return tally.kind == "probability" and _is_large(tally)


def fit_platt(tally: Tally, how: Scaling = DEFAULT, on: Axis = "log-odds") -> Noted:
    """Logistic regression on the log-odds of the score, or on the score itself.

    Examples
    --------
    >>> fitted, notes = fit_platt(Tally.from_arrays([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]))
    >>> fitted.apply(np.array([0.5])).round(3).tolist(), notes
    ([0.537], ())
    """
    if on not in ("log-odds", "score"):
        raise InputError(f"on must be 'log-odds' or 'score', got {on!r}")
    axis: Axis = on if tally.kind == "probability" else "score"
    support = _Support.of(tally)
    low, high = (float(logit(np.array(s))) if axis == "log-odds" else s for s in (support.lowest, support.highest))
    targets = _Targets.of(support, how)
    centre, spread = low / 2 + high / 2, high / 2 - low / 2
    if spread < SMALLEST_SPREAD:  # one score: the rate fixes the level, and the shape stays the identity's
        slope = 1.0 if axis == "log-odds" or tally.kind == "logit" else 0.0
        level = LogitAffineMap(slope, targets.log_odds() - slope * low, axis)
        return how.finish(level, tally), targets.notes

    def design(scores: Floats) -> Floats:
        x = logit(scores) if axis == "log-odds" else scores
        return np.stack([(x - centre) / spread, np.ones(len(x))])

    start = None
    if _starts_on_grid(tally):
        near = cast(LogitAffineMap, fit_platt(tally.coarsen(Grid()), how.rough(), on)[0])
        start = np.array([near.slope * spread, near.intercept + near.slope * centre])
    bounds = (0,) if how.increasing else ()
    fit = fit_logistic(targets.pieces(tally, design), 2, non_negative=bounds, start=start)
    a, b = fit.coefficients
    notes = targets.notes if fit.converged else (*targets.notes, UNSETTLED)
    return how.finish(LogitAffineMap(a / spread, b - a * centre / spread, axis), tally), notes


def fit_beta(tally: Tally, how: Scaling = DEFAULT, variant: Variant = "abm") -> Noted:
    """The beta map with all three parameters, with a = b (``"am"``), or through (1/2, 1/2) (``"ab"``).

    Examples
    --------
    >>> tally = Tally.from_arrays([0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1])
    >>> fit_beta(tally, variant="ab")[0].apply(np.array([0.5])).round(3).tolist()
    [0.5]
    """
    if variant not in get_args(Variant):
        raise InputError(f"variant must be 'abm', 'am' or 'ab', got {variant!r}")
    if tally.kind != "probability":
        raise InputError(f"BetaScaling needs probabilities, not {tally.kind} scores: use PlattScaling")
    support = _Support.of(tally)
    targets = _Targets.of(support, how)
    if support.lowest == support.highest:
        level = BetaMap(1.0, 1.0, targets.log_odds() - float(logit(np.array(support.lowest))))
        return how.finish(level, tally), targets.notes
    family = _FAMILIES[variant]
    start = None
    if _starts_on_grid(tally):
        start = family.start(cast(BetaMap, fit_beta(tally.coarsen(Grid()), how.rough(), variant)[0]))
    pieces = targets.pieces(tally, family.design)
    fit = fit_logistic(pieces, family.size, non_negative=family.bounds, start=start)
    notes = targets.notes if fit.converged else (*targets.notes, UNSETTLED)
    return how.finish(family.read(fit.coefficients), tally), notes


def _log_sides(scores: Floats) -> tuple[Floats, Floats]:
    """The columns log s and -log(1 - s) of scores moved inside the clamp."""
    s = np.clip(scores, CLAMP, 1.0 - CLAMP)
    return np.log(s), -np.log1p(-s)


def _abm_design(scores: Floats) -> Floats:
    rise, fall = _log_sides(scores)
    return np.stack([rise, fall, np.ones(len(scores))])


def _am_design(scores: Floats) -> Floats:
    return np.stack([logit(scores), np.ones(len(scores))])


def _ab_design(scores: Floats) -> Floats:
    rise, fall = _log_sides(scores)
    return np.stack([rise + np.log(2.0), fall - np.log(2.0)])


@dataclass(frozen=True)
class _Family:
    """A beta family: its features, which coefficients stay non-negative, and how they and a map give each other."""

    size: int
    bounds: tuple[int, ...]
    design: Design
    read: Callable[[Floats], BetaMap]
    start: Callable[[BetaMap], Floats]


_FAMILIES: dict[Variant, _Family] = {
    "abm": _Family(
        3,
        (0, 1),
        _abm_design,
        lambda fit: BetaMap(fit[0], fit[1], fit[2]),
        lambda near: np.array([near.a, near.b, near.c]),
    ),
    "am": _Family(
        2, (0,), _am_design, lambda fit: BetaMap(fit[0], fit[0], fit[1]), lambda near: np.array([near.a, near.c])
    ),
    "ab": _Family(
        2,
        (0, 1),
        _ab_design,
        lambda fit: BetaMap(fit[0], fit[1], (fit[0] - fit[1]) * float(np.log(2.0))),
        lambda near: np.array([near.a, near.b]),
    ),
}


@dataclass(frozen=True)
class _Support:
    """Total weight, events, and between which scores either class lies."""

    total: float
    events: float
    lowest: float
    highest: float
    rising: bool
    """All events lie above all non-events, or touch them."""
    falling: bool

    @classmethod
    def of(cls, tally: Tally) -> _Support:
        hits, misses = [np.inf, -np.inf], [np.inf, -np.inf]
        for scores, n, events in tally.pieces():
            for ends, among in ((hits, events > 0), (misses, events < n)):
                found = scores[among]
                if len(found):
                    ends[0], ends[1] = min(ends[0], found[0]), max(ends[1], found[-1])
        lowest, highest = min(hits[0], misses[0]), max(hits[1], misses[1])
        apart = lowest < highest
        rising, falling = apart and misses[1] <= hits[0], apart and hits[1] <= misses[0]
        return cls(float(tally.total), float(tally.positives), lowest, highest, rising, falling)


@dataclass(frozen=True)
class _Targets:
    """What an event and a non-event count as: 1 and 0, or Platt's soft targets."""

    support: _Support
    hit: float = 1.0
    miss: float = 0.0
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, support: _Support, how: Scaling) -> _Targets:
        """Soft where asked for, and where the likelihood has no maximum."""
        others = support.total - support.events
        one_class = not (support.events and others)
        separated = support.rising or (support.falling and not how.increasing)
        runaway = one_class or separated
        if not (how.soft_targets or runaway):
            return cls(support)
        notes: tuple[str, ...] = ()
        if runaway and not how.soft_targets:
            why = "only one class is present" if one_class else "the classes are separated by the score"
            notes = (f"{why}: Platt's soft targets were used, as the likelihood has no maximum",)
        hit, miss = (support.events + 1.0) / (support.events + 2.0), 1.0 / (others + 2.0)
        return cls(support, hit, miss, notes)

    def log_odds(self) -> float:
        """Log-odds of the overall rate."""
        others = self.support.total - self.support.events
        return float(logit(np.array((self.support.events * self.hit + others * self.miss) / self.support.total)))

    def pieces(self, tally: Tally, design: Design) -> Pieces:
        """Passes over the tally as the solver wants them."""

        def run() -> Iterator[tuple[Floats, Floats, Floats]]:
            for scores, n, events in tally.pieces():
                soft = events * self.hit + (n - events) * self.miss
                yield design(scores), n.astype(np.float64), soft.astype(np.float64)

        if _is_large(tally):
            return run
        once = list(run())
        return lambda: once
