r"""Nested sets: a score r(x, y) and the sets of all y with a score of at most t, for n rows at once.

Sets :math:`F_t(x)` that grow with t and the score :math:`r(x, y) = \inf\{t : y \in F_t(x)\}` are two forms of the same.
A :class:`Nested` value has both: ``score`` of outcomes, and ``level``, the ends of the sets at a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SLACK = 2.0**-50
"""Rounding of an end, relative to its size: four units of float64, more than score and end can lose together."""


class Nested(Protocol):
    """Nested intervals of n rows: what a method needs to know of them."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def score(self, y: Floats) -> Floats:
        """Smallest t at which the set of each row holds its outcome, n numbers."""
        ...

    def level(self, t: Floats) -> tuple[Floats, Floats]:
        """Ends of the sets at thresholds: one for all rows, one for each (n) or several for each row (n x m).

        The lower end is above the upper one where the set is empty. At an infinite threshold every value is in it.
        """
        ...


@dataclass(frozen=True, eq=False)
class Band:
    r"""Nested intervals whose ends move at a constant speed, :math:`F_t(x) = [a - t c, b + t d]`.

    All intervals of Gupta (2023), Table 9.1, have this form but the distributional ones:

    - split conformal: a = b = mean, c = d = 1, t from 0;
    - locally weighted: a = b = mean, c = d = spread, t from 0;
    - CQR: a and b are quantiles, c = d = 1;
    - CQR-m: c and d are the distances of the quantiles from the median;
    - CQR-r: c = d is the distance of the quantiles.

    Parameters
    ----------
    lower, upper
        Ends a and b at t = 0.
    lower_speed, upper_speed
        Speeds c and d, not negative. An end with speed 0 does not move until t is infinite.
    least
        Where t begins: the score of a value that is in every set. 0 or minus infinity.
    slack
        Relative rounding error by which ends are moved outward; larger if the ends themselves are sums of many terms.

    Examples
    --------
    >>> band = Band.around(np.array([1.0, 2.0]))
    >>> band.score(np.array([3.0, 2.5])).tolist()
    [2.0, 0.5]
    >>> [end.round(12).tolist() for end in band.level(np.array(2.0))]
    [[-1.0, -0.0], [3.0, 4.0]]
    """

    lower: Floats
    upper: Floats
    lower_speed: Floats
    upper_speed: Floats
    least: float = -np.inf
    slack: float = SLACK

    @classmethod
    def around(cls, center: Floats, spread: Floats | None = None, slack: float = SLACK) -> Band:
        """Intervals around a center, whose radius is t or t times the spread.

        Parameters
        ----------
        center, spread, slack
            The forecast, its spread if there is one, and the rounding of ends.
        """
        middle = np.asarray(center, dtype=np.float64)
        speed = np.ones_like(middle) if spread is None else np.asarray(spread, dtype=np.float64)
        return cls(middle, middle, speed, speed, 0.0, slack)

    @classmethod
    def of_quantiles(cls, lower: Floats, upper: Floats) -> Band:
        """CQR: two quantiles that move outward by t, or inward if t is negative; also for quantiles that cross."""
        one = np.ones_like(lower)
        return cls(lower, upper, one, one)

    @classmethod
    def of_ratio(cls, lower: Floats, upper: Floats) -> Band:
        """CQR-r: two quantiles that move by t times their distance; quantiles that cross change places."""
        low, high = np.minimum(lower, upper), np.maximum(lower, upper)
        return cls(low, high, high - low, high - low)

    @classmethod
    def of_median(cls, lower: Floats, median: Floats, upper: Floats) -> Band:
        """CQR-m: each quantile moves by t times its distance from the median; quantiles that cross are put in order.

        Parameters
        ----------
        lower, median, upper
            Three quantiles.
        """
        low, middle, high = np.sort(np.stack([lower, median, upper]), axis=0)
        return cls(low, high, middle - low, high - middle)

    def __len__(self) -> int:
        return self.lower.size

    def score(self, y: Floats) -> Floats:
        """Smallest t at which the set of each row holds its outcome."""
        below = _passed(self.lower - y, self.lower_speed, self.least, self.slack * np.abs(self.lower))
        above = _passed(y - self.upper, self.upper_speed, self.least, self.slack * np.abs(self.upper))
        return np.maximum(np.maximum(below, above), self.least)

    def level(self, t: Floats) -> tuple[Floats, Floats]:
        """Ends of the sets at thresholds; rounding never makes a set lose a value whose score is at most t."""
        t = np.asarray(t, dtype=np.float64)
        shape = (-1,) + (1,) * max(t.ndim - 1, 0)
        ends = []
        for end, speed, sign in ((self.lower, self.lower_speed, -1.0), (self.upper, self.upper_speed, 1.0)):
            base, pace = end.reshape(shape), speed.reshape(shape)
            with np.errstate(invalid="ignore"):  # 0 x inf
                moved = base + sign * np.where(pace == 0.0, 0.0, t * pace)
                moved += sign * self.slack * (np.abs(moved) + np.abs(base))
            ends.append(np.where(t == np.inf, sign * np.inf, moved))
        low, high = ends
        if self.least == -np.inf:
            return low, high
        return np.where(t < self.least, np.inf, low), np.where(t < self.least, -np.inf, high)


def _passed(distance: Floats, speed: Floats, least: float, rounding: Floats) -> Floats:
    """The t at which an end that starts ``distance`` before a value reaches it.

    An end that does not move holds a value that it misses by less than its rounding, as ``level`` does: otherwise an
    exact forecast that is computed as a mean would have an infinite score.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        time = distance / speed
    return np.where(speed == 0.0, np.where((distance <= rounding) & (distance < np.inf), least, np.inf), time)
