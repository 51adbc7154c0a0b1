"""Scaling maps with two or three parameters: Platt and beta."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from sklearn.base import clone

from calibrant.arrays import InputError
from calibrant.calibrators.base import BinaryCalibrator
from calibrant.maps import Axis, BetaMap, ComposeMap, LogitAffineMap, Map, PiecewiseLinearMap
from calibrant.numerics import CLAMP, Floats, Grid, logit
from calibrant.solvers import Pieces, fit_logistic
from calibrant.tallies import Tally

WARM_START_ROWS = 1 << 18
"""Above this many rows, Newton's method starts from the solution on the grid, off by O(cell width squared)."""

SMALLEST_SPREAD = 1e-290
"""Scores closer together than this have no slope that a double could hold."""

Design = Callable[[Floats], Floats]
"""Features of some scores, one row per parameter."""


class PlattScaling(BinaryCalibrator):
    r"""Logistic regression on the log-odds of the score.

    .. math:: m(s) = \operatorname{expit}(a \operatorname{logit}(s) + b),\qquad a \ge 0,

    (002 eq. 1.7), fitted by maximum likelihood; the identity :math:`a = 1, b = 0` is in the family. Scores of kind
    ``"logit"`` or ``"real"`` enter as they are.

    Parameters
    ----------
    on : {"log-odds", "score"}
        ``"score"`` regresses on the score itself, as Platt (1999) did for margins.
    soft_targets : bool
        Replace labels by Platt's :math:`(N_+ + 1)/(N_+ + 2)` and :math:`1/(N_- + 2)`. Also done by itself, with a note,
        when the classes are separated or only one is present, where the maximum likelihood runs away.
    increasing : bool
        Keep the slope non-negative, so that a ranking is never inverted.
    limits : bool
        Hold outputs inside :math:`[1/(n + 2), 1 - 1/(n + 2)]`: n rows cannot support more extreme statements.

    Notes
    -----
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> PlattScaling().fit(scores, y).transform([0.5]).round(3).tolist()
    [0.537]
    """

    def __init__(
        self,
        on: Literal["log-odds", "score"] = "log-odds",
        *,
        soft_targets: bool = False,
        increasing: bool = True,
        limits: bool = False,
    ) -> None:
        self.on = on
        self.soft_targets = soft_targets
        self.increasing = increasing
        self.limits = limits

    def _fit_map(self, tally: Tally) -> Map:
        if self.on not in ("log-odds", "score"):
            raise InputError(f"on must be 'log-odds' or 'score', got {self.on!r}")
        on: Axis = self.on if tally.kind == "probability" else "score"
        support = _Support.of(tally)
        low, high = (float(logit(np.array(s))) if on == "log-odds" else s for s in (support.lowest, support.highest))
        targets = _Targets.of(self, support)
        centre, spread = low / 2 + high / 2, high / 2 - low / 2
        if spread < SMALLEST_SPREAD:  # one score: the rate fixes the level, and the shape stays the identity's
            slope = 1.0 if on == "log-odds" or tally.kind == "logit" else 0.0
            fitted = LogitAffineMap(slope, targets.log_odds() - slope * low, on)
        else:

            def design(scores: Floats) -> Floats:
                x = logit(scores) if on == "log-odds" else scores
                return np.stack([(x - centre) / spread, np.ones(len(x))])

            near = cast(LogitAffineMap | None, _warm_start(self, tally))
            start = None if near is None else np.array([near.slope * spread, near.intercept + near.slope * centre])
            bounds = (0,) if self.increasing else ()
            a, b = _solve(self, targets.pieces(tally, design), 2, bounds, start)
            fitted = LogitAffineMap(a / spread, b - a * centre / spread, on)
        return _limited(fitted, tally) if self.limits else fitted

    def _describe(self) -> str:
        inner = cast(LogitAffineMap, _unlimited(self.map_))
        return f"slope {inner.slope:.4g}, intercept {inner.intercept:.4g} on the {inner.on}"


class BetaScaling(BinaryCalibrator):
    r"""Three-parameter beta map.

    .. math:: m(s) = \operatorname{expit}\bigl(a \log s - b \log(1 - s) + c\bigr), \qquad a, b \ge 0,

    where :math:`s \in (0, 1)` is the score (Kull et al. 2017; 002 eq. 6.18 with our b for its -b). The identity is
    :math:`a = b = 1, c = 0`.

    Parameters
    ----------
    variant : {"abm", "am", "ab"}
        ``"abm"``: all three. ``"am"``: a = b, which is Platt scaling on the log-odds. ``"ab"``: the map passes through
        (1/2, 1/2), that is :math:`c = (a - b) \log 2`.
    soft_targets, limits : bool
        As in :class:`PlattScaling`.

    Notes
    -----
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> BetaScaling("ab").fit(scores, y).transform([0.5]).round(3).tolist()
    [0.5]
    """

    def __init__(
        self, variant: Literal["abm", "am", "ab"] = "abm", *, soft_targets: bool = False, limits: bool = False
    ) -> None:
        self.variant = variant
        self.soft_targets = soft_targets
        self.limits = limits

    @property
    def increasing(self) -> bool:
        """A beta map with a, b >= 0 never falls."""
        return True

    def _fit_map(self, tally: Tally) -> Map:
        if self.variant not in ("abm", "am", "ab"):
            raise InputError(f"variant must be 'abm', 'am' or 'ab', got {self.variant!r}")
        if tally.kind != "probability":
            raise InputError(f"BetaScaling needs probabilities, not {tally.kind} scores: use PlattScaling")
        support = _Support.of(tally)
        targets = _Targets.of(self, support)
        if support.lowest == support.highest:
            fitted = BetaMap(1.0, 1.0, targets.log_odds() - float(logit(np.array(support.lowest))))
        else:
            near = cast(BetaMap | None, _warm_start(self, tally))
            fitted = BetaMap(*_BETA_FITS[self.variant](self, targets, tally, near))
        return _limited(fitted, tally) if self.limits else fitted

    def _describe(self) -> str:
        inner = cast(BetaMap, _unlimited(self.map_))
        return f"a {inner.a:.4g}, b {inner.b:.4g}, c {inner.c:.4g}"


