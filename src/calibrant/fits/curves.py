r"""Curves of the log-odds as fine piecewise linear tables, and their averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.maps import LARGEST, BetaMap, LogitAffineMap, Map, PiecewiseLinearMap
from calibrant.numerics import LOG_ODDS_LIMIT, Ends, Floats, expit, logit
from calibrant.tallies import Tally

TABLE_ERROR, OUTER_ERROR, FEWEST_NODES, MOST_NODES = 4e-4, 5e-3, 20, 1000
"""Error of a table in log-odds, within the range of the scores and beyond it, and limits on its number of nodes."""

THIN_ERROR = 2e-3
"""Largest difference in log-odds between a table and its thinned version: less than 0.1 % in probability."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Log-odds over positions x = center + half u, where u is -1 and 1 at the ends of the data."""

    score_type: ScoreType
    ends: Ends
    """Values to which a probability is clipped before its log-odds are taken."""
    center: float
    half: float
    knots: Floats
    """Positions u between which the curve is smooth."""

    def at(self, u: Floats) -> tuple[Floats, Floats, Floats]:
        """Value, first and second derivative."""
        raise NotImplementedError

    def positions(self, u: Floats) -> Floats:
        """The log-odds, or real scores, at some positions."""
        return self.center + self.half * u

    def scores(self, u: Floats) -> Floats:
        """The scores at some positions."""
        x = self.positions(u)
        if self.score_type != "probability":
            return np.clip(x, -LARGEST, LARGEST)
        return np.asarray(np.clip(1.0 / (1.0 + np.exp(-x)), *self.ends))

    def reach(self) -> tuple[float, float]:
        """Range of the table: all log-odds of scores, or the range of real scores and as much again on either side."""
        if self.score_type == "real":
            return -3.0, 3.0
        low, high = ((logit(np.array(self.ends), self.ends) - self.center) / self.half).tolist()
        return (low, high) if self.score_type == "probability" else (min(low, -1.0), max(high, 1.0))

    def fine(self) -> Floats:
        """A fine set of positions: between knots, on the straight ends, and evenly spaced."""
        low, high = self.reach()
        parts = [np.linspace(low, high, 500), _subdivided(self.knots, 25)]
        for side, end in ((-1.0, 0), (1.0, -1)):
            value, slope, _ = (float(part[0]) for part in self.at(self.knots[end : end + 1 or None]))
            if slope > 0.0:
                reach = max(LOG_ODDS_LIMIT - side * value, 0.0) / slope
                parts.append(self.knots[end] + side * min(reach, high - low) * np.linspace(0.0, 1.0, 200))
        return np.unique(np.clip(np.concatenate(parts), low, high))


@dataclass(frozen=True, eq=False)
class BetaCurve(Curve):
    r"""The log-odds of a beta map, :math:`a \log s - b \log(1 - s) + c`; a = b is an affine one."""

    a: float
    b: float
    c: float

    @classmethod
    def of(cls, fitted: LogitAffineMap | BetaMap, tally: Tally) -> BetaCurve:
        """The curve of a fitted map, over the range of the scores."""
        ends = tally.scores[[0, -1]]
        clipped = Ends(fitted.low, fitted.high)
        low, high = logit(ends, clipped) if tally.score_type == "probability" else ends
        half = max(float(high / 2 - low / 2), 1.0)
        given = (fitted.slope, fitted.slope, fitted.intercept) if isinstance(fitted, LogitAffineMap) else None
        a, b, c = given or (fitted.a, fitted.b, fitted.c)  # type: ignore[union-attr]
        return cls(tally.score_type, clipped, float(low / 2 + high / 2), half, np.linspace(-1.0, 1.0, 24), a, b, c)

    def at(self, u: Floats) -> tuple[Floats, Floats, Floats]:
        """Value, first and second derivative."""
        x = self.positions(u)
        s = expit(x)
        value = self.b * np.logaddexp(0.0, x) - self.a * np.logaddexp(0.0, -x) + self.c
        slope = self.half * (self.a * (1.0 - s) + self.b * s)
        return value, slope, (self.b - self.a) * self.half * self.half * s * (1.0 - s)


