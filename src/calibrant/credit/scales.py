"""A master scale: bands of PD, and the raw scores at which a monotone map enters each band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.calibration import as_calibration
from calibrant.credit.counts import check_pd
from calibrant.credit.records import Recorded
from calibrant.messages import InputError, Shown
from calibrant.metrics.estimates import plain
from calibrant.numerics import Floats, first_double

RAW_LIMIT = 1e6
"""Largest raw score, in absolute value, that is considered for scores that are not probabilities."""


@dataclass(frozen=True, eq=False)
class MasterScale(Recorded, Shown):
    """The result of :func:`master_scale`: grades as bands of PD and of raw scores.

    Attributes
    ----------
    names
        Grades, best first.
    pd_low, pd_high
        Ends of each band of PD; the upper end belongs to the next grade, except for that of the last.
    pd
        PD of each grade: the geometric mean of the ends of its band; half the upper end for a band from 0.
    score_low, score_high
        The smallest raw score in the band, and that of the next band; infinite if no score is that low or high. Equal
        where the map reaches no PD in the band.
    """

    names: tuple[str, ...]
    pd_low: Floats
    pd_high: Floats
    pd: Floats
    score_low: Floats
    score_high: Floats

    def assign(self, scores: ArrayLike) -> NDArray[Any]:
        """Grade of each raw score.

        Parameters
        ----------
        scores
            Raw scores, as the map takes them.
        """
        values = np.asarray(scores, dtype=np.float64)
        if np.isnan(values).any():
            raise InputError("scores", "has missing values", "drop these rows")
        place = np.searchsorted(self.score_low[1:], values, side="right")
        return np.array(self.names, dtype=object)[place]

    def records(self) -> list[dict[str, Any]]:
        """A record for each grade."""
        columns = {name: plain(getattr(self, name)) for name in _COLUMNS}
        rows = zip(self.names, *columns.values(), strict=True)
        return [dict(zip(("grade", *columns), row, strict=True)) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; ends that are not finite are None."""
        return {"grades": self.records()}

    def __str__(self) -> str:
        """A line for each grade."""
        width = max(7, *(len(name) + 2 for name in self.names))
        lines = [f"{'grade':<{width}}{'PD from %':>11}{'to %':>10}{'PD %':>10}{'score from':>13}{'to':>13}"]
        for place, name in enumerate(self.names):
            low, high, mid = (100.0 * column[place] for column in (self.pd_low, self.pd_high, self.pd))
            ends = "".join(f"{_score(column[place]):>13}" for column in (self.score_low, self.score_high))
            lines.append(f"{name:<{width}}{low:>11.4g}{high:>10.4g}{mid:>10.4g}{ends}")
        return "\n".join(lines)


_COLUMNS = ("pd_low", "pd_high", "pd", "score_low", "score_high")


def master_scale(calibration: Any, bounds: ArrayLike, *, names: Sequence[Any] | None = None) -> MasterScale:
    r"""Bands of PD as bands of raw scores, by the inverse of a monotone map.

    .. math:: s_j = \min\{s : m(s) \ge b_j\},

    where m is the map and :math:`b_1 < b_2 < \dots` are the PDs at which a new grade begins. The minimum is taken over
    floating-point numbers, so that a raw score is in the band exactly if its PD is.

    Parameters
    ----------
    calibration
        A calibration, map or fitted calibrator whose PDs do not fall as the score rises.
    bounds
        PDs at which the second, third, ... grade begins, rising, inside (0, 1).
    names
        Names of the grades, one more than bounds; 1, 2, ... when left out.

    Returns
    -------
    MasterScale
        Bands of PD and of raw scores; ``assign`` gives the grade of a score.

    Notes
    -----
    Edges: a bound above all PDs of the map has an infinite score; a map that jumps over a band leaves it empty.
    Guarantee: grade and band of the mapped PD agree for every score, with no error of rounding, if the map never falls
    in floating point. Nothing is estimated here, so there is no statistical guarantee.
    Cost: 64 passes over the bounds.
    Reference: derived here; the search is a bisection over doubles.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> scale = master_scale(LogitAffineMap(1.0, -0.5), [0.002, 0.01, 0.05], names=["A", "B", "C", "D"])
    >>> scale.assign([0.001, 0.01, 0.5]).tolist()
    ['A', 'B', 'D']
    >>> scale.score_low.round(4).tolist()
    [0.0, 0.0033, 0.0164, 0.0798]
    """
    found = as_calibration(calibration)
    edges = check_pd(bounds, "bounds")
    if edges.ndim != 1 or not len(edges) or not ((edges > 0.0) & (edges < 1.0)).all() or (np.diff(edges) <= 0.0).any():
        raise InputError("bounds", "must be rising PDs strictly between 0 and 1", "such as [0.001, 0.005, 0.02]")
    labels = tuple(str(j + 1) for j in range(len(edges) + 1)) if names is None else tuple(map(str, names))
    if len(labels) != len(edges) + 1:
        raise InputError("names", f"has {len(labels)} entries", f"pass {len(edges) + 1}: one more than bounds")
    if not found.map.direction.never_falls:
        raise InputError("calibration", "has a map whose PDs may fall as the score rises", "use a monotone map")
    low, high = (0.0, 1.0) if found.score_type == "probability" else (-RAW_LIMIT, RAW_LIMIT)

    def reached(scores: Floats) -> NDArray[np.bool_]:
        return np.asarray(found.map.apply(scores) >= edges)

    full = np.ones(len(edges))
    starts = first_double(reached, low * full, high * full)
    starts = np.where(reached(low * full), low, np.where(reached(high * full), starts, np.inf))
    lows, highs = np.append(0.0, edges), np.append(edges, 1.0)
    middle = np.where(lows > 0.0, np.sqrt(lows * highs), highs / 2.0)
    first = low if found.score_type == "probability" else -np.inf
    last = high if found.score_type == "probability" else np.inf
    return MasterScale(labels, lows, highs, middle, np.append(first, starts), np.append(starts, last))


def _score(value: float) -> str:
    return "" if not np.isfinite(value) else f"{value:.6g}"