def _log_sides(scores: Floats) -> tuple[Floats, Floats]:
    """The columns log s and -log(1 - s) of scores moved inside the clamp."""
    s = np.clip(scores, CLAMP, 1.0 - CLAMP)
    return np.log(s), -np.log1p(-s)


def _solve(
    calibrator: PlattScaling | BetaScaling, pieces: Pieces, size: int, bounds: tuple[int, ...], start: Floats | None
) -> Floats:
    fit = fit_logistic(pieces, size, non_negative=bounds, start=start)
    if not fit.converged:
        calibrator.notes_ = (*calibrator.notes_, "Newton's method did not settle: look at the map before you use it")
    return fit.coefficients


def _fit_abm(
    calibrator: BetaScaling, targets: _Targets, tally: Tally, near: BetaMap | None
) -> tuple[float, float, float]:
    def design(scores: Floats) -> Floats:
        rise, fall = _log_sides(scores)
        return np.stack([rise, fall, np.ones(len(scores))])

    start = None if near is None else np.array([near.a, near.b, near.c])
    a, b, c = _solve(calibrator, targets.pieces(tally, design), 3, (0, 1), start)
    return a, b, c


def _fit_am(
    calibrator: BetaScaling, targets: _Targets, tally: Tally, near: BetaMap | None
) -> tuple[float, float, float]:
    def design(scores: Floats) -> Floats:
        return np.stack([logit(scores), np.ones(len(scores))])

    start = None if near is None else np.array([near.a, near.c])
    a, c = _solve(calibrator, targets.pieces(tally, design), 2, (0,), start)
    return a, a, c


def _fit_ab(
    calibrator: BetaScaling, targets: _Targets, tally: Tally, near: BetaMap | None
) -> tuple[float, float, float]:
    def design(scores: Floats) -> Floats:
        rise, fall = _log_sides(scores)
        return np.stack([rise + np.log(2.0), fall - np.log(2.0)])

    start = None if near is None else np.array([near.a, near.b])
    a, b = _solve(calibrator, targets.pieces(tally, design), 2, (0, 1), start)
    return a, b, (a - b) * float(np.log(2.0))


_BETA_FITS = {"abm": _fit_abm, "am": _fit_am, "ab": _fit_ab}


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
    hit: float
    miss: float

    @classmethod
    def of(cls, calibrator: PlattScaling | BetaScaling, support: _Support) -> _Targets:
        """Soft where asked for, and where the likelihood has no maximum."""
        others = support.total - support.events
        one_class = not (support.events and others)
        separated = support.rising or (support.falling and not calibrator.increasing)
        runaway = one_class or separated
        if not (calibrator.soft_targets or runaway):
            return cls(support, 1.0, 0.0)
        if runaway and not calibrator.soft_targets:
            why = "only one class is present" if one_class else "the classes are separated by the score"
            note = f"{why}: Platt's soft targets were used, as the likelihood has no maximum"
            calibrator.notes_ = (*calibrator.notes_, note)
        return cls(support, (support.events + 1.0) / (support.events + 2.0), 1.0 / (others + 2.0))

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


def _warm_start(calibrator: PlattScaling | BetaScaling, tally: Tally) -> Map | None:
    """The fit on the grid, where the tally is large."""
    if tally.kind != "probability" or not _is_large(tally):
        return None
    rough = clone(calibrator).set_params(limits=False)
    rough.notes_ = ()
    return cast(Map, rough._fit_map(tally.coarsen(Grid())))


def _is_large(tally: Tally) -> bool:
    """Whether the tally may have too many cells to keep their features at hand."""
    return tally.resolution == "exact" and tally.effective_size > WARM_START_ROWS


def _limited(fitted: Map, tally: Tally) -> Map:
    """The map followed by a cut at what the number of rows supports."""
    low = 1.0 / (tally.effective_size + 2.0)
    ends = np.array([low, 1.0 - low])
    return ComposeMap((fitted, PiecewiseLinearMap(ends, ends)))


def _unlimited(fitted: Map) -> Map:
    return fitted.maps[0] if isinstance(fitted, ComposeMap) else fitted