def tabulate(curve: Curve) -> PiecewiseLinearMap:
    r"""The curve as a piecewise linear map from score to probability.

    With log-odds :math:`f(u)` of a probability p at a score s(u), a linear piece of width h has an error of at most
    about :math:`E h^2 / 8` in log-odds, :math:`E = |f'' + (1 - 2p) f'^2 - f' s'' / s'|`, so nodes have density
    :math:`\sqrt{E}`. Over log-odds :math:`s'' / s' = (1 - 2s) x'`; over real scores it is 0.
    """
    fine = curve.fine()
    middle, width = (fine[1:] + fine[:-1]) / 2, np.diff(fine)
    value, slope, bend = curve.at(middle)
    error = bend + (1.0 - 2.0 * expit(value)) * slope**2
    if curve.score_type == "probability":
        error -= slope * curve.half * (1.0 - 2.0 * curve.scores(middle))
    allowed = np.where(np.abs(middle) < 1.0, TABLE_ERROR, OUTER_ERROR)
    density = np.where(np.abs(value) < LOG_ODDS_LIMIT, np.sqrt(np.abs(error) / (8.0 * allowed)), 0.0)
    reached = np.append(0.0, np.cumsum(density * width + FEWEST_NODES / len(width)))
    count = min(MOST_NODES, int(np.ceil(reached[-1])) + 1)
    nodes = np.interp(np.linspace(0.0, reached[-1], count), reached, fine)
    scores, values = curve.scores(nodes), np.maximum.accumulate(expit(curve.at(nodes)[0]))
    new = np.append(True, scores[1:] > scores[:-1])
    return PiecewiseLinearMap(scores[new], values[new])


def averaged(maps: Sequence[Map], weights: Floats, tally: Tally) -> PiecewiseLinearMap:
    """The weighted mean of maps as one table.

    A mean of non-decreasing maps is non-decreasing, and it increases wherever one of them does.
    """
    tables = [_as_table(each, tally) for each in maps]
    knots = np.unique(np.concatenate([table.knots for table in tables]))
    values = np.einsum("k,kc->c", weights, np.stack([table.apply(knots) for table in tables]))
    return thinned(knots, np.maximum.accumulate(np.clip(values, 0.0, 1.0)))


def thinned(knots: Floats, values: Floats, error: float = THIN_ERROR) -> PiecewiseLinearMap:
    """The table with fewer knots, such that all removed ones are within ``error`` of it in log-odds.

    From each knot that is kept, the lines that pass all later knots closely enough form a wedge, which narrows from
    knot to knot. The last knot at which a line of the wedge can end is kept next.

    Examples
    --------
    >>> thinned(np.array([0.0, 0.25, 0.5, 1.0]), np.array([0.1, 0.3, 0.5, 0.6])).knots.tolist()
    [0.0, 0.5, 1.0]
    """
    slack = error * values * (1.0 - values)
    kept = [0]
    with np.errstate(over="ignore"):  # between denormal scores a slope may overflow
        while kept[-1] < len(knots) - 1:
            kept.append(_reach(knots, values, slack, kept[-1]))
    return PiecewiseLinearMap(knots[kept], values[kept])


def _reach(knots: Floats, values: Floats, slack: Floats, here: int) -> int:
    """The last knot of a straight line from ``here`` that passes all between within their slack."""
    low, high, last = -np.inf, np.inf, here + 1
    for there in range(here + 1, len(knots)):
        run, rise = knots[there] - knots[here], values[there] - values[here]
        if low <= rise / run <= high:
            last = there
        low, high = max(low, (rise - slack[there]) / run), min(high, (rise + slack[there]) / run)
        if low > high:
            break
    return last


def _as_table(fitted: Map, tally: Tally) -> PiecewiseLinearMap:
    if isinstance(fitted, PiecewiseLinearMap):
        return fitted
    if isinstance(fitted, LogitAffineMap) and (fitted.slope, fitted.intercept, fitted.on) == (1.0, 0.0, "log-odds"):
        ends = np.array([fitted.low, fitted.high])
        return PiecewiseLinearMap(ends, ends)
    if isinstance(fitted, LogitAffineMap | BetaMap):
        return tabulate(BetaCurve.of(fitted, tally))
    raise TypeError(f"a {type(fitted).__name__} is not a smooth curve or a table")


def _subdivided(breaks: Floats, times: int) -> Floats:
    """Each interval cut into ``times`` equal parts."""
    return np.interp(np.arange((len(breaks) - 1) * times + 1) / times, np.arange(len(breaks)), breaks)
